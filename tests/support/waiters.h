/* SPDX-License-Identifier: MIT */
/* Waits of every kind as one type, and threads that wait so: for the tests of what is the same for
 * all of them. */
#ifndef NEARCPU_TESTS_WAITERS_H
#define NEARCPU_TESTS_WAITERS_H

#include "sleeps.h"
#include "waits.h"

#include <nearcpu/barrier.h>
#include <nearcpu/cond.h>
#include <nearcpu/mutex.h>
#include <nearcpu/once.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/sem.h>

/* A wait, and the thread that waits. */
struct waiter {
	const struct wait_kind *kind;
	void *on;
	struct near_mutex *m; /* for condition variables */
	const struct timespec *deadline;
	struct near_cancel *cancel;
	int clock;
	int result;
	unsigned *order, turn; /* taken from *order when the wait is over */
	unsigned *release;     /* until this is set it holds what it got; NULL: no longer */
	pthread_t thread;
	pid_t tid; /* atomic; 0: not known yet */
};

/* `leave`, if any, undoes an `enter` that returned 0. */
struct wait_kind {
	enum near__space space;
	int (*enter)(struct waiter *w);
	void (*leave)(struct waiter *w);
};

static inline void take_turn(struct waiter *w)
{
	if (w->order)
		w->turn = __atomic_add_fetch(w->order, 1, __ATOMIC_SEQ_CST);
}

/* ---- kinds ---- */

#define ENTER(name, wait_until)                                                                    \
	static inline int enter_##name(struct waiter *w)                                           \
	{                                                                                          \
		return wait_until(w->on, w->clock, w->deadline, w->cancel);                        \
	}
ENTER(mutex, near_mutex_lock_until)
ENTER(reader, near_rwlock_read_lock_until)
ENTER(writer, near_rwlock_write_lock_until)
ENTER(sem, near_sem_wait_until)
ENTER(barrier, near_barrier_wait_until)

static inline void leave_mutex(struct waiter *w)
{
	CHECK(near_mutex_is_mine(w->on));
	near_mutex_unlock(w->on);
}

static inline void leave_reader(struct waiter *w)
{
	near_rwlock_read_unlock(w->on);
}

static inline void leave_writer(struct waiter *w)
{
	CHECK(near_rwlock_is_mine(w->on));
	near_rwlock_write_unlock(w->on);
}

/* For a condition that is true, or is not. */
static inline int enter_await_of(struct waiter *w, bool (*condition)(void *))
{
	int r;

	near_mutex_lock(w->on);
	r = near_mutex_await_until(w->on, condition, NULL, w->clock, w->deadline, w->cancel);
	leave_mutex(w);
	return r;
}

static inline bool wait_never(void *unused)
{
	return false;
}

static inline int enter_await(struct waiter *w)
{
	return enter_await_of(w, wait_never);
}

/* It takes its turn while it has the mutex. */
static inline int enter_cond(struct waiter *w)
{
	int r;

	near_mutex_lock(w->m);
	r = near_cond_wait_until(w->on, w->m, w->clock, w->deadline, w->cancel);
	CHECK(near_mutex_is_mine(w->m));
	take_turn(w);
	near_mutex_unlock(w->m);
	return r;
}

static inline int never_called(void *unused)
{
	CHECK(!"a second thread calls the function");
	return 0;
}

static inline int enter_once(struct waiter *w)
{
	int unused;

	return near_once_call_until(w->on, never_called, NULL, &unused, w->clock, w->deadline,
				    w->cancel);
}

static inline int enter_park(struct waiter *w)
{
	struct near_park p = {.clock = w->clock, .deadline = w->deadline, .cancel = w->cancel};

	return near_park(w->on, &p);
}

static const struct wait_kind wait_mutex = {NEAR__SPACE_MUTEX, enter_mutex, leave_mutex},
			      wait_await = {NEAR__SPACE_MUTEX, enter_await, NULL},
			      wait_reader = {NEAR__SPACE_RWLOCK, enter_reader, leave_reader},
			      wait_writer = {NEAR__SPACE_RWLOCK, enter_writer, leave_writer},
			      wait_sem = {NEAR__SPACE_SEM, enter_sem, NULL},
			      wait_cond = {NEAR__SPACE_COND, enter_cond, NULL},
			      wait_once = {NEAR__SPACE_ONCE, enter_once, NULL},
			      wait_barrier = {NEAR__SPACE_BARRIER, enter_barrier, NULL},
			      wait_park = {NEAR__SPACE_PARK, enter_park, NULL};

/* ---- threads ---- */

static inline void *run_waiter(void *arg)
{
	struct waiter *w = arg;

	note_sleeper(&w->tid);
	errno = UNIT_ERRNO;
	w->result = w->kind->enter(w);
	if (w->result == 0 && w->kind != &wait_cond)
		take_turn(w);
	if (w->result == 0 && w->kind->leave) {
		if (w->release)
			UNTIL(__atomic_load_n(w->release, __ATOMIC_ACQUIRE));
		w->kind->leave(w);
	}
	CHECK(errno == UNIT_ERRNO);
	return NULL;
}

static inline unsigned waits_of(const struct waiter *w)
{
	return waits_on(w->on, w->kind->space);
}

/* Returns when it sleeps. */
static inline void start_waiter(struct waiter *w)
{
	unsigned before = waits_of(w);

	w->tid = 0;
	w->thread = unit_start(run_waiter, w);
	UNTIL(waits_of(w) == before + 1);
	UNTIL(noted_sleeps(&w->tid));
}

/* Starts n that are alike, one after the other. */
static inline void start_waiters(struct waiter *w, unsigned n, struct waiter like)
{
	for (unsigned i = 0; i < n; i++) {
		w[i] = like;
		start_waiter(&w[i]);
	}
}

static inline void expect(struct waiter *w, int result)
{
	unit_join(w->thread);
	assert_int_equal(w->result, result);
}

#endif
