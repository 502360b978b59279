/* SPDX-License-Identifier: MIT */
/* near_rcu_map64: slots and lookups; src/rcu/map64.h has the argument. */
#include "rcu/map64.h"

/* Relaxed: see map64.h. */
uint64_t *near__rcu_map64_search(uintptr_t table, uint64_t mixed, uint64_t key, uint64_t *found)
{
	for (unsigned i = 0; i < NEAR__RCU_MAP64_PATH; i++) {
		struct near__rcu_map64_line *line = near__rcu_map64_line(table, mixed, i);

		for (unsigned s = 0; s < NEAR__RCU_MAP64_SLOTS; s++) {
			*found = __atomic_load_n(&line->keys[s], __ATOMIC_RELAXED);
			if (*found == key || !*found)
				return &line->keys[s];
		}
	}
	return NULL;
}

/* Relaxed: a key publishes nothing. */
bool near__rcu_map64_claim(uint64_t *at, uint64_t key)
{
	uint64_t now = 0;

	return __atomic_compare_exchange_n(at, &now, key, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED) ||
	       now == key;
}

/* Acquire and release: pairs with the loads of lookups, and with the CAS before it. */
bool near__rcu_map64_store(uint64_t *value, uint64_t *now, uint64_t new)
{
	bool stored;

	NEAR__TSAN_RELEASE(value);
	stored = __atomic_compare_exchange_n(value, now, new, false, __ATOMIC_ACQ_REL,
					     __ATOMIC_ACQUIRE);
	NEAR__TSAN_ACQUIRE(value);
	return stored;
}

uint64_t near__rcu_map64_find(uintptr_t table, uint64_t mixed, uint64_t key)
{
	for (; table; table = near__rcu_map64_next(table)) {
		uint64_t found, *at = near__rcu_map64_search(table, mixed, key, &found), value = 0;

		if (at && found == key)
			value = near__rcu_map64_load(at + NEAR__RCU_MAP64_SLOTS);
		if (at && value != NEAR__RCU_MAP64_MOVED)
			return value;
	}
	return 0;
}

size_t near_rcu_map64_count(const struct near_rcu_map64 *m)
{
	int64_t n = near_counter_read(&m->entries);

	return n > 0 ? (size_t)n : 0;
}
