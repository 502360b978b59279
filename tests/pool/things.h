/* SPDX-License-Identifier: MIT */
/* The objects of the pools that are tested: each knows whether it is constructed, and has a serial
 * number while it lives. */
#ifndef NEARCPU_TESTS_THINGS_H
#define NEARCPU_TESTS_THINGS_H

#include <nearcpu/pool.h>

#include "percpu/percpu.h"
#include "unit.h"

#define THING_LIVES 0x6c69766573u

struct thing {
	uint64_t lives; /* THING_LIVES from construction on */
	uint64_t serial;
	unsigned held; /* 1 while a thread has it: only atomically, to catch two */
	unsigned put_by;
	uint64_t a, b; /* plain: b is always a + 1 */
};

struct things {
	uint64_t made, ended;
	int error; /* of the constructor */
};

static inline int thing_begin(void *object, void *arg)
{
	struct things *all = arg;
	struct thing *t = object;

	if (all->error)
		return all->error;
	CHECK((uintptr_t)t % 16 == 0);
	*t = (struct thing){.lives = THING_LIVES, .b = 1};
	t->serial = __atomic_add_fetch(&all->made, 1, __ATOMIC_RELAXED);
	return 0;
}

static inline void thing_end(void *object, void *arg)
{
	struct things *all = arg;
	struct thing *t = object;

	CHECK(t->lives == THING_LIVES && t->held == 0);
	memset(t, 0xee, sizeof(*t));
	__atomic_add_fetch(&all->ended, 1, __ATOMIC_RELAXED);
}

#define THINGS(all) .construct = thing_begin, .destruct = thing_end, .arg = (all)
#define THINGS_MOST 200000 /* little address space: valgrind describes each page of it */

static inline struct thing *thing_took(struct thing *t)
{
	CHECK(t && t->lives == THING_LIVES && t->b == t->a + 1);
	CHECK(__atomic_exchange_n(&t->held, 1, __ATOMIC_RELAXED) == 0);
	return t;
}

static inline struct thing *thing_get(struct near_pool *pool)
{
	return thing_took(near_pool_get(pool));
}

static inline struct thing *thing_gives(struct thing *t)
{
	t->a += 3;
	t->b = t->a + 1;
	CHECK(__atomic_exchange_n(&t->held, 0, __ATOMIC_RELAXED) == 1);
	return t;
}

static inline void thing_put(struct near_pool *pool, struct thing *t)
{
	near_pool_put(pool, thing_gives(t));
}

static inline struct near_pool_stats pool_now(const struct near_pool *pool)
{
	struct near_pool_stats s;

	memset(&s, 0x5a, sizeof(s));
	CHECK(near_pool_stats(pool, &s, sizeof(s)) == 0);
	return s;
}

#endif
