/* SPDX-License-Identifier: MIT */
/* near_rcu_map: making one, counting, iterating. */
#include "rcu/map.h"

#include <nearcpu/rseq.h>
#include <stdlib.h>
#include <string.h>

#include "base/known.h"
#include "base/reserved.h"
#include "base/valgrind.h"

#define DEFAULT_ENTRIES 64
#define LEAST_STRIPE_BITS 3
#define MOST_STRIPE_BITS 6

static int map_allocate(struct near_rcu_map *m)
{
	struct near__rcu_map_table *t;

	m->stripes = near__rcu_map_lines(sizeof(*m->stripes) << m->stripe_bits);
	if (!m->stripes)
		return -ENOMEM;
	t = near__rcu_map_allocate(m->floor_bits);
	if (!t) {
		free(m->stripes);
		return -ENOMEM;
	}
	m->table = near__rcu_map_word(t);
	return 0;
}

int near_rcu_map_init(struct near_rcu_map *m, struct near_rcu *rcu, near_rcu_map_hash *hash,
		      near_rcu_map_equal *equal, const struct near_rcu_map_options *options)
{
	size_t entries = options && options->entries ? options->entries : DEFAULT_ENTRIES;
	int r;

	if (options && !NEAR__RESERVED_ARE_ZERO(options))
		return -EINVAL;
	memset(m, 0, sizeof(*m));
	near__valgrind_ignore(m, sizeof(*m));
	m->hash = hash;
	m->equal = equal;
	m->rcu = rcu;
	m->stripe_bits = LEAST_STRIPE_BITS;
	while (1u << m->stripe_bits < 4 * near_cpus() && m->stripe_bits < MOST_STRIPE_BITS)
		m->stripe_bits++;
	m->floor_bits = near__rcu_map_bits(m, entries);
	if (!m->floor_bits)
		return -EINVAL;
	r = map_allocate(m);
	if (!r)
		near__rcu_map_register(m);
	return r;
}

void near_rcu_map_destroy(struct near_rcu_map *m)
{
	struct near__rcu_map_table *t = near__rcu_map_current(m), *next;

	near__rcu_map_unregister(m);
	if (t->next)
		near__rcu_map_free(near__rcu_map_table(t->next));
	near__rcu_map_free(t);
	for (t = m->retired; t; t = next) {
		next = t->retired;
		near__rcu_map_free(t);
	}
	free(m->stripes);
	memset(m, 0, sizeof(*m));
}

size_t near_rcu_map_count(struct near_rcu_map *m)
{
	uint64_t n;

	for (unsigned i = 0; i < near__rcu_map_stripes(m); i++)
		near_lock_lock(&m->stripes[i].lock);
	n = near__rcu_map_sum(m);
	for (unsigned i = 0; i < near__rcu_map_stripes(m); i++)
		near_lock_unlock(&m->stripes[i].lock);
	return n;
}

static uint64_t bytes_of(const struct near__rcu_map_table *t)
{
	return sizeof(*t) + (sizeof(struct near__rcu_map_bucket) << t->bits) +
	       sizeof(struct near__rcu_map_bucket) * __atomic_load_n(&t->chained, __ATOMIC_RELAXED);
}

int near_rcu_map_stats(struct near_rcu_map *m, struct near_rcu_map_stats *out, size_t size)
{
	struct near_rcu_map_stats s = {0};
	const struct near__rcu_map_table *t;

	s.memory = sizeof(*m->stripes) << m->stripe_bits;
	near_lock_lock(&m->resizing);
	t = near__rcu_map_current(m);
	s.memory += bytes_of(t);
	if (t->next) {
		t = near__rcu_map_table(t->next);
		s.memory += bytes_of(t);
		s.resizing = 1;
	}
	s.buckets = (uint64_t)1 << t->bits;
	s.chained = __atomic_load_n(&t->chained, __ATOMIC_RELAXED);
	near_lock_unlock(&m->resizing);
	s.entries = near__rcu_map_sum(m);
	return near__copy_known(out, size, &s, sizeof(s));
}

/* ---- iteration ---- */

/* The bucket of i->first, as a lookup finds it, and up to which hash it is to be believed. */
static void find_bucket(struct near_rcu_map_iterator *i)
{
	uintptr_t table = near_rcu_dereference(i->map->table);

	i->last = UINT64_MAX;
	for (;;) {
		uint64_t last = i->first | (((uint64_t)1 << (table & 63)) - 1);

		i->last = last < i->last ? last : i->last;
		i->bucket = near__rcu_map_bucket(table, i->first);
		/* Acquire: as in a lookup. */
		if (!(__atomic_load_n(&i->bucket->control, __ATOMIC_ACQUIRE) & NEAR__RCU_MAP_MOVED))
			break;
		table = near_rcu_dereference(near__rcu_map_table(table)->next);
	}
	i->slot = 0;
}

void near_rcu_map_begin(const struct near_rcu_map *m, struct near_rcu_map_iterator *i)
{
	memset(i, 0, sizeof(*i));
	i->map = m;
	find_bucket(i);
}

struct near_rcu_map_entry *near_rcu_map_next(struct near_rcu_map_iterator *i)
{
	while (!i->ends) {
		struct near_rcu_map_entry *e;
		uint64_t mixed;

		if (i->slot == NEAR__RCU_MAP_CELLS) {
			i->bucket = near_rcu_dereference(i->bucket->more);
			i->slot = 0;
		}
		if (!i->bucket) {
			i->ends = i->last == UINT64_MAX;
			i->first = i->last + 1;
			if (!i->ends)
				find_bucket(i);
			continue;
		}
		e = near_rcu_dereference(i->bucket->slots[i->slot++]);
		if (!e)
			continue;
		NEAR__TSAN_ACQUIRE(&i->bucket->slots[i->slot - 1]);
		mixed = near__rcu_map_mix(e->hash);
		if (mixed - i->first <= i->last - i->first)
			return e;
	}
	return NULL;
}
