/* SPDX-License-Identifier: MIT */
#include "common/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t caught;
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

static void on_signal(int sig)
{
	caught = sig;
}

void child_catch_signals(void)
{
	/* Without SA_RESTART: a write that blocks is left, too. */
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
	size_t len = text ? strlen(text) : 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != (ssize_t)len || lseek(fd, 0, SEEK_SET)) {
		close(fd);
		return -ENOSPC;
	}
	return fd;
}

struct descriptors {
	int in, err; /* files in memory */
	int out[2];  /* a pipe */
	int exec[2]; /* tells that exec failed; closed when it did not */
};

static void close_all(struct descriptors *d)
{
	int fds[] = {d->in, d->err, d->out[0], d->out[1], d->exec[0], d->exec[1]};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static int open_all(struct descriptors *d, const char *input)
{
	*d = (struct descriptors){-1, -1, {-1, -1}, {-1, -1}};
	d->in = input ? memory_file(input) : open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (d->in < 0)
		return input ? d->in : -errno;
	d->err = memory_file(NULL);
	if (d->err < 0)
		return d->err;
	return pipe2(d->out, O_CLOEXEC) || pipe2(d->exec, O_CLOEXEC) ? -errno : 0;
}

/* In a process group of its own: Ctrl-C reaches us alone, and we end all that it started. */
static void become(const struct child *child, const struct descriptors *d, const sigset_t *mask,
		   pid_t parent)
{
	char *const *argv;
	int err;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	for (const char *const *set = child->set; set && set[0]; set += 2)
		setenv(set[0], set[1], 1);
	dup2(d->in, STDIN_FILENO);
	dup2(d->out[1], STDOUT_FILENO);
	dup2(d->err, STDERR_FILENO);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	for (size_t i = 0; i < SIGNALS; i++)
		signal(signals[i], SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	/* exec promises not to write, its prototype does not. */
	memcpy(&argv, &child->argv, sizeof(argv));
	execvp(argv[0], argv);
	err = errno;
	if (write(d->exec[1], &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

/* Waits until the pipe has something; the signals get through in here alone, so none is missed. */
static int wait_readable(int fd, long long until, const sigset_t *mask)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	long long left = until - now_ms();
	struct timespec ts = {left / 1000, left % 1000 * 1000000};
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
	long long until = now_ms() + timeout_s * 1000LL;
	ssize_t n = 1;

	*out = NULL;
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

static int started(struct descriptors *d)
{
	int err = 0;

	close(d->out[1]);
	close(d->exec[1]);
	d->out[1] = d->exec[1] = -1;
	return read(d->exec[0], &err, sizeof(err)) == sizeof(err) ? -err : 0;
}

static int run_with(const struct child *child, struct descriptors *d, const sigset_t *mask,
		    struct child_result *out)
{
	pid_t parent = getpid(), pid = fork();
	siginfo_t ended;
	int err;

	if (pid < 0)
		return -errno;
	if (!pid)
		become(child, d, mask, parent);
	setpgid(pid, pid);
	err = started(d);
	if (!err)
		err = read_all(d->out[0], &out->out, child->timeout_s, mask);
	if (err)
		kill(-pid, SIGKILL);
	/* While it is a zombie its number is still taken, so this kills what it left and
	 * nothing else. */
	while (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		continue;
	kill(-pid, SIGKILL);
	while (waitpid(pid, &out->status, 0) < 0 && errno == EINTR)
		continue;
	read_error(d->err, out);
	return err;
}

int child_run(const struct child *child, struct child_result *out)
{
	struct descriptors d;
	sigset_t block, before;
	int err;

	memset(out, 0, sizeof(*out));
	sigemptyset(&block);
	for (size_t i = 0; i < SIGNALS; i++)
		sigaddset(&block, signals[i]);
	sigprocmask(SIG_BLOCK, &block, &before);
	err = open_all(&d, child->input);
	if (!err)
		err = run_with(child, &d, &before, out);
	close_all(&d);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (err) {
		free(out->out);
		out->out = NULL;
	}
	return err;
}
