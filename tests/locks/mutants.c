/* SPDX-License-Identifier: MIT */
/* For the stress to find: faults of the locks, one of them at a time, which NEAR_MUTANT
 * names. Each happens now and then, and is reported the first time. */
#include <nearcpu/sem.h>

#include "mutant.h"
#include "unit.h"

#include "parking/lot.h"
#include "locks/mutex.h"

#define WRAPPED(result, name, ...)                                                                 \
	result __real_##name(__VA_ARGS__);                                                         \
	result __wrap_##name(__VA_ARGS__);
WRAPPED(int, near__futex_wake, uint32_t *word, int n, bool shared)
WRAPPED(void, near__mutex_unlock_slow, struct near_mutex *m, bool fair)
WRAPPED(struct near__waiter *, near__mutex_admit, struct near__bucket *b, struct near_mutex *m)
WRAPPED(int, near__lot_sleep, struct near__waiter *w, const struct near__timeout *l)
WRAPPED(void, near__fence, void)
WRAPPED(int, near_sem_post, struct near_sem *s)

/* True once in n calls, if this fault is selected. */
static bool happens(const char *fault, unsigned n)
{
	static unsigned calls;

	if (!mutant_is(fault) || __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % n)
		return false;
	if (calls == n)
		fprintf(stderr, "the fault '%s' happens\n", fault);
	return true;
}

/* A sleeper is out of the queue, and no thread calls the kernel. */
int __wrap_near__futex_wake(uint32_t *word, int n, bool shared)
{
	return happens("wake", 500) ? n : __real_near__futex_wake(word, n, shared);
}

/* An unlock does not know that a thread sleeps. */
void __wrap_near__mutex_unlock_slow(struct near_mutex *m, bool fair)
{
	if (happens("parked", 200))
		__atomic_fetch_and(&m->word, ~(PARKED | AWAITED), __ATOMIC_RELAXED);
	__real_near__mutex_unlock_slow(m, fair);
}

/* A broadcast moves waiters to the mutex, whose word does not show it. */
struct near__waiter *__wrap_near__mutex_admit(struct near__bucket *b, struct near_mutex *m)
{
	struct near__waiter *taken = __real_near__mutex_admit(b, m);

	if (happens("admit", 200))
		__atomic_fetch_and(&m->word, ~PARKED, __ATOMIC_RELAXED);
	return taken;
}

/* A thread that was woken reports a timeout. */
int __wrap_near__lot_sleep(struct near__waiter *w, const struct near__timeout *l)
{
	int r = __real_near__lot_sleep(w, l);

	if (r || l->deadline == NEAR__NEVER || !happens("late", 100))
		return r;
	usleep(10000); /* longer than the stress sets deadlines for */
	return -ETIMEDOUT;
}

/* A thread in the middle of a sequence continues. */
__attribute__((constructor)) static void need_sequences(void)
{
	if (!mutant_is("fence") || near__thread_live())
		return;
	fputs("no sequences here: nothing to fence\n", stderr);
	_exit(77);
}

void __wrap_near__fence(void)
{
	if (!happens("fence", 1))
		__real_near__fence();
}

/* A unit comes twice. */
int __wrap_near_sem_post(struct near_sem *s)
{
	return (happens("twice", 500) ? __real_near_sem_post(s) : 0) + __real_near_sem_post(s);
}
