/* SPDX-License-Identifier: MIT */
/* usage: trace_sched N [child|kill|wait|storm]
 *
 * A thread "sleeper" traces an event, sleeps and traces another one, N times. Then it ends, or
 * kills itself; "child": a child of fork does that; "wait": it does so until a signal ends it;
 * "storm": after a line of input two threads wake each other N times, and after another one it
 * sleeps once. */
#define _GNU_SOURCE
#include <nearcpu/trace.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

NEAR_TRACEPOINT(nap, begin, NEAR_TRACE_INFO, (u32, n));
NEAR_TRACEPOINT(nap, end, NEAR_TRACE_INFO, (u32, n));

static unsigned long naps;
static int pipes[2][2];

static void *sleeper(void *arg)
{
	const struct timespec pause = {.tv_nsec = 300000};

	(void)arg;
	pthread_setname_np(pthread_self(), "sleeper");
	for (uint32_t n = 0; n < naps; n++) {
		near_trace_nap_begin(n);
		nanosleep(&pause, NULL);
		near_trace_nap_end(n);
	}
	return NULL;
}

static void *storm(void *arg)
{
	int i = arg != NULL;
	char byte = 0;

	for (unsigned long n = 0; n < naps; n++)
		if (write(pipes[i][1], &byte, 1) != 1 || read(pipes[!i][0], &byte, 1) != 1)
			exit(1);
	return NULL;
}

static void say_and_wait(const char *what)
{
	puts(what);
	fflush(stdout);
	getchar();
}

static void run(void *(*thread)(void *), unsigned count)
{
	pthread_t threads[2];

	for (uintptr_t i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, thread, (void *)i);
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";
	pid_t child = 0;

	naps = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	if (strcmp(what, "child") == 0 && (child = fork()))
		return wait(NULL) != child;
	if (strcmp(what, "storm") == 0) {
		if (pipe(pipes[0]) || pipe(pipes[1]))
			return 1;
		say_and_wait("ready");
		run(storm, 2);
		say_and_wait("stormed");
		naps = 1;
	}
	do
		run(sleeper, 1);
	while (strcmp(what, "wait") == 0 && puts("slept") > 0 && fflush(stdout) == 0);
	if (strcmp(what, "kill") == 0)
		raise(SIGKILL);
	return 0;
}
