/* SPDX-License-Identifier: MIT */
/* The scenario with reader-writer locks. */
#include "stress.h"

#include <nearcpu/rwlock.h>

/* ---- tables: a reader sees no half of a change ---- */

#define READERS 4
#define WIDTH 8

static struct table {
	struct near_rwlock l;
	uint64_t changes[WIDTH]; /* all equal, except while a writer changes them */
} tables[2];

/* One with slots, readers first; one without, writers first. */
static void begin_tables(void)
{
	memset(tables, 0, sizeof(tables));
	CHECK(near_rwlock_init(&tables[0].l) == 0);
	tables[1].l = (struct near_rwlock)NEAR_RWLOCK_INIT_WRITERS_FIRST;
}

static void check_table(const struct table *t, struct role *r)
{
	uint64_t changes = t->changes[0];

	if (unit_random(&r->random) % 16 == 0)
		sched_yield();
	for (unsigned i = 1; i < WIDTH; i++)
		CHECK(t->changes[i] == changes);
}

static bool lock_for_reading(struct role *r, struct near_rwlock *l)
{
	struct limit limit;
	int result;

	limit_draw(&limit, r);
	if (unit_random(&r->random) % 8 == 0)
		return near_rwlock_try_read_lock(l);
	if (!limit.deadline && !limit.cancel) {
		WAIT(r, l, near_rwlock_read_lock(l));
		return true;
	}
	WAIT(r, l,
	     result = near_rwlock_read_lock_until(l, limit.clock, limit.deadline, limit.cancel));
	limit_check(&limit, result);
	return result == 0;
}

static bool lock_for_writing(struct role *r, struct near_rwlock *l)
{
	struct limit limit;
	int result;

	limit_draw(&limit, r);
	if (unit_random(&r->random) % 8 == 0)
		return near_rwlock_try_write_lock(l);
	if (!limit.deadline && !limit.cancel) {
		WAIT(r, l, near_rwlock_write_lock(l));
		return true;
	}
	WAIT(r, l,
	     result = near_rwlock_write_lock_until(l, limit.clock, limit.deadline, limit.cancel));
	limit_check(&limit, result);
	return result == 0;
}

/* Again immediately, until it counts on slots and a writer revokes that. */
static void read_table_often(struct role *r, struct table *t)
{
	for (unsigned i = 0; i < 2000; i++) {
		WAIT(r, &t->l, near_rwlock_read_lock(&t->l));
		CHECK(t->changes[0] == t->changes[WIDTH - 1]);
		near_rwlock_read_unlock(&t->l);
	}
}

/* Now and then a second time, which must not wait for a writer that waits for the first. */
static void read_table(struct role *r, struct table *t)
{
	if (!lock_for_reading(r, &t->l))
		return;
	check_table(t, r);
	if (unit_random(&r->random) % 4 == 0) {
		WAIT(r, &t->l, near_rwlock_read_lock(&t->l));
		check_table(t, r);
		near_rwlock_read_unlock(&t->l);
	}
	near_rwlock_read_unlock(&t->l);
}

static void write_table(struct role *r, struct table *t)
{
	if (!lock_for_writing(r, &t->l))
		return;
	CHECK(near_rwlock_is_mine(&t->l));
	check_table(t, r);
	for (unsigned i = 0; i < WIDTH; i++)
		t->changes[i]++;
	r->tally[0]++;
	if (unit_random(&r->random) % 4) {
		near_rwlock_write_unlock(&t->l);
		return;
	}
	near_rwlock_downgrade(&t->l);
	check_table(t, r);
	near_rwlock_read_unlock(&t->l);
}

static bool step_tables(struct role *r)
{
	struct table *t = &tables[unit_random(&r->random) % 2];

	if (r->index < READERS) {
		read_table(r, t);
		if (unit_random(&r->random) % 64 == 0)
			read_table_often(r, &tables[0]);
	} else {
		write_table(r, t);
		/* Far enough apart, often, for the readers to count on slots again. */
		if (unit_random(&r->random) % 8 == 0)
			usleep(unit_random(&r->random) % 8000);
	}
	return !stress_is_over();
}

static void check_tables(const struct role *roles)
{
	CHECK(tables[0].changes[0] + tables[1].changes[0] == sum(roles, READERS, 2, 0));
	for (unsigned i = 0; i < 2; i++) {
		CHECK(near_rwlock_try_write_lock(&tables[i].l));
		near_rwlock_write_unlock(&tables[i].l);
		near_rwlock_destroy(&tables[i].l);
	}
}

const struct scenario scenario_tables = {"tables",    READERS + 2, begin_tables,
					 step_tables, NULL,        check_tables};
