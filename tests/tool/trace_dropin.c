/* SPDX-License-Identifier: MIT */
/* On libnearcpu-malloc, with NEAR_CONF=trace:FOLDER,trace_children:thread: the child's thread is
 * made by its handler of fork, and allocates. Stacks of the parent's threads are too small for it:
 * the C library would use them without an allocation. */
#define _GNU_SOURCE
#include <nearcpu/trace.h>

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

NEAR_TRACEPOINT(test, child, NEAR_TRACE_INFO, (u32, n));

static volatile pid_t child;

static void end_child(int sig)
{
	(void)sig;
	kill(child, SIGKILL);
}

int main(void)
{
	pthread_attr_t large;
	int status, failed = 0;

	if (!near_trace_path())
		return 2;
	signal(SIGALRM, end_child);
	pthread_attr_init(&large);
	pthread_attr_setstacksize(&large, (size_t)64 << 20);
	pthread_setattr_default_np(&large);
	for (uint32_t i = 0; i < 3 && !failed; i++) {
		alarm(20);
		malloc_trim(0);
		child = fork();
		if (!child) {
			near_trace_test_child(i);
			_exit(unlink(near_trace_path()));
		}
		failed = child < 0 || waitpid(child, &status, 0) != child || status;
	}
	return unlink(near_trace_path()) || failed;
}
