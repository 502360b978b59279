/* SPDX-License-Identifier: MIT */
/* near_rcu_map64: changes; src/rcu/map64.h has the argument. */
#include "rcu/map64.h"

#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/reserved.h"
#include "base/valgrind.h"

#define MOVED NEAR__RCU_MAP64_MOVED

enum mode { PUT, INSERT, REPLACE, REMOVE };

struct change {
	uint64_t key, mixed, value;
	uint64_t now;   /* the value that it has found, or for REPLACE expects */
	uintptr_t full; /* the table that has no place */
	enum mode mode;
};

/* ---- in a section ---- */

static bool change_applies(const struct change *c, uint64_t now)
{
	switch (c->mode) {
	case INSERT:
		return !now;
	case REPLACE:
		return now == c->now;
	case REMOVE:
		return now;
	default:
		return true;
	}
}

static int change_end(struct change *c, uint64_t now)
{
	int r = change_applies(c, now) ? 0 : c->mode == INSERT ? -EEXIST : -ENOENT;

	c->now = now;
	return r;
}

/* 0; -EEXIST, -ENOENT; -EAGAIN: no table has a place. */
static int change_key(uintptr_t table, struct change *c)
{
	while (table) {
		uint64_t found, *at = near__rcu_map64_search(table, c->mixed, c->key, &found), now;

		if (at && !found && !change_applies(c, 0))
			break;
		if (at && !found && !near__rcu_map64_claim(at, c->key))
			continue;
		if (at) {
			at += NEAR__RCU_MAP64_SLOTS; /* the value */
			now = near__rcu_map64_load(at);
			while (now != MOVED && change_applies(c, now) &&
			       !near__rcu_map64_store(at, &now, c->value))
				;
			if (now != MOVED)
				return change_end(c, now);
		}
		c->full = table;
		table = near__rcu_map64_next(table);
	}
	return change_applies(c, 0) ? -EAGAIN : change_end(c, 0);
}

/* False: there is nothing to move; a hint. */
__attribute__((noinline)) static bool change_try(struct near_rcu_map64 *m, struct change *c, int *r)
{
	near_rcu_token t = near_rcu_enter(m->rcu);
	uintptr_t table = near_rcu_dereference(m->table);
	bool moves;

	*r = change_key(table, c);
	moves = near__rcu_map64_next(table);
	near_rcu_exit(m->rcu, t);
	return moves;
}

static int map64_change(struct near_rcu_map64 *m, struct change *c)
{
	bool moves;
	int r;

	c->mixed = near__rcu_map64_mix(m->factor, c->key);
	while (moves = change_try(m, c, &r), r == -EAGAIN) {
		r = near__rcu_map64_rehash(m, c->full, 0);
		if (r)
			return r;
	}
	if (!r && !c->now != !c->value)
		near_counter_add(&m->entries, c->value ? 1 : -1);
	if (moves && (c->mode == PUT || c->mode == INSERT))
		near__rcu_map64_help(m);
	return r;
}

/* ---- what users call ---- */

static bool is_value(uint64_t value)
{
	return value && value != MOVED;
}

static int change_new(struct near_rcu_map64 *m, uint64_t key, uint64_t value, enum mode mode,
		      uint64_t *now)
{
	struct change c = {.key = key, .value = value, .mode = mode};
	int r;

	if (!key || !is_value(value))
		return -EINVAL;
	r = map64_change(m, &c);
	if (now)
		*now = c.now;
	return r;
}

int near_rcu_map64_put(struct near_rcu_map64 *m, uint64_t key, uint64_t value, uint64_t *old)
{
	return change_new(m, key, value, PUT, old);
}

int near_rcu_map64_insert(struct near_rcu_map64 *m, uint64_t key, uint64_t value,
			  uint64_t *existing)
{
	return change_new(m, key, value, INSERT, existing);
}

static int change_if(struct near_rcu_map64 *m, uint64_t key, uint64_t *expected, uint64_t value)
{
	struct change c = {.key = key, .value = value, .now = *expected, .mode = REPLACE};
	int r;

	if (!key || !is_value(*expected) || value == MOVED)
		return -EINVAL;
	r = map64_change(m, &c);
	*expected = c.now;
	return r;
}

int near_rcu_map64_replace(struct near_rcu_map64 *m, uint64_t key, uint64_t *expected,
			   uint64_t value)
{
	return value ? change_if(m, key, expected, value) : -EINVAL;
}

int near_rcu_map64_remove_if(struct near_rcu_map64 *m, uint64_t key, uint64_t expected)
{
	return change_if(m, key, &expected, 0);
}

uint64_t near_rcu_map64_remove(struct near_rcu_map64 *m, uint64_t key)
{
	struct change c = {.key = key, .mode = REMOVE};

	if (key)
		map64_change(m, &c);
	return c.now;
}

int near_rcu_map64_resize(struct near_rcu_map64 *m, size_t entries)
{
	uint32_t bits = entries ? near__rcu_map64_bits(entries) : 0;

	return bits ? near__rcu_map64_rehash(m, 0, bits) : -EINVAL;
}

/* The kernel's number: a client that chooses keys cannot choose ones of one line. */
static uint64_t choose_factor(const struct near_rcu_map64 *m)
{
	uint64_t factor = 0;
	int saved = errno;

	if (getrandom(&factor, sizeof(factor), GRND_NONBLOCK) != sizeof(factor))
		factor = (uintptr_t)m ^ near__clock_ns(CLOCK_MONOTONIC) << 20;
	near__heap_set_errno(saved);
	return factor | 1;
}

int near_rcu_map64_init(struct near_rcu_map64 *m, struct near_rcu *rcu,
			const struct near_rcu_map64_options *options)
{
	uint32_t bits = near__rcu_map64_bits(options ? options->entries : 0);
	struct near__rcu_map_table *t;
	int r;

	if (!bits || (options && !NEAR__RESERVED_ARE_ZERO(options)))
		return -EINVAL;
	memset(m, 0, sizeof(*m));
	near__valgrind_ignore(m, sizeof(*m));
	r = near_counter_init(&m->entries);
	if (r)
		return r;
	t = near__rcu_map_allocate(bits);
	if (!t) {
		near_counter_destroy(&m->entries);
		return -ENOMEM;
	}
	m->rcu = rcu;
	m->factor = choose_factor(m);
	m->floor_bits = bits;
	m->table = near__rcu_map_word(t);
	near__rcu_map64_register(m);
	return 0;
}

void near_rcu_map64_destroy(struct near_rcu_map64 *m)
{
	uintptr_t table = m->table;

	near__rcu_map64_unregister(m);
	while (table) {
		struct near__rcu_map_table *t = near__rcu_map_table(table);

		table = t->next;
		near__rcu_map_free(t);
	}
	near__rcu_map_hand_over(m->rcu, &m->retired);
	near_counter_destroy(&m->entries);
	memset(m, 0, sizeof(*m));
}
