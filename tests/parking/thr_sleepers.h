/* SPDX-License-Identifier: MIT */
/* What the tests of near_thrsleep share: threads that sleep. */
#ifndef NEARCPU_TESTS_THR_SLEEPERS_H
#define NEARCPU_TESTS_THR_SLEEPERS_H

#include "signals.h"
#include "sleeps.h"
#include "waits.h"

#include <nearcpu/thrsleep.h>

static char ident[64];

static inline unsigned sleepers_on(const void *id)
{
	return waits_on(id, NEAR__SPACE_THR);
}

struct sleeper {
	const void *ident;
	clockid_t clock;
	const struct timespec *deadline;
	uint32_t lock;
	const int *abort;
	int result;
	pthread_t thread;
	pid_t tid; /* atomic; 0: not known yet */
};

static inline void *sleep_there(void *arg)
{
	struct sleeper *s = arg;

	note_sleeper(&s->tid);
	errno = UNIT_ERRNO;
	s->result = near_thrsleep(s->ident, s->clock, s->deadline, &s->lock, s->abort);
	CHECK(errno == UNIT_ERRNO);
	return NULL;
}

static inline void wait_unlocked(uint32_t *lock)
{
	UNTIL(!__atomic_load_n(lock, __ATOMIC_ACQUIRE));
}

/* Starts a sleeper with its lock held, and returns when it is in the queue, has released it, and is
 * asleep. */
static inline void start_sleeper(struct sleeper *s)
{
	unsigned before = sleepers_on(s->ident);

	s->lock = 1;
	s->tid = 0;
	s->thread = unit_start(sleep_there, s);
	wait_unlocked(&s->lock);
	UNTIL(sleepers_on(s->ident) == before + 1);
	UNTIL(noted_sleeps(&s->tid));
}

/* The same for n of one ident, one after the other. */
static inline void start_sleepers(struct sleeper *s, unsigned n, const void *id)
{
	for (unsigned i = 0; i < n; i++) {
		s[i] = (struct sleeper){.ident = id};
		start_sleeper(&s[i]);
	}
}

static inline void expect(struct sleeper *s, int result)
{
	unit_join(s->thread);
	assert_int_equal(s->result, result);
	assert_int_equal(s->lock, NEAR_THR_UNLOCKED);
}

/* A word that cannot be read. */
static inline int *unreadable(void)
{
	void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(page != MAP_FAILED);
	return page;
}

#endif
