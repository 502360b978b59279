/* SPDX-License-Identifier: MIT */
/* Starting a program by fork and exec. fork, as posix_spawn has no PR_SET_PDEATHSIG; and a program
 * that is started by vfork counts this process's memory as its own peak. */
#include "common/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/tool.h"

#define MAX_SET 8

static bool sets(const char *entry, const char *name)
{
	size_t len = strlen(name);

	return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

static bool is_replaced(const char *entry, const char *const *set)
{
	for (; *set; set += 2)
		if (sets(entry, set[0]))
			return true;
	return false;
}

/* The environment of the program. Made before fork, so that the page faults of setenv do not count
 * as the program's. */
struct environment {
	char **all;
	char *added[MAX_SET];
	size_t added_count;
};

static bool make_environment(struct environment *e, const char *const *set)
{
	static const char *const nothing[] = {NULL};
	size_t n = 0;

	set = set ? set : nothing;
	while (environ[n])
		n++;
	*e = (struct environment){.all = calloc(n + MAX_SET + 1, sizeof(*e->all))};
	if (!e->all)
		return false;
	n = 0;
	for (char **entry = environ; *entry; entry++)
		if (!is_replaced(*entry, set))
			e->all[n++] = *entry;
	for (; *set; set += 2) {
		if (asprintf(&e->added[e->added_count], "%s=%s", set[0], set[1]) < 0)
			return false;
		e->all[n++] = e->added[e->added_count++];
	}
	return true;
}

static void free_environment(struct environment *e)
{
	for (size_t i = 0; i < e->added_count; i++)
		free(e->added[i]);
	free(e->all);
}

static int execute(const struct spawn *s, char **environment)
{
	tool_restore_signals();
	if (s->mask)
		sigprocmask(SIG_SETMASK, s->mask, NULL);
	execvpe(s->argv[0], s->argv, environment);
	return -errno;
}

int spawn_become(const struct spawn *s)
{
	struct environment e;
	int err = make_environment(&e, s->set) ? execute(s, e.all) : -ENOMEM;

	free_environment(&e);
	return err;
}

/* `failed` is a pipe that exec closes; it reports the errno of an exec that failed. */
__attribute__((noreturn)) static void in_child(const struct spawn *s, char **environment,
					       int failed, pid_t parent)
{
	int fds[] = {s->in, s->out, s->err}, err;

	if (s->apart) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(127);
	}
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0)
			dup2(fds[i], i);
	err = execute(s, environment);
	if (write(failed, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

static int spawn_start(const struct spawn *s, char **environment, pid_t *pid)
{
	pid_t parent = getpid();
	int failed[2], err = 0;

	if (pipe2(failed, O_CLOEXEC))
		return -errno;
	*pid = fork();
	if (*pid == 0)
		in_child(s, environment, failed[1], parent);
	if (*pid < 0)
		err = -errno;
	else if (s->apart)
		setpgid(*pid, *pid); /* whichever of the two processes is the first */
	close(failed[1]);
	if (!err && read(failed[0], &err, sizeof(err)) != sizeof(err))
		err = 0;
	close(failed[0]);
	if (err && *pid > 0)
		waitpid(*pid, NULL, 0);
	return err;
}

int spawn(const struct spawn *s, pid_t *pid)
{
	struct environment e;
	int err = make_environment(&e, s->set) ? 0 : -ENOMEM;

	fflush(NULL);
	if (!err)
		err = spawn_start(s, e.all, pid);
	free_environment(&e);
	return err;
}

void spawn_end(pid_t pid, int *status, struct rusage *usage)
{
	siginfo_t ended;

	/* The number of a zombie is not reused: the signal reaches the rest of the group only. */
	while (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		continue;
	kill(-pid, SIGKILL);
	while (wait4(pid, status, 0, usage) < 0 && errno == EINTR)
		continue;
}
