/* SPDX-License-Identifier: MIT */
/* Running a program whose output is collected in memory. */
#include "common/child.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/launch.h"
#include "common/tool.h"

static volatile sig_atomic_t caught;
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

static void on_signal(int sig)
{
	caught = sig;
}

void child_catch_signals(void)
{
	/* Without SA_RESTART: a write that blocks is interrupted, too. */
	struct sigaction action = {.sa_handler = on_signal}, old;

	for (size_t i = 0; i < SIGNALS; i++)
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
}

int child_interrupted(void)
{
	return caught;
}

int child_report_interrupt(const char *sub)
{
	if (!caught)
		return EXIT_DONE;
	failure(sub, "interrupted");
	return 128 + caught;
}

/* An empty file in memory. */
static int memory_file(void)
{
	int fd = memfd_create("nearcpu", MFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* The file as a string. */
static int read_output(int fd, char **out)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st))
		return -errno;
	*out = malloc((size_t)st.st_size + 1);
	if (!*out)
		return -ENOMEM;
	n = pread(fd, *out, (size_t)st.st_size, 0);
	(*out)[n > 0 ? n : 0] = 0;
	return n < 0 ? -errno : 0;
}

static void read_error(int fd, struct child_result *out)
{
	ssize_t n = pread(fd, out->said, sizeof(out->said) - 1, 0);

	out->said[n > 0 ? n : 0] = 0;
	snprintf(out->error, sizeof(out->error), "%.*s", (int)strcspn(out->said, "\n"), out->said);
}

static int run_in_memory(const struct child *child, const sigset_t *ending, const sigset_t *mask,
			 struct child_result *result, int *by)
{
	/* A process group of its own: Ctrl-C reaches this process alone, which ends the group. */
	struct spawn s = {.set = child->set, .apart = true, .mask = mask};
	struct launch_end end = {0};
	int err;

	memcpy(&s.argv, &child->argv, sizeof(s.argv)); /* exec's prototype lacks a const */
	s.in = memory_file();
	s.out = memory_file();
	s.err = memory_file();
	err = s.in < 0 ? s.in : s.out < 0 ? s.out : s.err < 0 ? s.err : 0;
	if (!err)
		err = launch_apart(&s, ending, child->timeout_s, &end, by);
	result->status = end.status;
	if (s.err >= 0)
		read_error(s.err, result);
	if (!err)
		err = read_output(s.out, &result->out);
	for (int fds[] = {s.in, s.out, s.err}, i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return err;
}

int child_run(const struct child *child, struct child_result *result)
{
	struct sigaction action;
	sigset_t ending, before;
	int err, by = 0;

	memset(result, 0, sizeof(*result));
	if (caught)
		return -EINTR;
	sigemptyset(&ending);
	sigaddset(&ending, SIGCHLD);
	for (size_t i = 0; i < SIGNALS; i++)
		if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&ending, signals[i]);
	sigprocmask(SIG_BLOCK, &ending, &before);
	err = run_in_memory(child, &ending, &before, result, &by);
	if (by)
		raise(by); /* for the handler, or the default action */
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err;
}
