/* SPDX-License-Identifier: MIT */
/* Programs that end this process with them: their signals, their end, their privileges. */
#include "common/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/tool.h"

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

/* Whether it has ended; *stop: it was stopped. */
static bool reap(struct launch_end *end, bool *stop)
{
	pid_t pid;

	do
		pid = wait4(end->pid, &end->status, WNOHANG | WUNTRACED, &end->usage);
	while (pid < 0 && errno == EINTR);
	*stop = pid == end->pid && WIFSTOPPED(end->status);
	return pid == end->pid && !*stop;
}

int launch_with_signals(struct spawn *program, struct launch_end *end)
{
	double started = now_seconds();
	bool stop = false, terminal = false;
	int err;

	program->mask = &before;
	err = spawn(program, &end->pid);
	if (err)
		return err;
	for (;;) {
		siginfo_t info;
		int sig = launch_signal(&info, NULL);

		if (sig != SIGCHLD) {
			launch_forward(end->pid, sig, &info, &terminal);
			continue;
		}
		if (reap(end, &stop))
			break;
		if (stop)
			launch_stop_too(WSTOPSIG(end->status), &terminal);
	}
	end->wall_s = now_seconds() - started;
	return 0;
}

static int wait_apart(pid_t pid, const sigset_t *ending, double until, int *by)
{
	for (;;) {
		double left = until - now_seconds();
		struct timespec ts = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
		siginfo_t info, now = {0};
		int sig = left > 0 ? sigtimedwait(ending, &info, &ts) : 0;

		if (left <= 0)
			return -ETIME;
		if (sig > 0 && sig != SIGCHLD) {
			*by = sig;
			return -EINTR;
		}
		waitid(P_PID, (id_t)pid, &now, WEXITED | WSTOPPED | WNOHANG | WNOWAIT);
		if (now.si_pid == pid && now.si_code != CLD_STOPPED)
			return 0;
		if (now.si_pid == pid && (now.si_status == SIGTTIN || now.si_status == SIGTTOU))
			return -ENOTTY;
	}
}

int launch_apart(const struct spawn *program, const sigset_t *ending, double timeout_s,
		 struct launch_end *end, int *by)
{
	double started = now_seconds();
	int err = spawn(program, &end->pid);

	if (err)
		return err;
	err = wait_apart(end->pid, ending, started + timeout_s, by);
	end->wall_s = now_seconds() - started;
	if (err)
		kill(-end->pid, SIGKILL);
	spawn_end(end->pid, &end->status, &end->usage);
	return err;
}

/* ---- reports ---- */

int launch_failure(const char *sub, const char *name, int err)
{
	failure(sub, "cannot run '%s': %s", name, strerror(-err));
	return err == -ENOENT ? LAUNCH_NOT_FOUND : LAUNCH_CANNOT;
}

void launch_print_end(const char *sub, const char *name, int status)
{
	bool killed = WIFSIGNALED(status);

	fprintf(stderr, "nearcpu %s: %s: %s %d\n", sub, name,
		killed ? "killed by signal" : "exit status",
		killed ? WTERMSIG(status) : WEXITSTATUS(status));
}

void launch_end_json(json_t *json, int status)
{
	json_object_set_new(json, "exit_status", json_integer(launch_exit_code(status)));
	if (WIFSIGNALED(status))
		json_object_set_new(json, "signal", json_integer(WTERMSIG(status)));
}

json_t *launch_arguments_json(char *const *argv)
{
	json_t *all = json_array();

	for (; *argv; argv++) {
		json_t *word = json_string(*argv);

		json_array_append_new(all, word ? word : json_null());
	}
	return all;
}

int launch_exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void launch_end_as(int status, int code)
{
	struct rlimit none = {0, 0};
	sigset_t one;

	fflush(NULL);
	if (code && launch_exit_code(status) == 0)
		exit(code);
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
