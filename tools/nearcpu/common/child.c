/* SPDX-License-Identifier: MIT */
/* Running a program whose output is collected in memory. */
#include "common/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/spawn.h"

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

/* A file in memory with `text` in it, at its start. */
static int memory_file(const char *text)
{
	int fd = memfd_create("nearcpu", MFD_CLOEXEC);
	size_t len = strlen(text);

	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != (ssize_t)len || lseek(fd, 0, SEEK_SET)) {
		close(fd);
		return -ENOSPC;
	}
	return fd;
}

/* Waits until the pipe is readable. The signals are unblocked in here alone, so none is missed. */
static int wait_readable(int fd, double until, const sigset_t *mask)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	double left = until - now_seconds();
	struct timespec ts = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
	int n;

	if (caught)
		return -EINTR;
	if (left <= 0)
		return -ETIME;
	n = ppoll(&poll_fd, 1, &ts, mask);
	if (n < 0)
		return caught || errno != EINTR ? -errno : 0;
	return n ? 1 : -ETIME;
}

static int read_all(int fd, char **out, unsigned timeout_s, const sigset_t *mask)
{
	size_t size = 0, room = 0;
	double until = now_seconds() + timeout_s;
	ssize_t n = 1;

	while (n) {
		int ready = wait_readable(fd, until, mask);

		if (ready < 0)
			return ready;
		if (!ready)
			continue;
		if (room - size < 4096) {
			char *larger = realloc(*out, room += 65536);

			if (!larger)
				return -ENOMEM;
			*out = larger;
		}
		n = read(fd, *out + size, room - size - 1);
		if (n < 0)
			return -errno;
		size += (size_t)n;
	}
	(*out)[size] = 0;
	return 0;
}

static void read_error(int fd, struct child_result *out)
{
	ssize_t n = pread(fd, out->said, sizeof(out->said) - 1, 0);

	out->said[n > 0 ? n : 0] = 0;
	snprintf(out->error, sizeof(out->error), "%.*s", (int)strcspn(out->said, "\n"), out->said);
}

/* `out` is a pipe; its writing end belongs to the program alone. */
static int run_with(const struct child *child, struct spawn *s, int out[2],
		    struct child_result *result)
{
	struct rusage usage;
	pid_t pid;
	int err;

	s->out = out[1];
	err = spawn(s, &pid);
	close(out[1]);
	if (!err) {
		err = read_all(out[0], &result->out, child->timeout_s, s->mask);
		if (err)
			kill(-pid, SIGKILL);
		spawn_end(pid, &result->status, &usage);
		read_error(s->err, result);
	}
	close(out[0]);
	return err;
}

static int run_with_files(const struct child *child, const sigset_t *mask,
			  struct child_result *result)
{
	/* A process group of its own: Ctrl-C reaches this process alone, which ends the group. */
	struct spawn s = {.set = child->set, .apart = true, .mask = mask};
	int out[2], err;

	memcpy(&s.argv, &child->argv, sizeof(s.argv)); /* exec's prototype lacks a const */
	s.in = memory_file(child->input ? child->input : "");
	s.err = memory_file("");
	err = s.in < 0 ? s.in : s.err < 0 ? s.err : pipe2(out, O_CLOEXEC) ? -errno : 0;
	if (!err)
		err = run_with(child, &s, out, result);
	if (s.in >= 0)
		close(s.in);
	if (s.err >= 0)
		close(s.err);
	return err;
}

int child_run(const struct child *child, struct child_result *result)
{
	sigset_t block, before;
	int err;

	memset(result, 0, sizeof(*result));
	sigemptyset(&block);
	for (size_t i = 0; i < SIGNALS; i++)
		sigaddset(&block, signals[i]);
	sigprocmask(SIG_BLOCK, &block, &before);
	err = run_with_files(child, &before, result);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (err) {
		free(result->out);
		result->out = NULL;
	}
	return err;
}
