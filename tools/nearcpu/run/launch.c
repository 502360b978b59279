/* SPDX-License-Identifier: MIT */
/* Starting the program, and waiting for it: with --stats in the process group of this process, with
 * --compare in one of its own. */
#include "run/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "common/clock.h"

static int interrupted;

int run_signal(void)
{
	return interrupted;
}

static int start(struct spawn *program, pid_t *pid)
{
	program->mask = launch_mask();
	return spawn(program, pid);
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

int run_with_signals(struct spawn *program, struct run_end *end)
{
	double started = now_seconds();
	bool stop = false, terminal = false;
	int err = start(program, &end->pid);

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

static bool ends_the_run(int sig)
{
	return sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;
}

/* 0: it ended; else why it has to be ended. */
static int wait_apart(pid_t pid)
{
	for (;;) {
		siginfo_t info, now = {0};
		int sig = launch_signal(&info, NULL);

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
