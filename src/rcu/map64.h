/* SPDX-License-Identifier: MIT */
/* near_rcu_map64: what its files share, and the argument for it.
 *
 * A line of the table has four keys and their values. The highest bits of the mixed key choose its
 * first line; the others of its path are 1, 3, 6, 10 lines on. A slot of a table:
 *
 *     key     0 -> k        claimed, by CAS, by a change that stores a value for k; stays so
 *     value   0 <-> v       0: the key is not there
 *             v, 0 -> MOVED the key, if it is there, is in the next table
 *
 * A key's path goes through its slots in order. What has passed a slot that another key has will
 * never find k there, so the first slot on the path that is free or has k is the same for all
 * threads, until it is claimed by another key. k is claimed there and nowhere else in the table.
 * If 12 lines are full of other keys, k is claimed in no slot of the table any more. In the next
 * table a key is claimed only by a thread that has found MOVED in the slot that it has in this
 * one, or no slot; or that began when the next table was already the map's. So a thread that finds
 * a free slot first knows that the key was in no table at some moment since it loaded the map's;
 * and of two slots of a key the one in the earlier table counts, unless it has MOVED.
 *
 * The thread that has the lock `moving` moves the map's table to `next`, slot after slot: it copies
 * the value, then changes it to MOVED by CAS. If another thread has changed it before, it copies
 * again. Until MOVED is stored, all other threads change the value in the old table: nobody else
 * writes the copy. A free slot has MOVED stored, too, so that no value is stored in it any more.
 * When all slots have moved, `next` becomes the map's table, and the old one is freed by
 * near_rcu_call. `next` may be full for a key, too: then it gets a next one, where the key is put;
 * that begins to move when the first one has.
 *
 * What can run concurrently, and what orders it (models/rcu_map64.cc):
 *
 * - Two that claim a slot: the CAS. The one that fails finds k there, and goes on to the value, or
 *   another key, and goes on along the path.
 * - Two that change a value, or one and a move: the CAS. Its release pairs with the acquire of the
 *   thread that loads the value.
 * - A lookup and a claim. Keys are loaded relaxed: they publish nothing. The slot is free, and the
 *   key was in no table then; or the value is loaded, 0 or what was stored.
 * - A lookup and a move. MOVED is stored with release after `next` was and after the copy; it is
 *   loaded with acquire.
 * - A lookup that finds 12 lines of other keys loads `next` with acquire; if that is NULL, the key
 *   was in no table then.
 * - A lookup or change in a table that has retired: its section began before.
 * - Signal handlers change values and claim nothing: `replace` and `remove` find a key or end.
 * - fork: the lock `moving` is taken, so no slot is between its copy and MOVED. Threads that vanish
 *   leave a key that was claimed without a value, or a table that is lost.
 *
 * With the lock held nothing is allocated or freed, as in map.h. */
#ifndef NEARCPU_RCU_MAP64_INTERNAL_H
#define NEARCPU_RCU_MAP64_INTERNAL_H

#include <nearcpu/rcu_map64.h>

#include "rcu/map.h"

#define NEAR__RCU_MAP64_PATH 12 /* lines */

/* Acquire: pairs with the release that stored it. 0: there is none. */
static inline uintptr_t near__rcu_map64_next(uintptr_t table)
{
	return __atomic_load_n(&near__rcu_map_table(table)->next, __ATOMIC_ACQUIRE);
}

/* Line number `i` of a path. */
static inline struct near__rcu_map64_line *near__rcu_map64_line(uintptr_t table, uint64_t mixed,
								unsigned i)
{
	uint64_t first = mixed >> (table & 63), mask = UINT64_MAX >> (table & 63);

	return (struct near__rcu_map64_line *)(table & ~(uintptr_t)63) +
	       ((first + i * (i + 1) / 2) & mask);
}

static inline uint64_t near__rcu_map64_load(const uint64_t *value)
{
	uint64_t v = __atomic_load_n(value, __ATOMIC_ACQUIRE);

	NEAR__TSAN_ACQUIRE(value);
	return v;
}

/* ---- map64_read.c ---- */

/* The key's slot, or a free one, where it can be claimed; *found: its key, or 0. NULL: the key is
 * not in this table, and never will be. */
uint64_t *near__rcu_map64_search(uintptr_t table, uint64_t mixed, uint64_t key, uint64_t *found);
/* False: another key was first. */
bool near__rcu_map64_claim(uint64_t *at, uint64_t key);
/* By CAS; *now is what it was. */
bool near__rcu_map64_store(uint64_t *value, uint64_t *now, uint64_t new);

/* ---- map64_move.c: without the lock ---- */

/* 0: absurd. */
uint32_t near__rcu_map64_bits(uint64_t entries);
/* Completes a move. Then begins one if `full` is still the last table: the key that has no place in
 * it has one in the next table. Or, if `full` is 0, makes the table one of at least 2^floor lines.
 * 0 or -ENOMEM. */
int near__rcu_map64_rehash(struct near_rcu_map64 *m, uintptr_t full, uint32_t floor);
/* Moves some lines, unless another thread does. */
void near__rcu_map64_help(struct near_rcu_map64 *m);

#endif
