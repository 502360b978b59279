/* SPDX-License-Identifier: MIT */
/* The scenario with reader-writer locks. */
#include "stress.h"

/* ---- tables: a reader sees no half of a change ---- */

#define WIDTH 8
#define FEW_ROLES 6

static struct table {
	struct near_rwlock l;
	uint64_t changes[WIDTH]; /* all equal, except while a writer changes them */
} tables[2];

/* One with slots, readers first; one without, writers first. */
static void begin_tables(unsigned roles)
{
	CHECK(near_rwlock_init(&tables[0].l, NULL) == 0);
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

static bool lock_for_reading(struct role *r, struct near_rwlock *lock)
{
	return TAKE(r, lock, near_rwlock_try_read_lock, near_rwlock_read_lock,
		    near_rwlock_read_lock_until);
}

static bool lock_for_writing(struct role *r, struct near_rwlock *lock)
{
	return TAKE(r, lock, near_rwlock_try_write_lock, near_rwlock_write_lock,
		    near_rwlock_write_lock_until);
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

/* Now and then a second time, which must not wait for a writer that waits for the first; or the
 * other table, too. */
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
	if (t == &tables[0] && unit_random(&r->random) % 4 == 0) {
		WAIT(r, &tables[1].l, near_rwlock_read_lock(&tables[1].l));
		check_table(&tables[1], r);
		near_rwlock_read_unlock(&tables[1].l);
	}
	near_rwlock_read_unlock(&t->l);
}

/* So that the bias is set and revoked often. */
static void expect_few_reads(struct role *r, struct near_rwlock *l)
{
	uint32_t random = unit_random(&r->random);

	if (random % 16 == 0 && __atomic_load_n(&l->rebias_after, __ATOMIC_RELAXED) > 100)
		__atomic_store_n(&l->rebias_after, 20 + random / 16 % 16, __ATOMIC_RELAXED);
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

static bool is_crowd(const struct role *r)
{
	return r->scenario->roles > FEW_ROLES;
}

/* A third of few roles. Many readers would pass a writer for ever: there each role is both. */
static bool will_write(struct role *r)
{
	if (!is_crowd(r))
		return r->index % 3 == 2;
	return unit_random(&r->random) % 100 < (r->index % 2 ? 1 : 30);
}

static bool step_tables(struct role *r)
{
	struct table *t = &tables[unit_random(&r->random) % 2];

	expect_few_reads(r, &t->l);
	if (!will_write(r)) {
		read_table(r, t);
		if (!is_crowd(r) && unit_random(&r->random) % 64 == 0)
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
	CHECK(tables[0].changes[0] + tables[1].changes[0] ==
	      sum(roles, 0, roles->scenario->roles, 0));
	for (unsigned i = 0; i < 2; i++) {
		CHECK(near_rwlock_try_write_lock(&tables[i].l));
		near_rwlock_write_unlock(&tables[i].l);
		near_rwlock_destroy(&tables[i].l);
	}
}

SCENARIO(tables, FEW_ROLES, tables, begin_tables, NULL);
