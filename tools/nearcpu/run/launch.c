/* SPDX-License-Identifier: MIT */
/* Starting the program, and waiting for it.
 *
 * With --stats it stays in the process group of this process, so that the terminal's signals reach
 * both: the program acts on them, this process does not. A signal that was sent to this process
 * alone is forwarded. When the terminal stops the program this process stops, too, so that the
 * shell sees one job. */
#include "run/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "common/clock.h"

static const int signals[] = {SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGUSR1, SIGUSR2,
			      SIGTSTP, SIGCONT, SIGWINCH, SIGALRM, SIGCHLD};
static sigset_t waited, before;
static int interrupted;

void run_begin(void)
{
	sigemptyset(&waited);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&waited, signals[i]);
	sigprocmask(SIG_BLOCK, &waited, &before);
}

int run_signal(void)
{
	return interrupted;
}

static int start(struct spawn *program, pid_t *pid)
{
	program->mask = &before;
	return spawn(program, pid);
}

/* The next signal; SIGCHLD if sigwaitinfo fails. */
static int next_signal(siginfo_t *info)
{
	int sig;

	do
		sig = sigwaitinfo(&waited, info);
	while (sig < 0 && errno == EINTR);
	return sig < 0 ? SIGCHLD : sig;
}

/* Whether it has ended. */
static bool reap(struct run_end *end, bool *stop)
{
	pid_t pid;

	do
		pid = wait4(end->pid, &end->status, WNOHANG | WUNTRACED, &end->usage);
	while (pid < 0 && errno == EINTR);
	*stop = pid == end->pid && WIFSTOPPED(end->status);
	return pid == end->pid && !*stop;
}

/* A SIGSTOP that was sent to the program alone does not stop this process. */
static void stop_too(int by, bool *terminal)
{
	if (*terminal || by != SIGSTOP)
		raise(SIGSTOP);
	*terminal = false;
}

static void forward(pid_t pid, int sig, const siginfo_t *info, bool *terminal)
{
	if (info->si_code > 0 && sig != SIGCONT)
		*terminal |= sig == SIGTSTP;
	else
		kill(pid, sig);
}

int run_with_signals(struct spawn *program, struct run_end *end)
{
	double started = now_seconds();
	bool stop = false, terminal = false;
	int err = start(program, &end->pid);

	if (err)
		return err;
	for (;;) {
		siginfo_t info;
		int sig = next_signal(&info);

		if (sig != SIGCHLD) {
			forward(end->pid, sig, &info, &terminal);
			continue;
		}
		if (reap(end, &stop))
			break;
		if (stop)
			stop_too(WSTOPSIG(end->status), &terminal);
	}
	end->wall_s = now_seconds() - started;
	return 0;
}

static bool ends_the_run(int sig)
{
	return sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;
}

/* 0: it ended; else why it has to be ended. */
static int wait_apart(pid_t pid)
{
	for (;;) {
		siginfo_t info, now = {0};
		int sig = next_signal(&info);

		if (ends_the_run(sig)) {
			interrupted = sig;
			return -EINTR;
		}
		if (sig != SIGCHLD)
			continue;
		waitid(P_PID, (id_t)pid, &now, WEXITED | WSTOPPED | WNOHANG | WNOWAIT);
		if (now.si_pid == pid && now.si_code != CLD_STOPPED)
			return 0;
		if (now.si_pid == pid && (now.si_status == SIGTTIN || now.si_status == SIGTTOU))
			return -ENOTTY;
	}
}

int run_apart(struct spawn *program, struct run_end *end)
{
	double started = now_seconds();
	int err = start(program, &end->pid);

	if (err)
		return err;
	err = wait_apart(end->pid);
	end->wall_s = now_seconds() - started;
	if (err)
		kill(-end->pid, SIGKILL);
	spawn_end(end->pid, &end->status, &end->usage);
	return err;
}

int run_exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void run_end_as(int status)
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
	exit(run_exit_code(status));
}
