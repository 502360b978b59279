/* SPDX-License-Identifier: MIT */
/* near_rcu_map64: a hash map of numbers: from keys of 64 bits to values of 64 bits.
 *
 * Keys and values are in the table itself: ids and pointers, for example. An entry has no object,
 * and an insertion allocates nothing, unless the table has to grow. Lookups write nothing and wait
 * for nothing; changes are one CAS of the value, without a lock. The table grows in steps that
 * insertions make, while lookups and other changes continue.
 *
 * The value 0 means that the key is not there. The key 0 and the values 0 and UINT64_MAX cannot be
 * stored: -EINVAL.
 *
 * Cost:      a lookup loads one cache line, unless that line is full of other keys: 12 lines at
 *            most. A change has a section and one atomic instruction, that of a new key two.
 * Memory:    a table of 16 bytes for each slot, in lines of four. A new table has two to six slots
 *            for each entry, and at least 64. A new key that finds no free slot in its 12 lines
 *            begins another table: when 80 to 90 % of thousands of slots are used, 65 % of a
 *            million. A removed key keeps its slot until then, so that the new table may be as
 *            large as the old one, or smaller. The old one is there until all entries have moved,
 *            and a grace period has ended. Besides, 8 bytes for each slot of CPUs in use.
 * Safety:    find: within a section of the map's domain. get, replace, remove, remove_if: any
 *            thread, within a section or not, signal handlers. All else: any thread, not signal
 *            handlers. errno is left alone; nothing is a cancellation point.
 * Order:     what a thread stored before it stored a value is seen by a thread that finds that.
 *            Changes of one key have one order, which lookups agree with.
 * ABA:       replace and remove_if compare values. A value that was removed and stored again is the
 *            same value. If it is a pointer to memory that is freed after a grace period, find and
 *            replace belong into one section: then it is the same object.
 * Fork:      the child has a copy of the map, whole. A table that moves continues to do so.
 * Fallback:  as near_rcu has, for its sections, and near_counter.
 *
 * A sweep finds each key that is there from its begin to its end once; one that is inserted or
 * removed concurrently may be found or not.
 *
 * Concurrent with:    find, get, sweep   changes, resize, count   destroy
 *     find, get, sweep       yes                  yes               no
 *     changes ...            yes                  yes               no
 *
 *     struct near_rcu_map64 sessions;              // near_rcu_map64_init(&sessions, &rcu, NULL)
 *
 *     near_rcu_map64_insert(&sessions, id, (uintptr_t)s, NULL);
 *
 *     near_rcu_token t = near_rcu_enter(&rcu);
 *     struct session *s = (struct session *)(uintptr_t)near_rcu_map64_find(&sessions, id);
 *     ...
 *     near_rcu_exit(&rcu, t);
 *
 *     s = (struct session *)(uintptr_t)near_rcu_map64_remove(&sessions, id);
 *     if (s)
 *             near_rcu_call(&rcu, &s->rcu, free_session, sizeof(*s));
 *
 * Source: Cliff Click, "A lock-free hash table" (2007): keys that are claimed by CAS and never
 * change, and a value that sends to the next table. Differs in that a value that moves needs no
 * object: one thread at a time moves a slot.
 */
#ifndef NEARCPU_RCU_MAP64_H
#define NEARCPU_RCU_MAP64_H

#include <nearcpu/counter.h>
#include <nearcpu/rcu_map.h>

NEAR__BEGIN_DECLS

/* Private; src/rcu/map64.c explains it. */
struct near_rcu_map64 {
	/* Loaded by lookups. */
	uintptr_t table; /* address of the lines, plus the shift */
	uint64_t factor;
	struct near_rcu *rcu;
	struct near_counter entries;
	struct near_rcu_map64 *next; /* of the process's maps */
	/* Not in the line of what lookups load. */
	char apart[64];
	struct near_lock moving;
	uint64_t moved; /* lines of the table, the first ones */
	uint32_t floor_bits;
	struct near__rcu_map_table *retired;
};

#define NEAR__RCU_MAP64_SLOTS 4
#define NEAR__RCU_MAP64_MOVED UINT64_MAX /* a value */

/* One cache line, of a table as that of near_rcu_map. A key of 0: the slot is free. */
struct near__rcu_map64_line {
	uint64_t keys[NEAR__RCU_MAP64_SLOTS] __attribute__((aligned(64)));
	uint64_t values[NEAR__RCU_MAP64_SLOTS];
};

/* The first factor is random and odd. The high bits choose the line. */
NEAR__INLINE uint64_t near__rcu_map64_mix(uint64_t factor, uint64_t key)
{
	key *= factor;
	key ^= key >> 32;
	return key * 0x9e3779b97f4a7c15u;
}

NEAR_API uint64_t near__rcu_map64_find(uintptr_t table, uint64_t mixed, uint64_t key);

/* The key's value, or 0. Requires a section of the map's domain: if the value is a pointer to what
 * is freed after a grace period, it may be used until the section ends. */
NEAR_INLINE uint64_t near_rcu_map64_find(const struct near_rcu_map64 *m, uint64_t key)
{
	uint64_t mixed = near__rcu_map64_mix(m->factor, key), last, value;
	const struct near__rcu_map64_line *line;
	uintptr_t table;
	unsigned found;

	NEAR__CHECK_READY(m->rcu, m);
	table = near_rcu_dereference(m->table);
	line = (const struct near__rcu_map64_line *)near__rcu_map_bucket(table, mixed);
	/* Relaxed: a slot's key never changes, and free ones are taken from the first to the last:
	 * with the last one free, the key was not there when that was loaded. The four are compared
	 * before one is branched to, which could not be predicted. */
#define NEAR__RCU_MAP64_KEY(i) __atomic_load_n(&line->keys[i], __ATOMIC_RELAXED)
	last = NEAR__RCU_MAP64_KEY(3);
	found = (unsigned)(NEAR__RCU_MAP64_KEY(0) == key) |
		(unsigned)(NEAR__RCU_MAP64_KEY(1) == key) << 1 |
		(unsigned)(NEAR__RCU_MAP64_KEY(2) == key) << 2 | (unsigned)(last == key) << 3;
#undef NEAR__RCU_MAP64_KEY
	if (__builtin_expect(found != 0, 1)) {
		/* Acquire: pairs with the CAS that stored it. */
		value = near__rcu_map_load(line->values[__builtin_ctz(found)]);
		if (__builtin_expect(value != NEAR__RCU_MAP64_MOVED, 1))
			return value;
	} else if (!last) {
		return 0;
	}
	return near__rcu_map64_find(table, mixed, key);
}

/* The same, in a section of its own. */
NEAR_INLINE uint64_t near_rcu_map64_get(const struct near_rcu_map64 *m, uint64_t key)
{
	near_rcu_token t = near_rcu_enter(m->rcu);
	uint64_t value = near_rcu_map64_find(m, key);

	near_rcu_exit(m->rcu, t);
	return value;
}

/* Of a new map; 0: the default. */
struct near_rcu_map64_options {
	size_t entries;       /* that are expected: no table is made for less; default 32 */
	uint64_t reserved[4]; /* 0 */
};

/* `options` may be NULL. Returns 0; -EINVAL: more entries than any memory has, or a reserved word
 * that is not 0; -ENOMEM. */
NEAR_API int near_rcu_map64_init(struct near_rcu_map64 *m, struct near_rcu *rcu,
				 const struct near_rcu_map64_options *options);

/* Frees what the map has. Requires that nobody uses it. The domain must be destroyed later. */
NEAR_API void near_rcu_map64_destroy(struct near_rcu_map64 *m);

/* Changes. After an error nothing has changed. -EINVAL: the key is 0, or a value is 0 or
 * UINT64_MAX. */

/* Stores the value, whether the key is there or not. *old, unless old is NULL, is the former value,
 * or 0. Returns 0, -ENOMEM or -EINVAL. */
NEAR_API int near_rcu_map64_put(struct near_rcu_map64 *m, uint64_t key, uint64_t value,
				uint64_t *old);

/* Stores the value unless the key is there. Returns 0; -EEXIST: it is there, and *existing, unless
 * existing is NULL, is its value; -ENOMEM or -EINVAL. */
NEAR_API int near_rcu_map64_insert(struct near_rcu_map64 *m, uint64_t key, uint64_t value,
				   uint64_t *existing);

/* Stores `value` if the key's value is `*expected`. Returns 0; -ENOENT: it is not, and *expected is
 * the key's value, 0 if it is not there; -EINVAL. */
NEAR_API int near_rcu_map64_replace(struct near_rcu_map64 *m, uint64_t key, uint64_t *expected,
				    uint64_t value);

/* Removes the key and returns its value, or 0. */
NEAR_API uint64_t near_rcu_map64_remove(struct near_rcu_map64 *m, uint64_t key);

/* Removes the key if its value is `expected`. Returns 0; -ENOENT: it is not; -EINVAL. */
NEAR_API int near_rcu_map64_remove_if(struct near_rcu_map64 *m, uint64_t key, uint64_t expected);

/* Makes the table one for `entries` entries, and for those that it has; no later table is smaller
 * than for `entries`. Completes a move that others began. Returns 0; -EINVAL: 0, or more entries
 * than any memory has; -ENOMEM: all entries are still in the map. */
NEAR_API int near_rcu_map64_resize(struct near_rcu_map64 *m, size_t entries);

/* How many keys there are: what changes have counted, each after it was made. */
NEAR_API size_t near_rcu_map64_count(const struct near_rcu_map64 *m);

/* Something is done with an entry. */
typedef void near_rcu_map64_visit(uint64_t key, uint64_t value, void *argument);

/* Iterates a part at a time: calls `visit` for the entries from `cursor` on, which is 0 at first,
 * and returns the cursor for the next call, 0 at the end. A call ends when it has passed `most`
 * entries and lines. Each line is a section of the map's domain, in which `visit` runs, without a
 * lock: it may change the map. */
NEAR_API uint64_t near_rcu_map64_sweep(struct near_rcu_map64 *m, uint64_t cursor, size_t most,
				       near_rcu_map64_visit *visit, void *argument);

/* Removes all keys that are there when the call begins, and passes each that no other thread
 * removes to `removed`, unless that is NULL; it runs in a section, without a lock. A key that is
 * inserted concurrently may stay. */
NEAR_API void near_rcu_map64_clear(struct near_rcu_map64 *m, near_rcu_map64_visit *removed,
				   void *argument);

NEAR__END_DECLS

#endif
