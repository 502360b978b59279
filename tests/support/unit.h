/* SPDX-License-Identifier: MIT */
/* What the unit tests share: threads, children, deaths, checks that work outside of the main
 * thread.
 *
 * cmocka's assertions jump out of the test: they are for the main thread of the main process.
 * Threads and children use CHECK, which ends the process. */
#ifndef NEARCPU_TESTS_UNIT_H
#define NEARCPU_TESTS_UNIT_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define CHECK(holds)                                                                               \
	do {                                                                                       \
		if (!(holds)) {                                                                    \
			fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #holds);       \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* The bounds of time_t, which has 32 or 64 bits. */
#define TIME_MAX ((time_t)(UINT64_MAX >> (65 - 8 * sizeof(time_t))))
#define TIME_MIN (-TIME_MAX - 1)

/* Sleeps until this holds. */
#define UNTIL(holds)                                                                               \
	do {                                                                                       \
		while (!(holds))                                                                   \
			usleep(100);                                                               \
	} while (0)

/* What no library call may change. */
#define UNIT_ERRNO 4711
#define KEEPS_ERRNO(...)                                                                           \
	do {                                                                                       \
		errno = UNIT_ERRNO;                                                                \
		__VA_ARGS__;                                                                       \
		CHECK(errno == UNIT_ERRNO);                                                        \
	} while (0)

#if defined(__SANITIZE_THREAD__)
#define UNIT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNIT_THREAD_SANITIZER 1
#endif
#endif
#ifndef UNIT_THREAD_SANITIZER
#define UNIT_THREAD_SANITIZER 0
#endif
#if UNIT_THREAD_SANITIZER || defined(__SANITIZE_ADDRESS__)
#define UNIT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNIT_SANITIZED 1
#endif
#endif
#ifndef UNIT_SANITIZED
#define UNIT_SANITIZED 0
#endif

/* True under valgrind and qemu-user, which hide the kernel's vDSO. */
static inline bool unit_emulated(void)
{
	return getauxval(AT_SYSINFO_EHDR) == 0;
}

/* Also where the whole machine is emulated, which the environment states. */
static inline bool unit_slow(void)
{
	return unit_emulated() || getenv("NEAR_TEST_SLOW");
}

/* n, or less where the test would take too long. */
static inline unsigned unit_scale(unsigned n)
{
	unsigned divisor = unit_slow() ? 20 : UNIT_SANITIZED ? 5 : 1;

	return n / divisor ? n / divisor : 1;
}

/* For files: in memory if there is such a folder, which build chroots may lack. */
static inline const char *unit_folder(void)
{
	return access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
}

/* Whether the process may read its own memory so, as near_malloc_stats does: a filter of system
 * calls may refuse it, and qemu-user does not know it. */
static inline bool unit_can_peek(void)
{
	char from = 1, to = 0;
	struct iovec here = {&to, 1}, there = {&from, 1};

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

static inline pthread_t unit_start(void *(*run)(void *), void *arg)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, run, arg);

	if (error) {
		fprintf(stderr, "pthread_create: %s\n", strerror(error));
		exit(1);
	}
	return thread;
}

/* ThreadSanitizer runs the handler of a signal that comes within pthread_join, also while that
 * frees stacks, with the sanitizer's own locks: the handler then waits for them for ever. */
static inline void unit_join(pthread_t thread)
{
	sigset_t all, before;

	sigfillset(&all);
	if (UNIT_THREAD_SANITIZER)
		pthread_sigmask(SIG_BLOCK, &all, &before);
	if (pthread_join(thread, NULL))
		exit(1);
	if (UNIT_THREAD_SANITIZER)
		pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Waits until another thread, or a signal handler, sets the flag. */
static inline void unit_await(const bool *flag)
{
	while (!__atomic_load_n(flag, __ATOMIC_SEQ_CST))
		sched_yield();
}

static inline void *unit_await_in_thread(void *flag)
{
	unit_await(flag);
	return flag;
}

/* Runs n threads on the elements of an array and waits for them. */
static inline void unit_run(void *(*run)(void *), void *array, size_t size, unsigned n)
{
	pthread_t threads[64];

	if (n > LENGTH(threads))
		exit(1);
	for (unsigned i = 0; i < n; i++)
		threads[i] = unit_start(run, (char *)array + i * size);
	for (unsigned i = 0; i < n; i++)
		unit_join(threads[i]);
}

/* The CPUs that the process may use, as the first call finds them. Threads may make it at the same
 * time: one of them stores the set, the others wait for it. */
static inline const cpu_set_t *unit_allowed(void)
{
	enum { UNKNOWN, BEING_STORED, KNOWN };
	static cpu_set_t allowed;
	static int state;
	int was = UNKNOWN;

	if (__atomic_compare_exchange_n(&state, &was, BEING_STORED, false, __ATOMIC_ACQUIRE,
					__ATOMIC_ACQUIRE)) {
		if (sched_getaffinity(0, sizeof(allowed), &allowed))
			CPU_ZERO(&allowed);
		__atomic_store_n(&state, KNOWN, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != KNOWN)
		sched_yield();
	return &allowed;
}

/* Binds this thread to the n-th CPU that the process may use. False: there is none. */
static inline bool unit_pin(unsigned n, unsigned *cpu)
{
	cpu_set_t one;

	for (unsigned c = 0; c < CPU_SETSIZE; c++) {
		if (!CPU_ISSET(c, unit_allowed()) || n--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(c, &one);
		if (cpu)
			*cpu = c;
		return sched_setaffinity(0, sizeof(one), &one) == 0;
	}
	return false;
}

/* The thread may use all CPUs again that unit_pin knows. */
static inline void unit_unpin(void)
{
	cpu_set_t all;

	CPU_ZERO(&all);
	for (unsigned c = 0; c < CPU_SETSIZE; c++)
		CPU_SET(c, &all);
	sched_setaffinity(0, sizeof(all), &all);
}

#include "child.h" /* it uses what is above */

static inline void unit_on_signal(int signal, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};

	CHECK(sigaction(signal, &action, NULL) == 0);
}

/* New memory, shared with children if `how` is MAP_SHARED. */
static inline void *unit_map(size_t size, int how)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* A test of one call. */
#define UNIT_TEST(name, ...)                                                                       \
	static void name(void **state)                                                             \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}

/* Sends SIGALRM every `us` microseconds to `handler`; 0: no more. A late one is ignored. */
static inline void unit_timer(unsigned us, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = us ? handler : SIG_IGN, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, (long)us}, {0, (long)us}};

	if (us)
		sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	if (!us)
		sigaction(SIGALRM, &action, NULL);
}

/* What comes around tests; NULL: nothing. */
struct unit_fixtures {
	CMFixtureFunction up, before_each, after_each, down;
};

/* Runs tests whose names come as one text, separated by commas. */
static inline int unit_group(struct unit_fixtures f, const char *text,
			     const CMUnitTestFunction *functions, size_t n)
{
	static char names[4096];
	struct CMUnitTest tests[n];

	CHECK(strlen(text) < sizeof(names));
	strcpy(names, text);
	for (size_t i = 0; i < n; i++) {
		tests[i] = (struct CMUnitTest){.name = strtok(i ? NULL : names, ", "),
					       .test_func = functions[i],
					       .setup_func = f.before_each,
					       .teardown_func = f.after_each};
	}
	return cmocka_run_group_tests(tests, f.up, f.down);
}

/* main's status after these tests, which run in this order. */
#define UNIT_TESTS_IN(fixtures, ...)                                                               \
	unit_group(fixtures, #__VA_ARGS__, (const CMUnitTestFunction[]){__VA_ARGS__},              \
		   LENGTH(((const CMUnitTestFunction[]){__VA_ARGS__})))
#define UNIT_GROUP(up, after_each, down, ...)                                                      \
	UNIT_TESTS_IN(((struct unit_fixtures){up, NULL, after_each, down}), __VA_ARGS__)
#define UNIT_TESTS(...) UNIT_GROUP(NULL, NULL, NULL, __VA_ARGS__)
#define UNIT_MAIN(...)                                                                             \
	int main(void)                                                                             \
	{                                                                                          \
		return UNIT_TESTS(__VA_ARGS__);                                                    \
	}
/* On one CPU: another may be of another node, which has pages and slots of its own. */
#define UNIT_MAIN_PINNED(...)                                                                      \
	int main(void)                                                                             \
	{                                                                                          \
		unit_pin(0, NULL);                                                                 \
		return UNIT_TESTS(__VA_ARGS__);                                                    \
	}
#define UNIT_MAIN_EACH(before, after, ...)                                                         \
	int main(void)                                                                             \
	{                                                                                          \
		return UNIT_TESTS_IN(((struct unit_fixtures){NULL, before, after, NULL}),          \
				     __VA_ARGS__);                                                 \
	}
/* Tests that need what `missing` checks: it returns NULL, or the reason why they are skipped. */
#define UNIT_MAIN_UNLESS(missing, ...)                                                             \
	int main(void)                                                                             \
	{                                                                                          \
		const char *why = missing;                                                         \
                                                                                                   \
		if (!why)                                                                          \
			return UNIT_TESTS(__VA_ARGS__);                                            \
		printf("skipped: %s\n", why);                                                      \
		return 77;                                                                         \
	}

/* A small generator, for the same numbers each time. */
static inline uint32_t unit_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

#endif
