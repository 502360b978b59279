/* SPDX-License-Identifier: MIT */
/* near_rcu_map: buckets, as their stripe's lock lets one thread change them; src/rcu/map.h has the
 * argument. */
#include "rcu/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/valgrind.h"

#define MOVED NEAR__RCU_MAP_MOVED
#define SLOTS NEAR__RCU_MAP_CELLS

static unsigned shift_of(uintptr_t table)
{
	return table & 63;
}

struct near__rcu_map_bucket *near__rcu_map_find_bucket(const struct near_rcu_map *m, uint64_t mixed,
						       struct near__rcu_map_table **t)
{
	/* Relaxed, all three: the lock orders them. */
	uintptr_t table = __atomic_load_n(&m->table, __ATOMIC_RELAXED);
	struct near__rcu_map_bucket *b = near__rcu_map_bucket(table, mixed);

	if (__atomic_load_n(&b->control, __ATOMIC_RELAXED) & MOVED) {
		table = __atomic_load_n(&near__rcu_map_table(table)->next, __ATOMIC_RELAXED);
		b = near__rcu_map_bucket(table, mixed);
	}
	*t = near__rcu_map_table(table);
	return b;
}

/* Release: pairs with the acquire of lookups, which then find what was stored before. */
static void set_control(struct near__rcu_map_bucket *b, uint64_t control)
{
	NEAR__TSAN_RELEASE(&b->control);
	__atomic_store_n(&b->control, control, __ATOMIC_RELEASE);
}

void near__rcu_map_clear(struct near__rcu_map_bucket *b, unsigned slot)
{
	/* Relaxed: publishes nothing. */
	__atomic_store_n(&b->slots[slot], NULL, __ATOMIC_RELAXED);
	set_control(b, b->control & ~((uint64_t)0xff << 8 * slot));
}

static int free_slot(const struct near__rcu_map_bucket *b)
{
	for (int i = 0; i < SLOTS; i++)
		if (!(b->control >> 8 * i & 0xff))
			return i;
	return -1;
}

/* In the first free slot of b and what follows it. Returns the bucket, or NULL without spares. */
static struct near__rcu_map_bucket *add_from(struct near__rcu_map_bucket *b,
					     struct near__rcu_map_table *t,
					     struct near_rcu_map_entry *e, uint64_t mixed,
					     struct near__rcu_map_bucket **spares)
{
	struct near__rcu_map_bucket *first = *spares;
	int slot;

	while ((slot = free_slot(b)) < 0 && b->more)
		b = b->more;
	if (slot < 0) {
		if (!first)
			return NULL;
		*spares = first->more;
		first->more = NULL;
		first->slots[0] = e;
		first->control = near__rcu_map_tag(mixed);
		__atomic_fetch_add(&t->chained, 1, __ATOMIC_RELAXED); /* other stripes do, too */
		near__rcu_map_publish(b->more, first);
		return first;
	}
	/* The tag first: a lookup that finds the entry by a former tag is to find it again. */
	set_control(b, b->control | near__rcu_map_tag(mixed) << 8 * slot);
	near__rcu_map_publish(b->slots[slot], e);
	return b;
}

bool near__rcu_map_add(struct near__rcu_map_table *t, struct near_rcu_map_entry *e, uint64_t mixed,
		       struct near__rcu_map_bucket **spares)
{
	return add_from(near__rcu_map_bucket(near__rcu_map_word(t), mixed), t, e, mixed, spares);
}

/* ---- moving ---- */

/* Entries of a chain; *room: its free slots. */
static size_t bucket_count(const struct near__rcu_map_bucket *b, size_t *room)
{
	size_t n = 0;

	for (*room = 0; b; b = b->more)
		for (int i = 0; i < SLOTS; i++)
			*(b->slots[i] ? &n : room) += 1;
	return n;
}

/* At most. What goes to several empty buckets, none of which needs the first six: (n - 1) / 6. */
static size_t spares_for(const struct near__rcu_map_bucket *b, uintptr_t to, uint64_t mixed,
			 bool grows)
{
	size_t room, n = bucket_count(b, &room);

	if (grows)
		return n ? (n - 1) / SLOTS : 0;
	bucket_count(near__rcu_map_bucket(to, mixed), &room);
	return n > room ? (n - room + SLOTS - 1) / SLOTS : 0;
}

size_t near__rcu_map_move(struct near__rcu_map_table *t, uint64_t index,
			  struct near__rcu_map_bucket **spares)
{
	uintptr_t from = near__rcu_map_word(t), to = t->next;
	uint64_t mixed = index << shift_of(from);
	struct near__rcu_map_bucket *first = near__rcu_map_bucket(from, mixed);
	struct near__rcu_map_table *next = near__rcu_map_table(to);
	struct near__rcu_map_bucket *head = NULL, *at = NULL;
	size_t need = spares_for(first, to, mixed, next->bits > t->bits), have = 0;

	for (const struct near__rcu_map_bucket *s = *spares; s && have < need; s = s->more)
		have++;
	if (have < need)
		return need;
	for (const struct near__rcu_map_bucket *b = first; b; b = b->more)
		for (int i = 0; i < SLOTS; i++) {
			struct near_rcu_map_entry *e = b->slots[i];

			if (!e)
				continue;
			mixed = near__rcu_map_mix(e->hash);
			/* A long chain is not searched again for each of its entries. */
			if (near__rcu_map_bucket(to, mixed) != head)
				head = at = near__rcu_map_bucket(to, mixed);
			at = add_from(at, next, e, mixed, spares);
		}
	/* Publishes the copies, and `next`. */
	set_control(first, first->control | MOVED);
	return 0;
}

/* ---- memory ---- */

void *near__rcu_map_lines(size_t bytes)
{
	int saved = errno, r;
	void *p;

	r = posix_memalign(&p, 64, bytes);
	near__heap_set_errno(saved);
	if (r)
		return NULL;
	near__valgrind_ignore(p, bytes);
	return memset(p, 0, bytes);
}

int near__rcu_map_get_spares(struct near__rcu_map_bucket **spares, size_t n)
{
	for (const struct near__rcu_map_bucket *s = *spares; s && n; s = s->more)
		n--;
	for (; n; n--) {
		struct near__rcu_map_bucket *b = near__rcu_map_lines(sizeof(*b));

		if (!b)
			return -ENOMEM;
		b->more = *spares;
		*spares = b;
	}
	return 0;
}

void near__rcu_map_free_spares(struct near__rcu_map_bucket *b)
{
	while (b) {
		struct near__rcu_map_bucket *more = b->more;

		free(b);
		b = more;
	}
}
