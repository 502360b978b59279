/* SPDX-License-Identifier: MIT */
/* near_rcu_map: a hash map that is read while it is changed and resized.
 *
 * Entries are members of the user's objects. Lookups run within a section of the map's near_rcu
 * domain; they write nothing and wait for nothing. Changes take one of a few locks, by the hash.
 * The table grows and shrinks by itself, in steps that changes make; lookups and other changes
 * continue. What was removed or replaced is the user's to free, after a grace period.
 *
 * Cost:      a lookup loads one cache line of the table and the entry that it finds; it takes
 *            expected constant time with a hash function that spreads its keys. A change takes a
 *            lock, two atomic instructions. One in some thousands allocates a table.
 * Memory:    8 bytes for each entry, in its object; 16 to 32 bytes of table for each entry, in
 *            buckets of 64 bytes; the old table, too, while it is resized. The map itself has 144
 *            bytes, 64 for each of 8 to 64 locks (four for each CPU), and at least as many buckets.
 * Safety:    find, lookup, iteration: within a section; any thread, signal handlers. All else: any
 *            thread, within a section or not, not signal handlers; replace_if and get_or_insert
 *            within one. errno is left alone; nothing is a cancellation point. The hash and
 *            compare functions must not use the map nor fork.
 * Order:     an updater's stores to an object before its insertion are seen by a lookup that finds
 *            it. Changes of one key have one order, which lookups agree with.
 * Fork:      the child has a copy of the map, whole and unlocked. Resizing continues in it.
 * Fallback:  the map needs no rseq; near_rcu has its own fallback.
 *
 * Iteration finds each entry that is in the map from its begin to its end once, even if the map is
 * resized in between; of one that is replaced, the old or the new one. One that is inserted or
 * removed during the iteration may be found or not. The same is true of a sweep, which has a
 * section for each bucket.
 *
 * Concurrent with:    find, iteration   changes, count, resize   destroy
 *     find, iteration       yes                  yes               no
 *     changes ...           yes                  yes               no
 *
 *     struct user { struct near_rcu_map_entry entry; uint64_t id; struct near_rcu_head rcu; };
 *
 *     static uint64_t hash(const void *key) { return *(const uint64_t *)key; }
 *     static bool is(const struct near_rcu_map_entry *e, const void *key)
 *     {
 *             return ((const struct user *)e)->id == *(const uint64_t *)key;
 *     }
 *
 *     struct near_rcu_map users;               // near_rcu_map_init(&users, &rcu, hash, is, NULL)
 *
 *     near_rcu_token t = near_rcu_enter(&rcu);
 *     struct user *u = (struct user *)near_rcu_map_lookup(&users, &id);
 *     ...
 *     near_rcu_exit(&rcu, t);
 *
 *     u = (struct user *)near_rcu_map_remove_key(&users, &id);
 *     if (u)
 *             near_rcu_call(&rcu, &u->rcu, free_user, sizeof(*u));
 *
 * Source: Triplett, McKenney and Walpole, "Resizable, scalable, concurrent hash tables via
 * relativistic programming" (2011), for resizing while readers run; buckets of one cache line with
 * a byte of each hash are those of Fan, Andersen and Kaminsky's MemC3 (2013). Differs in that a
 * bucket moves as a whole, under one lock, and that no grace period is waited for.
 */
#ifndef NEARCPU_RCU_MAP_H
#define NEARCPU_RCU_MAP_H

#include <nearcpu/lock.h>
#include <nearcpu/rcu.h>

NEAR__BEGIN_DECLS

/* A member of the user's object; private. Readers load it until a grace period has ended after the
 * entry was removed or replaced. */
struct near_rcu_map_entry {
	uint64_t hash;
};

/* Equal keys have equal hashes. The map multiplies the value: numbers may be their own hash. */
typedef uint64_t near_rcu_map_hash(const void *key);

/* Whether the entry has this key. */
typedef bool near_rcu_map_equal(const struct near_rcu_map_entry *e, const void *key);

struct near__rcu_map_stripe;
struct near__rcu_map_table;

/* Private; src/rcu/map.h explains it. */
struct near_rcu_map {
	/* Loaded by lookups. */
	uintptr_t table; /* address of the buckets, plus the shift */
	near_rcu_map_hash *hash;
	near_rcu_map_equal *equal;
	struct near__rcu_map_stripe *stripes;
	uint32_t stripe_bits, floor_bits;
	struct near_rcu *rcu;
	struct near_rcu_map *next; /* of the process's maps */
	/* Resizing. Not in the line of what lookups load. */
	char apart[64];
	struct near_lock resizing;
	uint32_t helped; /* stripes that have moved, about */
	uint32_t starts; /* a thread allocates a table, by itself */
	struct near__rcu_map_table *retired;
};

#define NEAR__RCU_MAP_CELLS 6
#define NEAR__RCU_MAP_ONES ((uint64_t)0x010101010101) /* a byte for each slot */
#define NEAR__RCU_MAP_MOVED ((uint64_t)1 << 63)

/* One cache line. `control` has a byte for each slot, part of the hash, or 0: empty. */
struct near__rcu_map_bucket {
	uint64_t control __attribute__((aligned(64)));
	struct near_rcu_map_entry *slots[NEAR__RCU_MAP_CELLS];
	struct near__rcu_map_bucket *more; /* the next of a chain */
};

/* Ahead of the first bucket. */
struct near__rcu_map_table {
	uintptr_t next
		__attribute__((aligned(64))); /* where buckets move to, as near_rcu_map.table */
	void *memory;
	struct near__rcu_map_table *retired;
	struct near_rcu_head head;
	uint32_t bits;
	uint32_t chained; /* buckets outside of the table */
};

/* Fibonacci hashing: the high bits choose the bucket. */
NEAR__INLINE uint64_t near__rcu_map_mix(uint64_t hash)
{
	return hash * 0x9e3779b97f4a7c15u;
}

/* 1 to 255. */
NEAR__INLINE uint64_t near__rcu_map_tag(uint64_t mixed)
{
	uint64_t tag = mixed >> 32 & 0xff;

	return tag + !tag;
}

/* Acquire: pairs with the release of the insertion. A thread that has found an entry by a tag that
 * the slot had before then loads the new tag, and finds the entry again. */
#define near__rcu_map_load(slot) NEAR__RCU_LOADED(slot, __atomic_load_n(&(slot), __ATOMIC_ACQUIRE))

NEAR__INLINE struct near__rcu_map_table *near__rcu_map_table(uintptr_t table)
{
	return (struct near__rcu_map_table *)(table & ~(uintptr_t)63) - 1;
}

NEAR__INLINE struct near__rcu_map_bucket *near__rcu_map_bucket(uintptr_t table, uint64_t mixed)
{
	return (struct near__rcu_map_bucket *)(table & ~(uintptr_t)63) + (mixed >> (table & 63));
}

/* The same as near_rcu_map_lookup, for a caller that has the hash. If `equal` is a constant, the
 * compiler makes it part of the loop. */
NEAR_INLINE struct near_rcu_map_entry *near_rcu_map_find(const struct near_rcu_map *m,
							 uint64_t hash, const void *key,
							 near_rcu_map_equal *equal)
{
	uint64_t mixed = near__rcu_map_mix(hash), control, found;
	uint64_t tags = near__rcu_map_tag(mixed) * NEAR__RCU_MAP_ONES;
	uintptr_t table = near_rcu_dereference(m->table);
	const struct near__rcu_map_bucket *b;

	/* Acquires pair with the releases of writers: what has no tag is not in the map, what has
	 * one may be. */
	while (b = near__rcu_map_bucket(table, mixed),
	       control = __atomic_load_n(&b->control, __ATOMIC_ACQUIRE),
	       __builtin_expect((control & NEAR__RCU_MAP_MOVED) != 0, 0))
		table = near_rcu_dereference(near__rcu_map_table(table)->next);
	for (;;) {
		/* A zero byte is an equal tag; one above it may be a mistake. */
		found = control ^ tags;
		found = (found - NEAR__RCU_MAP_ONES) & ~found & NEAR__RCU_MAP_ONES << 7;
		for (; found; found &= found - 1) {
			struct near_rcu_map_entry *e =
				near__rcu_map_load(b->slots[__builtin_ctzll(found) / 8]);

			if (e && e->hash == hash && equal(e, key))
				return e;
		}
		b = near_rcu_dereference(b->more);
		if (__builtin_expect(!b, 1))
			return NULL;
		control = __atomic_load_n(&b->control, __ATOMIC_ACQUIRE);
	}
}

/* The entry of the key, or NULL; of several one of them, or NULL if that is removed meanwhile. It
 * may be used until the section ends. */
NEAR_INLINE struct near_rcu_map_entry *near_rcu_map_lookup(const struct near_rcu_map *m,
							   const void *key)
{
	NEAR__CHECK_READY(m->hash, m);
	return near_rcu_map_find(m, m->hash(key), key, m->equal);
}

/* Of a new map; 0: the default. */
struct near_rcu_map_options {
	/* That are expected: the table does not shrink by itself below what these need; default
	 * 64. */
	size_t entries;
	uint64_t reserved[4]; /* 0 */
};

/* `options` may be NULL. Returns 0; -EINVAL: more entries than any memory has, or a reserved word
 * that is not 0; -ENOMEM. */
NEAR_API int near_rcu_map_init(struct near_rcu_map *m, struct near_rcu *rcu,
			       near_rcu_map_hash *hash, near_rcu_map_equal *equal,
			       const struct near_rcu_map_options *options);

/* Frees what the map has; entries that are still in it are left alone. Requires that nobody uses
 * it. The domain must be destroyed later. */
NEAR_API void near_rcu_map_destroy(struct near_rcu_map *m);

/* Changes. `key` is that of e, which must not be in the map. An error changes nothing. After a
 * success other threads find e, may remove it, and free it after a grace period, which may be
 * before the call returns: read e afterwards only within a section that began before the call. What
 * is replaced or removed is the caller's. */

/* Inserts e, even if the key is there. Returns 0 or -ENOMEM. */
NEAR_API int near_rcu_map_insert(struct near_rcu_map *m, struct near_rcu_map_entry *e,
				 const void *key);

/* Inserts e unless the key is there. Returns 0; -ENOMEM; -EEXIST: the key is there; *existing,
 * unless existing is NULL, is its entry, which may be used if the call is within a section. */
NEAR_API int near_rcu_map_insert_unique(struct near_rcu_map *m, struct near_rcu_map_entry *e,
					const void *key, struct near_rcu_map_entry **existing);

/* e takes the place of the key's entry, *old, in one step: lookups find one of them. Returns 0;
 * -ENOENT: there is none. */
NEAR_API int near_rcu_map_replace(struct near_rcu_map *m, struct near_rcu_map_entry *e,
				  const void *key, struct near_rcu_map_entry **old);

/* e takes the place of `expected`, unless another thread has replaced or removed that. e gets the
 * key of `expected`, which the caller has found in the same section, or owns: else its memory may
 * be that of another entry by now. Returns 0; -ENOENT: `expected` is not in the map any more. So an
 * entry is changed by copying it, without a lock and without a lost update:
 *
 *     do {                                                   // all of it in one section
 *             old = near_rcu_map_lookup(m, key);
 *             if (old)
 *                     copy->balance = account_of(old)->balance + n;
 *     } while (old && near_rcu_map_replace_if(m, old, &copy->entry));
 */
NEAR_API int near_rcu_map_replace_if(struct near_rcu_map *m, struct near_rcu_map_entry *expected,
				     struct near_rcu_map_entry *e);

/* Replaces or inserts; *old is NULL if it inserted. Returns 0 or -ENOMEM. */
NEAR_API int near_rcu_map_put(struct near_rcu_map *m, struct near_rcu_map_entry *e, const void *key,
			      struct near_rcu_map_entry **old);

/* Removes e, which must not have been freed: the call is within the section that found it, or the
 * caller owns e. -ENOENT: it is not in the map any more, another thread was first. */
NEAR_API int near_rcu_map_remove(struct near_rcu_map *m, struct near_rcu_map_entry *e);

/* Removes an entry of the key and returns it, or NULL. */
NEAR_API struct near_rcu_map_entry *near_rcu_map_remove_key(struct near_rcu_map *m,
							    const void *key);

/* Makes *e, an entry of the key that is not in the map; `argument` is that of get_or_insert.
 * Returns 0 or a negative errno. */
typedef int near_rcu_map_construct(struct near_rcu_map_entry **e, const void *key, void *argument);

/* Something is done with e. */
typedef void near_rcu_map_visit(struct near_rcu_map_entry *e, void *argument);

/* *e is the entry of the key; if there is none, the one that `construct` makes. It runs without a
 * lock, so it may allocate and wait, and two threads may make one: then the later one's is given to
 * `destroy`, before anybody has seen it. Requires a section, within which *e may be used. Returns
 * 1: inserted; 0: it was there; the error of `construct`; -ENOMEM; after an error *e is NULL. */
NEAR_API int near_rcu_map_get_or_insert(struct near_rcu_map *m, const void *key,
					near_rcu_map_construct *construct,
					near_rcu_map_visit *destroy, void *argument,
					struct near_rcu_map_entry **e);

/* Makes the table one for `entries` entries, and for those that it has; it then does not shrink by
 * itself below that number. Completes a resize that others began. Returns 0; -EINVAL: 0, or more
 * entries than any memory has; -ENOMEM: all entries are still in the map, and an earlier number
 * remains in force. */
NEAR_API int near_rcu_map_resize(struct near_rcu_map *m, size_t entries);

/* How many entries there are, at one moment: stops all changes for it. */
NEAR_API size_t near_rcu_map_count(struct near_rcu_map *m);

/* Private. */
struct near_rcu_map_iterator {
	const struct near_rcu_map *map;
	const struct near__rcu_map_bucket *bucket; /* NULL: it has ended */
	uint64_t first, last; /* of the mixed hashes that belong to the bucket */
	const void *key;      /* with of_key, */
	uint64_t hash;        /* and its hash */
	unsigned slot;
	bool of_key; /* not all: a key that is a number may be NULL */
};

/* Begins an iteration, which must end in the same section. */
NEAR_API void near_rcu_map_begin(const struct near_rcu_map *m, struct near_rcu_map_iterator *i);

/* Begins one of the entries of a key, which near_rcu_map_insert lets be several. The key must be
 * there until it ends. */
NEAR_API void near_rcu_map_begin_key(const struct near_rcu_map *m, const void *key,
				     struct near_rcu_map_iterator *i);

/* The next entry, in no particular order, or NULL. */
NEAR_API struct near_rcu_map_entry *near_rcu_map_next(struct near_rcu_map_iterator *i);

/* Iterates without a long section, a part at a time: calls `visit` for the entries from `cursor`
 * on, which is 0 at first, and returns the cursor for the next call, 0 at the end. A call ends with
 * the bucket in which it has passed `most` entries and buckets: it is short if the map is empty,
 * too. Each bucket is a section of the map's domain, in which `visit` runs, without a lock: it may
 * remove the entry, replace it, or keep a reference. */
NEAR_API uint64_t near_rcu_map_sweep(struct near_rcu_map *m, uint64_t cursor, size_t most,
				     near_rcu_map_visit *visit, void *argument);

/* Removes all entries that are there when the call begins, and gives each that no other thread
 * removes to `removed`, which frees it after a grace period; it runs in a section, without a lock.
 * An entry that is inserted concurrently may stay. */
NEAR_API void near_rcu_map_clear(struct near_rcu_map *m, near_rcu_map_visit *removed,
				 void *argument);

/* Later versions add fields at the end. */
struct near_rcu_map_stats {
	uint64_t entries; /* a sum that is not of one moment */
	uint64_t buckets; /* of the table; while it is resized, of the new one, */
	uint64_t chained; /* and those outside of it: a hash that does not spread makes many */
	uint64_t memory;  /* bytes of tables and locks, without old tables that readers may use */
	uint32_t resizing;
};

/* Fills *out, of which the caller knows `size` bytes. 0; -EINVAL: size is 0. */
NEAR_API int near_rcu_map_stats(struct near_rcu_map *m, struct near_rcu_map_stats *out,
				size_t size);

NEAR__END_DECLS

#endif
