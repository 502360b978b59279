/* SPDX-License-Identifier: MIT */
/* Programs that end this process with them: their signals, their end, their privileges. */
#include "common/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const int signals[] = {SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGUSR1, SIGUSR2,
			      SIGTSTP, SIGCONT, SIGWINCH, SIGALRM, SIGCHLD};
static sigset_t waited, before;

const char *launch_rights(const char *path)
{
	struct statvfs fs;
	struct stat st;

	if (stat(path, &st) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
	    (statvfs(path, &fs) == 0 && fs.f_flag & ST_NOSUID))
		return NULL;
	if (st.st_mode & S_ISUID && st.st_uid != getuid())
		return "setuid";
	if ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getgid())
		return "setgid";
	if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
		return "capabilities";
	return NULL;
}

void launch_begin(void)
{
	sigemptyset(&waited);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&waited, signals[i]);
	sigprocmask(SIG_BLOCK, &waited, &before);
}

const sigset_t *launch_mask(void)
{
	return &before;
}

int launch_signal(siginfo_t *info, const struct timespec *timeout)
{
	int sig;

	do
		sig = sigtimedwait(&waited, info, timeout);
	while (sig < 0 && errno == EINTR);
	return sig >= 0 ? sig : errno == EAGAIN ? 0 : SIGCHLD;
}

void launch_stop_too(int by, bool *terminal)
{
	if (*terminal || by != SIGSTOP)
		raise(SIGSTOP);
	*terminal = false;
}

void launch_forward(pid_t program, int sig, const siginfo_t *info, bool *terminal)
{
	if (info->si_code > 0 && sig != SIGCONT)
		*terminal |= sig == SIGTSTP;
	else
		kill(program, sig);
}

int launch_exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void launch_end_as(int status)
{
	struct rlimit none = {0, 0};
	sigset_t one;

	fflush(NULL);
	if (WIFSIGNALED(status)) {
		/* The program has left the core, if one was wanted. */
		setrlimit(RLIMIT_CORE, &none);
		signal(WTERMSIG(status), SIG_DFL);
		sigemptyset(&one);
		sigaddset(&one, WTERMSIG(status));
		sigprocmask(SIG_UNBLOCK, &one, NULL);
		raise(WTERMSIG(status));
	}
	exit(launch_exit_code(status));
}
