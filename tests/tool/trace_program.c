/* SPDX-License-Identifier: MIT */
/* usage: trace_program FILE MODE EVENTS [wait|child|daemon|grandchild|lines]
 *
 * FILE is - if a session has begun before. Two threads, and a signal handler of each, trace EVENTS
 * events; then it ends, or waits for a line and goes on until it is killed. With "child" a child of
 * fork does all that, with "daemon" that of daemon(), with "grandchild" a child of a child that has
 * traced, as a server's worker. With "lines" it traces as many events as each line says; "fork": a
 * child traces one and is killed. */
#include <nearcpu/trace.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

NEAR_TRACEPOINT(test, count, NEAR_TRACE_INFO, (u32, thread), (u32, n));
NEAR_TRACEPOINT(test, text, NEAR_TRACE_WARNING, (u32, thread), (u32, n), (string, text));
NEAR_TRACEPOINT(test, handler, NEAR_TRACE_DEBUG, (u32, thread));

#define EIGHT(n)                                                                                   \
	(u8, n##0), (i64, n##1), (string, n##2), (f64, n##3), (u16, n##4), (bytes, n##5),          \
		(x32, n##6), (array_u8, n##7)
#define VALUES(n) n, -n, "text", .5, n, "x", 1, n, (const uint8_t[]){n, n + 1}, 2
NEAR_TRACEPOINT(test, most, NEAR_TRACE_INFO, EIGHT(a), EIGHT(b), EIGHT(c), EIGHT(d), EIGHT(e),
		EIGHT(f), EIGHT(g), EIGHT(h));

NEAR_TRACEPOINT(test, early, NEAR_TRACE_INFO, (u32, n));

/* One before the tracepoints are registered, one before most constructors run. */
__attribute__((constructor(101))) static void trace_too_early(void)
{
	if (getenv("TRACE_EARLY"))
		near_trace_test_early(1);
}

__attribute__((constructor(200))) static void trace_early(void)
{
	if (getenv("TRACE_EARLY"))
		near_trace_test_early(2);
}

static unsigned long events;
static char text[700];
static __thread uint32_t self;

static void on_signal(int sig)
{
	(void)sig;
	near_trace_test_handler(self);
}

/* Each tenth event has a payload of several records. */
static void *trace(void *arg)
{
	self = (uint32_t)(uintptr_t)arg;
	for (uint32_t n = 0; n < events; n++) {
		if (n % 10 == 0)
			near_trace_test_text(self, n, text);
		else
			near_trace_test_count(self, n);
		if (n % 64 == 0)
			raise(SIGUSR1);
	}
	return NULL;
}

/* Returns in the process that traces. */
static void become(const char *what)
{
	if (strcmp(what, "daemon") == 0 && daemon(1, 1))
		exit(1);
	if (strcmp(what, "child") != 0 && strcmp(what, "grandchild") != 0)
		return;
	if (fork())
		exit(wait(NULL) < 0);
	if (strcmp(what, "grandchild") != 0)
		return;
	near_trace_test_handler(0);
	if (fork())
		exit(wait(NULL) < 0);
}

static void trace_lines(void)
{
	char line[32];
	uint32_t n = 0;

	while (fgets(line, sizeof(line), stdin)) {
		if (*line == 'f' && fork() == 0) {
			near_trace_test_count(2, 0);
			raise(SIGKILL);
		}
		for (uint32_t end = n + (uint32_t)strtoul(line, NULL, 10); n < end; n++)
			near_trace_test_count(1, n);
		puts("traced");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	struct near_trace_options options = {.ring_size = 1 << 20};
	struct sigaction action = {.sa_handler = on_signal};
	pthread_t threads[2];

	if (argc < 4)
		return 2;
	options.path = argv[1];
	options.mode = (enum near_trace_mode)atoi(argv[2]);
	events = strtoul(argv[3], NULL, 10);
	memset(text, 'x', sizeof(text) - 1);
	sigaction(SIGUSR1, &action, NULL);
	if (strcmp(argv[1], "-") != 0 && near_trace_start(&options)) {
		fprintf(stderr, "trace_program: %s\n", near_trace_error());
		return 1;
	}
	if (argc > 4)
		become(argv[4]);
	if (argc > 4 && strcmp(argv[4], "lines") == 0)
		trace_lines();
	if (getenv("TRACE_MOST"))
		near_trace_test_most(VALUES(1), VALUES(2), VALUES(3), VALUES(4), VALUES(5),
				     VALUES(6), VALUES(7), VALUES(8));
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, trace, (void *)(i + 1));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	if (argc > 4 && strcmp(argv[4], "lines") != 0) {
		puts("traced");
		fflush(stdout);
		events = UINT32_MAX;
		if (getchar() == 'g')
			trace((void *)3);
	}
	near_trace_stop();
	return 0;
}
