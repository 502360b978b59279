/* SPDX-License-Identifier: MIT */
/* near_rcu_map: making one, counting. */
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
