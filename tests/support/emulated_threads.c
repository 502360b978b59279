/* SPDX-License-Identifier: MIT */
/* For tests that qemu-user runs, linked with --wrap=pthread_create: forks wait for threads that are
 * being made, by the library, too. qemu's own fork does not: the lock that it holds then stays held
 * in the child, where the next pthread_create waits for ever. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

struct start {
	void *(*run)(void *);
	void *arg;
	sigset_t signals;
	bool has_begun;
};

static void *begin(void *start)
{
	struct start s = *(struct start *)start;

	__atomic_store_n(&((struct start *)start)->has_begun, true, __ATOMIC_RELEASE);
	pthread_sigmask(SIG_SETMASK, &s.signals, NULL);
	return s.run(s.arg);
}

/* Without signals: a handler that forks would wait for its own thread. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	struct start s = {.run = run, .arg = arg};
	sigset_t all;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &s.signals);
	pthread_mutex_lock(&making);
	r = __real_pthread_create(thread, attr, begin, &s);
	while (r == 0 && !__atomic_load_n(&s.has_begun, __ATOMIC_ACQUIRE))
		sched_yield();
	pthread_mutex_unlock(&making);
	pthread_sigmask(SIG_SETMASK, &s.signals, NULL);
	return r;
}

static __thread unsigned forks; /* of this thread, in signal handlers within each other */

static void take(void)
{
	if (forks++ == 0)
		pthread_mutex_lock(&making);
}

static void give(void)
{
	if (--forks == 0)
		pthread_mutex_unlock(&making);
}

/* Before the library's, of which some wait for a thread that makes one; after an allocator's, which
 * registers its own with the first block: pthread_create allocates. */
__attribute__((constructor(101))) static void watch_forks(void)
{
	void *volatile block = malloc(1);

	free(block);
	pthread_atfork(take, give, give);
}
