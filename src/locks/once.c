/* SPDX-License-Identifier: MIT */
/* near_once: the word is 0, DONE, or the thread that runs the function (as in a mutex's word), with
 * WAITED if others sleep, or did.
 *
 * A waiter sets WAITED by CAS while a thread runs the function. It enters the queue under the
 * bucket's lock if the word is unchanged. The thread that has run the function changes the word
 * first, by an exchange, and if it finds WAITED takes all waiters out of the queue under that lock:
 * it finds each one that entered before, and each later one finds another word.
 *
 * fork: the word can name a thread that the child does not have. The child runs the function
 * again. */
#define _GNU_SOURCE
#include <nearcpu/once.h>

#include <errno.h>
#include <pthread.h>

#include "base/cas.h"
#include "locks/owner.h"
#include "parking/lot.h"

#define DONE NEAR__ONCE_DONE
/* With DONE, under valgrind: makes the inline path fail, which reports nothing to the tools. */
#define WATCHED 4u
#define WAITED 2u
#define OWNER NEAR__MUTEX_OWNER

/* Release: pairs with the acquires in near_once_is_done and call_or_wait. */
static void once_end(struct near_once *o, uint32_t word)
{
	struct near__waiter *taken;
	struct near__bucket *b;

	NEAR__TSAN_RELEASE(o);
	if (!(__atomic_exchange_n(&o->word, word, __ATOMIC_ACQ_REL) & WAITED))
		return;
	b = near__lot_lock(o);
	taken = near__lot_take_some(b, o, NEAR__SPACE_ONCE, SIZE_MAX);
	near__lot_unlock(b);
	near__lot_wake_all(taken);
}

static void run_failed(void *once)
{
	once_end(once, 0);
}

/* A thread that is cancelled in the function counts as a failure. */
static int once_call(struct near_once *o, int (*function)(void *), void *arg)
{
	int r;

	pthread_cleanup_push(run_failed, o);
	r = function(arg);
	pthread_cleanup_pop(0);
	once_end(o, r ? 0 : near__is_watched ? DONE | WATCHED : DONE);
	return r;
}

static bool check_caller(struct near__waiter *w)
{
	const struct near_once *o = w->address;

	near__owner_check(&o->word, "near_once_call: the caller of the function, thread ");
	return false;
}

static int sleep_until_changed(struct near_once *o, uint32_t word,
			       const struct near__timeout *timeout)
{
	struct near__waiter w = {.address = o, .space = NEAR__SPACE_ONCE, .check = check_caller};
	struct near__bucket *b = near__lot_lock(o);
	bool still = NEAR__LOAD_RELAXED(&o->word) == word;

	if (still)
		near__lot_append(b, &w);
	near__lot_unlock(b);
	return still ? near__lot_sleep(&w, timeout) : 0;
}

/* 0: *result is 0, or what the function returned to this thread. */
static int call_or_wait(struct near_once *o, int (*function)(void *), void *arg, int *result,
			const struct near__timeout *timeout)
{
	uint32_t me = near__owner_now();

	for (;;) {
		uint32_t seen = __atomic_load_n(&o->word, __ATOMIC_ACQUIRE);
		int r;

		if (seen & DONE) {
			NEAR__TSAN_ACQUIRE(o);
			*result = 0;
			return 0;
		}
		if (seen == 0 || !near__owner_exists(seen & OWNER)) {
			if (!NEAR__CAS(&o->word, &seen, me, __ATOMIC_ACQUIRE))
				continue;
			NEAR__TSAN_ACQUIRE(o);
			*result = once_call(o, function, arg);
			return 0;
		}
		if (near__owner_is_me(seen & OWNER))
			near__die("near_once_call: called by its own function");
		if (!(seen & WAITED) &&
		    !NEAR__CAS(&o->word, &seen, seen | WAITED, __ATOMIC_RELAXED))
			continue;
		r = sleep_until_changed(o, seen | WAITED, timeout);
		if (r && !near_once_is_done(o))
			return r;
	}
}

int near__once_call_slow(struct near_once *o, int (*function)(void *arg), void *arg)
{
	int result = 0; /* for the compiler: a wait without an end returns when there is one */

	call_or_wait(o, function, arg, &result, &NEAR__NO_TIMEOUT);
	return result;
}

int near_once_call_until(struct near_once *o, int (*function)(void *arg), void *arg, int *result,
			 int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	return r ? r : call_or_wait(o, function, arg, result, &timeout);
}
