/* SPDX-License-Identifier: MIT */
/* LTTng-UST traces if a daemon has a session with the events. A process beside the rows starts one,
 * with files of its own, and ends it when the parent of this process has ended, in whatever way:
 * that is the command, which starts all rows. If root, or this user, has a daemon already, that one
 * gets the session. Its rings are as large as those of the other rows, and overwrite. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "trace.h"

#define READY_MS 10000
#define STEP_MS 20

static char home[64], session[40], output[80];

/* ---- programs, without output ---- */

static pid_t program_start(const char *const *argv)
{
	pid_t pid = fork();
	int null;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* The exit status; 255: it had none. */
static int finish(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 255;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

#define RUN(...) finish(program_start((const char *const[]){__VA_ARGS__, NULL}))

/* ---- the daemon ---- */

static bool answers(void) { return RUN("lttng", "--no-sessiond", "list") == 0; }

/* 0: there is one already. -1: there is none. */
static pid_t start_daemon(void)
{
	pid_t pid;

	if (answers())
		return 0;
	pid = program_start(
		(const char *const[]){"lttng-sessiond", "--no-kernel", "--quiet", NULL});
	for (int ms = 0; ms < READY_MS && !waitpid(pid, NULL, WNOHANG); ms += STEP_MS) {
		if (answers())
			return pid;
		poll(NULL, 0, STEP_MS);
	}
	if (kill(pid, SIGTERM) == 0)
		finish(pid);
	return -1;
}

/* Where the kernel has no such descriptors, by looking now and then. */
static void wait_for_end(pid_t pid)
{
	struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

	while (poll(&p, p.fd >= 0, p.fd >= 0 ? -1 : 10 * STEP_MS) <= 0 && kill(pid, 0) == 0)
		;
}

/* Ctrl-C and the end of the row, which kills its process group, do not reach it. */
__attribute__((noreturn)) static void guard(pid_t command, int ready)
{
	pid_t own;

	setsid();
	prctl(PR_SET_NAME, "nearcpu-lttng");
	dup2(ready, STDIN_FILENO);
	syscall(SYS_close_range, STDOUT_FILENO, ~0U, 0);
	own = start_daemon();
	if (own >= 0 && write(STDIN_FILENO, "", 1) == 1) {
		close(STDIN_FILENO);
		wait_for_end(command);
	}
	RUN("lttng", "--no-sessiond", "destroy", session);
	if (own > 0) {
		kill(own, SIGTERM);
		finish(own);
	}
	RUN("rm", "-rf", home);
	_exit(0);
}

/* Begins with the first row of the command that needs it. */
static bool begin_guard(pid_t command)
{
	int ready[2];
	char byte;
	bool is_ready;

	if (mkdir(home, 0700))
		return errno == EEXIST;
	if (pipe(ready))
		return false;
	if (fork() == 0)
		guard(command, ready[1]);
	close(ready[1]);
	is_ready = read(ready[0], &byte, 1) == 1;
	close(ready[0]);
	return is_ready;
}

/* ---- the session ---- */

static bool is_own(const char *path)
{
	struct stat s;

	return lstat(path, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid();
}

static const char *make_session(bool with_thread)
{
	RUN("lttng", "--no-sessiond", "destroy", session);
	if (RUN("lttng", "--no-sessiond", "create", session, "--snapshot", output))
		return "lttng create failed";
	if (RUN("lttng", "enable-channel", "-u", "-s", session, "--overwrite", "--subbuf-size=64k",
		"--num-subbuf=16", "rings"))
		return "lttng enable-channel failed";
	if (with_thread &&
	    RUN("lttng", "add-context", "-u", "-s", session, "-c", "rings", "-t", "vtid"))
		return "lttng add-context failed";
	if (RUN("lttng", "enable-event", "-u", "-s", session, "-c", "rings", "near_bench:*"))
		return "lttng enable-event failed";
	return RUN("lttng", "start", session) ? "lttng start failed" : NULL;
}

static void make_names(pid_t command)
{
	snprintf(home, sizeof(home), "/tmp/nearcpu-lttng-%ld", (long)command);
	snprintf(session, sizeof(session), "nearcpu-bench-%ld", (long)command);
	snprintf(output, sizeof(output), "--output=%s/traces", home);
	setenv("LTTNG_HOME", home, 1);
}

const char *trace_lttng_begin(bool with_thread)
{
	pid_t command = getppid();

	make_names(command);
	if (RUN("lttng", "--version") || RUN("lttng-sessiond", "--version"))
		return "not installed: ./dev bench has it (package lttng-tools)";
	if (!begin_guard(command) || !is_own(home))
		return "lttng-sessiond did not start";
	return make_session(with_thread);
}

void trace_lttng_end(void)
{
	make_names(getppid());
	if (is_own(home))
		RUN("lttng", "--no-sessiond", "destroy", session);
}
