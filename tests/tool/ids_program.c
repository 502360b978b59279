/* SPDX-License-Identifier: MIT */
/* What nearcpu ids is tried on: ids_program SCENARIO [N]. Its threads and processes are known; the
 * test compiles it, so that no sanitizer adds any. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 1000

static pthread_barrier_t barrier;

static void compute(long us)
{
	struct timespec ts;

	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	while (ts.tv_sec * 1000000 + ts.tv_nsec / 1000 < us);
}

static void *alive_together(void *none)
{
	(void)none;
	compute(3000);
	pthread_barrier_wait(&barrier);
	return NULL;
}

/* On the n-th of the CPUs that this process may use. */
static void *pinned(void *n)
{
	cpu_set_t all, one;
	long left, cpu = -1;

	sched_getaffinity(0, sizeof(all), &all);
	for (left = (long)n % CPU_COUNT(&all); left >= 0; left--)
		while (!CPU_ISSET(++cpu, &all))
			continue;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		_exit(1);
	return alive_together(NULL);
}

static void *named(void *name)
{
	prctl(PR_SET_NAME, name);
	return NULL;
}

static void *execute(void *program)
{
	execl(program, "ids_program", "nothing", NULL);
	_exit(1);
}

static void start_together(void *(*run)(void *), long n)
{
	pthread_t threads[MOST];

	pthread_barrier_init(&barrier, NULL, (unsigned)n + 1);
	for (long i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			_exit(1);
	pthread_barrier_wait(&barrier);
	for (long i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void start_in_turn(void *(*run)(void *), void *data, long n)
{
	pthread_t thread;

	for (; n; n--)
		if (pthread_create(&thread, NULL, run, data) || pthread_join(thread, NULL))
			_exit(1);
}

static void fork_in_turn(long n)
{
	for (; n; n--) {
		if (fork() == 0)
			_exit(0);
		wait(NULL);
	}
}

static void spawn_in_turn(char *program, long n)
{
	char *argv[] = {program, "nothing", NULL};
	pid_t pid;

	for (; n; n--) {
		if (posix_spawn(&pid, program, NULL, NULL, argv, NULL))
			_exit(1);
		waitpid(pid, NULL, 0);
	}
}

/* A shell's part: its child stops itself, is continued, and ends once the shell has seen that. */
static int control_job(void)
{
	int status, ends[2];
	char byte;
	pid_t pid;

	if (pipe(ends))
		return 4;
	pid = fork();
	if (pid == 0) {
		close(ends[1]);
		raise(SIGSTOP);
		_exit(read(ends[0], &byte, 1) == 0 ? 7 : 8);
	}
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		return 1;
	kill(pid, SIGCONT);
	if (waitpid(pid, &status, WCONTINUED) != pid || !WIFCONTINUED(status))
		return 2;
	close(ends[1]);
	return waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7 ? 0 : 3;
}

int main(int argc, char **argv)
{
	const char *scenario = argc > 1 ? argv[1] : "nothing";
	long n = argc > 2 ? atol(argv[2]) : 1;

	if (n > MOST)
		return 1;
	if (strcmp(scenario, "together") == 0)
		start_together(alive_together, n);
	else if (strcmp(scenario, "pinned") == 0)
		start_together(pinned, n);
	else if (strcmp(scenario, "turns") == 0)
		start_in_turn(named, "turn", n);
	else if (strcmp(scenario, "markup") == 0)
		start_in_turn(named, "</script><b>", 1);
	else if (strcmp(scenario, "forks") == 0)
		fork_in_turn(n);
	else if (strcmp(scenario, "spawns") == 0)
		spawn_in_turn(argv[0], n);
	else if (strcmp(scenario, "exec") == 0)
		start_in_turn(execute, argv[0], 1);
	else if (strcmp(scenario, "job") == 0)
		return control_job();
	else if (strcmp(scenario, "sleep") == 0)
		return puts("ready"), fflush(stdout), sleep(600), 0;
	return 0;
}
