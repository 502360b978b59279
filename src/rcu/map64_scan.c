/* SPDX-License-Identifier: MIT */
/* near_rcu_map64: sweeps; src/rcu/map64.h has the argument. */
#include "rcu/map64.h"

struct sweep {
	const struct near_rcu_map64 *map;
	uintptr_t root;       /* the map's table when the section began */
	uint64_t first, last; /* of the mixed keys that are to be visited */
	near_rcu_map64_visit *visit;
	void *argument;
	size_t passed;
};

/* Whether the key is in a table before this one, where it has been visited. */
static bool is_earlier(const struct sweep *w, uintptr_t table, uint64_t mixed, uint64_t key)
{
	uint64_t found;

	for (uintptr_t t = w->root; t != table; t = near__rcu_map64_next(t))
		if (near__rcu_map64_search(t, mixed, key, &found) && found == key)
			return true;
	return false;
}

static void sweep_slot(struct sweep *w, uintptr_t table, uint64_t key, const uint64_t *at)
{
	uint64_t mixed = near__rcu_map64_mix(w->map->factor, key), value;

	if (mixed - w->first > w->last - w->first || is_earlier(w, table, mixed, key))
		return;
	value = near__rcu_map64_load(at);
	if (value == NEAR__RCU_MAP64_MOVED)
		value = near__rcu_map64_find(near__rcu_map64_next(table), mixed, key);
	if (!value)
		return;
	w->visit(key, value, w->argument);
	w->passed++;
}

/* The keys whose first line this is. */
static void sweep_path(struct sweep *w, uintptr_t table, uint64_t first)
{
	for (unsigned i = 0; i < NEAR__RCU_MAP64_PATH; i++) {
		struct near__rcu_map64_line *line = near__rcu_map64_line(table, first, i);

		for (unsigned s = 0; s < NEAR__RCU_MAP64_SLOTS; s++) {
			uint64_t key = __atomic_load_n(&line->keys[s], __ATOMIC_RELAXED);

			if (!key)
				return;
			if ((near__rcu_map64_mix(w->map->factor, key) ^ first) >> (table & 63) == 0)
				sweep_slot(w, table, key, &line->values[s]);
		}
	}
}

/* A line of the map's table, and where its keys have moved to, in the order in which tables follow
 * each other: a key that has been in one of them stays there, moved or not. */
__attribute__((noinline)) static void sweep_line(struct sweep *w)
{
	near_rcu_token token = near_rcu_enter(w->map->rcu);
	uint64_t at, line;

	w->root = near_rcu_dereference(w->map->table);
	w->last = w->first | (((uint64_t)1 << (w->root & 63)) - 1);
	for (uintptr_t t = w->root; t; t = near__rcu_map64_next(t)) {
		line = ((uint64_t)1 << (t & 63)) - 1;
		for (at = w->first; sweep_path(w, t, at), (at | line) < w->last;)
			at = (at | line) + 1;
	}
	near_rcu_exit(w->map->rcu, token);
}

uint64_t near_rcu_map64_sweep(struct near_rcu_map64 *m, uint64_t cursor, size_t most,
			      near_rcu_map64_visit *visit, void *argument)
{
	struct sweep w = {.map = m, .first = cursor, .visit = visit, .argument = argument};

	do {
		sweep_line(&w);
		w.passed++;
		w.first = w.last + 1;
	} while (w.first && w.passed < most);
	return w.first;
}

struct clearing {
	struct near_rcu_map64 *map;
	near_rcu_map64_visit *removed;
	void *argument;
};

static void clear_key(uint64_t key, uint64_t value, void *clearing)
{
	const struct clearing *c = clearing;

	value = near_rcu_map64_remove(c->map, key);
	if (value && c->removed)
		c->removed(key, value, c->argument);
}

void near_rcu_map64_clear(struct near_rcu_map64 *m, near_rcu_map64_visit *removed, void *argument)
{
	struct clearing c = {m, removed, argument};

	near_rcu_map64_sweep(m, 0, SIZE_MAX, clear_key, &c);
}
