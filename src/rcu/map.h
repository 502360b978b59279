/* SPDX-License-Identifier: MIT */
/* near_rcu_map: what its files share, and the argument for it.
 *
 * A bucket is a cache line of six slots, and continues in a chain. The highest bits of the mixed
 * hash are the index of the bucket; the highest of these are the index of the stripe. The lock of a
 * stripe serializes all changes of its buckets. An entry stays in its slot until it is removed or
 * its bucket moves.
 *
 * A resize allocates a table, `next`, and moves bucket after bucket: with the lock of the stripe it
 * copies the slots to buckets of `next`, and then sets MOVED in the bucket, which nobody writes any
 * more. When all have moved, `next` becomes the map's table, and the old one is freed by
 * near_rcu_call. Each stripe's `moved` is how many of its buckets have; changes move some more of
 * one stripe. One resize at a time, and `next` of the new table is set after the old one retired.
 *
 * What can run concurrently, and what orders it (models/rcu_map.pml, models/rcu_map.cc):
 *
 * - A lookup and an insertion. The tag is stored, a release, then the slot, a release, from which
 *   on the entry is in the map. A lookup that loads the tag finds the entry, NULL or, if the slot
 *   was reused since, another entry: it compares the whole hash and the key. It may find the entry
 *   by a tag that the slot had before; that lookups after it do, too, is why the tag comes first,
 *   and why a slot is loaded by an acquire, not only by its address.
 * - A lookup and a removal, of slot and then of tag: the reverse. The caller of the removal waits
 *   for a grace period, as for anything it unpublished.
 * - A lookup and a replacement: one store of the slot; the tag stays. The old entry's hash stays,
 *   too, until a grace period has ended: a lookup may have the entry, and not yet its hash.
 * - A replacement of what was found, and other changes. The lock's holder searches for the entry,
 *   by its address: as the caller's section began before it was found, that is no other entry's
 *   yet.
 * - A lookup and a move. It loads MOVED before the slots. If the bucket had not moved then, what it
 *   finds in the slots was in the map at some moment of the lookup: the bucket's last content is
 *   that of the moment at which it moved. What is removed later is freed after the lookup's
 *   section. If it had moved, the acquire finds `next` and the copies.
 * - A lookup that is in a table that was retired: its section began before; it may follow `next`
 *   to a table that itself moves.
 * - Two changes of one key: the stripe's lock. So are a change and a move.
 * - A change that has loaded the old table while the last bucket moved. The thread that publishes
 *   the new one then takes the lock of each stripe once, before it retires the old one: a change
 *   loads the table with the lock, and forgets it.
 * - Two that begin or end a resize: the lock `resizing`, which is taken before those of stripes.
 *   Retired tables are handed over without it, by whoever takes the list.
 * - An iteration. It keeps the first hash that it has not passed, and of a bucket returns the
 *   entries from that hash to the last that this bucket and those it moved from are for: of two
 *   buckets that move to one, one may not have moved yet. A sweep keeps that hash alone, from one
 *   section to the next. Of one key it has to pass one bucket, as it is found: a lookup that takes
 *   longer.
 * - Signal handlers search alone; they write nothing.
 * - fork: all locks of all maps are taken. So what the child finds is between two steps, and it
 *   continues where the parent's threads were. A table that a vanished thread allocated is lost,
 *   as are buckets for a chain.
 *
 * With a lock held nothing is allocated or freed, and of the user's functions `equal` alone is
 * called: at fork the order of these locks and those of an allocator is of no importance. */
#ifndef NEARCPU_RCU_MAP_INTERNAL_H
#define NEARCPU_RCU_MAP_INTERNAL_H

#include <errno.h>
#include <nearcpu/rcu_map.h>

/* Entries for each bucket, on average: above the first number the table doubles, below 1/2 it is
 * halved. A table that is made for a number of entries has at most the second for each. */
#define NEAR__RCU_MAP_FULL 5
#define NEAR__RCU_MAP_FIT 4

#define NEAR__RCU_MAP_STEP 8 /* buckets that a change moves */

struct near__rcu_map_stripe {
	struct near_lock lock __attribute__((aligned(64)));
	uint64_t count; /* of entries; changed with the lock */
	uint64_t moved; /* of its buckets in the map's table, the first ones; with the lock */
};

/* What a change has found out, with the lock, that is to be done without it. */
enum near__rcu_map_need {
	NEAR__RCU_MAP_NOTHING,
	NEAR__RCU_MAP_HELP,
	NEAR__RCU_MAP_GROW,
	NEAR__RCU_MAP_SHRINK,
};

static inline struct near__rcu_map_stripe *near__rcu_map_stripe(const struct near_rcu_map *m,
								uint64_t mixed)
{
	return &m->stripes[mixed >> (64 - m->stripe_bits)];
}

static inline unsigned near__rcu_map_stripes(const struct near_rcu_map *m)
{
	return 1u << m->stripe_bits;
}

/* With the lock of a stripe or `resizing`. Relaxed: the lock orders it. */
static inline struct near__rcu_map_table *near__rcu_map_current(const struct near_rcu_map *m)
{
	return near__rcu_map_table(__atomic_load_n(&m->table, __ATOMIC_RELAXED));
}

/* near_rcu_assign for what lookups load inline: in a program with ThreadSanitizer they acquire the
 * address that they load, and only this notifies it of the release. */
#define near__rcu_map_publish(p, v) (NEAR__TSAN_RELEASE(&(p)), near_rcu_assign(p, v))

/* Of near_rcu_map.table. */
static inline uintptr_t near__rcu_map_word(const struct near__rcu_map_table *t)
{
	return (uintptr_t)(t + 1) + (64 - t->bits);
}

/* ---- map_bucket.c: with the stripe's lock ---- */

/* Where the hash's entries are now, and in which table. */
struct near__rcu_map_bucket *near__rcu_map_find_bucket(const struct near_rcu_map *m, uint64_t mixed,
						       struct near__rcu_map_table **t);
/* Puts e in a free slot of the hash's chain in t, which becomes longer by the first of *spares if
 * there is none. False: there is none of these either. */
bool near__rcu_map_add(struct near__rcu_map_table *t, struct near_rcu_map_entry *e, uint64_t mixed,
		       struct near__rcu_map_bucket **spares);
void near__rcu_map_clear(struct near__rcu_map_bucket *b, unsigned slot);
/* Moves a bucket, or returns how many spares that takes: more than *spares has. */
size_t near__rcu_map_move(struct near__rcu_map_table *t, uint64_t index,
			  struct near__rcu_map_bucket **spares);

/* Zeroed memory, in lines of its own; NULL without. */
void *near__rcu_map_lines(size_t bytes);
/* So that there are n buckets for chains: 0 or -ENOMEM. */
int near__rcu_map_get_spares(struct near__rcu_map_bucket **spares, size_t n);
void near__rcu_map_free_spares(struct near__rcu_map_bucket *spares);

/* ---- map_resize.c ---- */

/* NULL without memory. */
struct near__rcu_map_table *near__rcu_map_allocate(uint32_t bits);
void near__rcu_map_free(struct near__rcu_map_table *t);
/* How many bits of the hash a table for that number of entries has; 0: absurd. */
uint32_t near__rcu_map_bits(const struct near_rcu_map *m, size_t entries);
/* With `resizing`: t is none of the map's tables any more. */
void near__rcu_map_retire(struct near__rcu_map_table **retired, struct near__rcu_map_table *t);
/* Without a lock: tables that were retired, by this thread or by one that a child lacks, are to be
 * freed after a grace period. */
void near__rcu_map_hand_over(struct near_rcu *rcu, struct near__rcu_map_table **retired);
/* A sum of the stripes, not of one moment. */
uint64_t near__rcu_map_sum(const struct near_rcu_map *m);
/* Without locks, after a change. */
void near__rcu_map_react(struct near_rcu_map *m, enum near__rcu_map_need need);

/* ---- map_fork.c ---- */

void near__rcu_map_register(struct near_rcu_map *m);
void near__rcu_map_unregister(struct near_rcu_map *m);
struct near_rcu_map64;
void near__rcu_map64_register(struct near_rcu_map64 *m);
void near__rcu_map64_unregister(struct near_rcu_map64 *m);

#endif
