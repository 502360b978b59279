/* SPDX-License-Identifier: MIT */
/* near_rcu_map64: how its entries move to another table; src/rcu/map64.h has the argument. */
#include "rcu/map64.h"

#define LEAST_BITS 4
#define MOST_BITS (sizeof(void *) == 8 ? 40u : 24u)
#define STEP 8 /* lines that an insertion moves */

/* Halves of entries for each line, on average: a table is made for at most the first number. One of
 * the same size takes its place only for at most the second: else it would soon move again. */
#define FIT 4
#define FIT_AGAIN 3

/* ---- with the lock ---- */

static uintptr_t table_of(const struct near_rcu_map64 *m)
{
	return near_rcu_dereference(m->table);
}

/* In a table after the one that moves: nobody else changes the value before that is MOVED. False:
 * there is no place. */
static bool copy_value(uintptr_t table, uint64_t mixed, uint64_t key, uint64_t value)
{
	while (table) {
		uint64_t found, *at = near__rcu_map64_search(table, mixed, key, &found);

		if (at && !found && !near__rcu_map64_claim(at, key))
			continue;
		if (at) {
			at += NEAR__RCU_MAP64_SLOTS; /* the value */
			NEAR__TSAN_RELEASE(at);
			__atomic_store_n(at, value, __ATOMIC_RELEASE);
			return true;
		}
		table = near__rcu_map64_next(table);
	}
	return false;
}

static bool move_slot(const struct near_rcu_map64 *m, uintptr_t next, const uint64_t *key,
		      uint64_t *value)
{
	uint64_t now = near__rcu_map64_load(value), k;
	bool copied = false;

	do {
		if (now == NEAR__RCU_MAP64_MOVED)
			break;
		k = __atomic_load_n(key, __ATOMIC_RELAXED); /* `now` was stored after it */
		if ((now || copied) && !copy_value(next, near__rcu_map64_mix(m->factor, k), k, now))
			return false;
		copied = now || copied;
	} while (!near__rcu_map64_store(value, &now, NEAR__RCU_MAP64_MOVED));
	return true;
}

static bool move_line(const struct near_rcu_map64 *m, uintptr_t next,
		      struct near__rcu_map64_line *line)
{
	bool moved = true;

	for (unsigned s = 0; moved && s < NEAR__RCU_MAP64_SLOTS; s++)
		moved = move_slot(m, next, &line->keys[s], &line->values[s]);
	return moved;
}

/* False: the last table has no place for an entry. */
static bool move_lines(struct near_rcu_map64 *m, uint64_t most)
{
	uintptr_t table = table_of(m), next;

	while ((next = near__rcu_map64_next(table)) && most--) {
		struct near__rcu_map_table *t = near__rcu_map_table(table);

		if (!move_line(m, next, near__rcu_map64_line(table, m->moved << (table & 63), 0)))
			return false;
		if (++m->moved < (uint64_t)1 << t->bits)
			continue;
		near__rcu_map_publish(m->table, next);
		near__rcu_map_retire(&m->retired, t);
		m->moved = 0;
		table = next;
	}
	return true;
}

static struct near__rcu_map_table *table_last(const struct near_rcu_map64 *m)
{
	uintptr_t table = table_of(m), next;

	while ((next = near__rcu_map64_next(table)))
		table = next;
	return near__rcu_map_table(table);
}

/* ---- without ---- */

void near__rcu_map64_help(struct near_rcu_map64 *m)
{
	if (!near_lock_try_lock(&m->moving))
		return;
	move_lines(m, STEP);
	near_lock_unlock(&m->moving);
	near__rcu_map_hand_over(m->rcu, &m->retired);
}

uint32_t near__rcu_map64_bits(uint64_t entries)
{
	uint32_t bits = LEAST_BITS;

	while (bits <= MOST_BITS && (uint64_t)FIT << bits < 2 * entries)
		bits++;
	return bits <= MOST_BITS && entries < UINT64_MAX / 2 ? bits : 0;
}

/* After a table of `last` bits, in which there was no place for one key, or `stuck`, for those that
 * were to move to it. */
static uint32_t next_bits(uint64_t entries, uint32_t last, uint32_t floor, bool full, bool stuck)
{
	uint32_t bits = near__rcu_map64_bits(entries);

	bits = bits < floor ? floor : bits;
	if (stuck && bits <= last)
		bits = last + 1;
	if (full && bits == last && (uint64_t)FIT_AGAIN << bits < 2 * entries)
		bits++;
	return bits <= MOST_BITS ? bits : 0;
}

/* If keys of one line make a larger table than the number of entries, that stays. */
int near__rcu_map64_rehash(struct near_rcu_map64 *m, uintptr_t full, uint32_t floor)
{
	struct near__rcu_map_table *spare = NULL, *last;
	bool stuck = false, done = false;
	uint32_t bits;

	do {
		uint64_t entries = near_rcu_map64_count(m);
		bool was_stuck = stuck;

		near_lock_lock(&m->moving);
		stuck = !move_lines(m, UINT64_MAX);
		last = table_last(m);
		bits = next_bits(entries, last->bits, full ? m->floor_bits : floor, full, stuck);
		if (!stuck && full)
			done = full != near__rcu_map_word(last);
		else if (!stuck)
			done = bits == last->bits || (was_stuck && bits < last->bits);
		if (!done && spare && spare->bits >= bits) {
			near__rcu_map_publish(last->next, near__rcu_map_word(spare));
			spare = NULL;
			done = full;
		}
		if (done && !full)
			m->floor_bits = floor;
		near_lock_unlock(&m->moving);
		near__rcu_map_hand_over(m->rcu, &m->retired);
		if (spare)
			near__rcu_map_free(spare);
		spare = done || !bits ? NULL : near__rcu_map_allocate(bits);
	} while (!done && spare);
	return done ? 0 : -ENOMEM;
}
