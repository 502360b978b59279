/* SPDX-License-Identifier: MIT */
/* What the tests of near_park share: threads that are parked, and callbacks that count. */
#ifndef NEARCPU_TESTS_PARKED_H
#define NEARCPU_TESTS_PARKED_H

#include "sleeps.h"
#include "waits.h"

#include <nearcpu/park.h>

static char place[64]; /* addresses to park on */

static inline enum near_park_choice count_one(void *count, uintptr_t mark)
{
	++*(unsigned *)count;
	return NEAR_PARK_SKIP;
}

static inline unsigned parked(const void *address)
{
	unsigned count = 0;
	struct near_unpark u = {.wake = 1, .choose = count_one, .arg = &count};

	CHECK(near_unpark_with(address, &u, NULL) == 0);
	return count;
}

struct sleeper {
	const void *address;
	struct near_park park;
	int result;
	unsigned *order, turn; /* taken from *order when awake */
	pthread_t thread;
	pid_t tid; /* atomic; 0: not known yet */
};

static inline void *sleep_there(void *arg)
{
	struct sleeper *s = arg;

	note_sleeper(&s->tid);
	errno = UNIT_ERRNO;
	s->result = near_park(s->address, &s->park);
	CHECK(errno == UNIT_ERRNO);
	if (s->order)
		s->turn = __atomic_add_fetch(s->order, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Starts n sleepers, one behind the other. */
static inline void start_sleepers(struct sleeper *s, unsigned n)
{
	unsigned before = parked(s->address);

	for (unsigned i = 0; i < n; i++) {
		s[i].tid = 0;
		s[i].thread = unit_start(sleep_there, &s[i]);
		UNTIL(parked(s[i].address) == before + i + 1);
		UNTIL(noted_sleeps(&s[i].tid));
	}
}

/* The same for sleepers that are alike but for their marks, which are 1 to n. */
static inline void start_alike(struct sleeper *s, unsigned n, const void *address, unsigned *order)
{
	for (unsigned i = 0; i < n; i++)
		s[i] = (struct sleeper){
			.address = address, .order = order, .park = {.mark = i + 1}};
	start_sleepers(s, n);
}

static inline void expect(struct sleeper *s, int result, uintptr_t token)
{
	unit_join(s->thread);
	assert_int_equal(s->result, result);
	assert_int_equal(s->park.token, token);
}

struct calls {
	bool answer;
	unsigned validated, slept, left;
	const void *left_on;
	bool others;
};

static inline bool validate(void *arg)
{
	struct calls *c = arg;

	c->validated++;
	return c->answer;
}

static inline void left(void *arg, const void *address, bool others)
{
	struct calls *c = arg;

	c->left++;
	c->left_on = address;
	c->others = others;
}

#endif
