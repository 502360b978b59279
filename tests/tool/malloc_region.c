/* SPDX-License-Identifier: MIT */
/* What malloc_region_test.py drives: each line of standard input is a command, and is answered when
 * it is done. It is linked with no part of the library. */
#define _GNU_SOURCE
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *volatile *kept;
static size_t n_kept;
static pid_t child;
static unsigned born; /* ms */

static void keep(size_t n, size_t size)
{
	kept = realloc((void *)kept, (n_kept + n) * sizeof(*kept));
	for (size_t i = 0; i < n; i++)
		kept[n_kept++] = malloc(size);
}

static void drop(void)
{
	while (n_kept)
		free(kept[--n_kept]);
}

static unsigned now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

/* Slow paths, for as long as no publication may be due: an eighth of the time that the process has
 * had, at most a second; and some more. */
static void publish(void)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	unsigned begin = now_ms(), wait = (begin - born) / 7 + 60;

	while (now_ms() - begin < (wait < 1100 ? wait : 1100)) {
		void *volatile p = malloc(200000);

		free(p);
		nanosleep(&pause, NULL);
	}
}

static void wait_for_end(int sig)
{
	if (sig)
		kill(child, sig);
	waitpid(child, NULL, 0);
}

static void begin_child(void)
{
	int ready[2];
	char byte = 0;

	if (pipe(ready))
		abort();
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		born = now_ms();
		publish();
		if (write(ready[1], &byte, 1) == 1)
			pause();
		_exit(0);
	}
	if (read(ready[0], &byte, 1) != 1)
		abort();
	close(ready[0]);
	close(ready[1]);
	printf("done %d\n", (int)child);
}

/* Its child uses the heap of its parent. */
static void begin_vfork(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		for (unsigned i = 0; i < 1000; i++) {
			void *volatile p = malloc(200000);

			free(p);
		}
		execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

static void obey(const char *line, char **argv)
{
	char folder[4096];
	size_t n, size;

	if (sscanf(line, "keep %zu %zu", &n, &size) == 2)
		keep(n, size);
	else if (strcmp(line, "drop\n") == 0)
		drop();
	else if (strcmp(line, "trim\n") == 0)
		malloc_trim(0);
	else if (strcmp(line, "publish\n") == 0)
		publish();
	else if (strcmp(line, "end\n") == 0)
		wait_for_end(SIGTERM);
	else if (strcmp(line, "kill\n") == 0)
		wait_for_end(SIGKILL);
	else if (strcmp(line, "close\n") == 0)
		closefrom(3);
	else if (sscanf(line, "chroot %4000s", folder) == 1 && (chroot(folder) || chdir("/")))
		abort();
	else if (strcmp(line, "vfork\n") == 0)
		begin_vfork();
	if (strcmp(line, "fork\n") == 0)
		begin_child();
	else
		printf("done\n");
	fflush(stdout);
	if (strcmp(line, "exec\n") == 0)
		execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	char line[4096];

	(void)argc;
	born = now_ms();
	setvbuf(stdin, NULL, _IONBF, 0);
	while (fgets(line, sizeof(line), stdin))
		obey(line, argv);
	return 0;
}
