/* SPDX-License-Identifier: MIT */
/* Beginning, end and statistics of near_pool. */
#include <nearcpu/pool.h>

#include <errno.h>
#include <string.h>

#include "pool/pool.h"

#define DEFAULT_ALIGN 16
#define DEFAULT_BATCH 64
#define MOST_ROOM 16 /* batches in a slot */
#define LEAST_ROOM 4
#define BATCH_BYTES ((size_t)16 << 10)

static int check(const struct near_pool_options *o)
{
	if (!o->size || o->align & (o->align - 1))
		return -EINVAL;
	return o->size > NEAR_POOL_MAX_SIZE || o->align > NEAR_POOL_MAX_ALIGN ||
			       o->batch > NEAR_POOL_MAX_BATCH
		       ? -E2BIG
		       : 0;
}

/* All slots together have half of the cap at most, in up to MOST_ROOM batches each; the rest is for
 * the center. With a small cap batches become shorter, so that a slot has LEAST_ROOM. With the
 * array's two words a copy has a power of two, for batches of 64. */
static void complete(struct near__pool *p)
{
	struct near_pool_options *o = &p->options;
	size_t slots = near_slots(), room;

	if (!o->align)
		o->align = DEFAULT_ALIGN;
	if (!o->batch)
		o->batch = o->size < BATCH_BYTES / DEFAULT_BATCH
				   ? DEFAULT_BATCH
				   : (unsigned)(BATCH_BYTES / o->size);
	o->batch = o->batch ? o->batch : 1;
	if (!o->cap)
		o->cap = 2 * MOST_ROOM * o->batch * slots;
	room = o->cap > slots && o->cap < 2 * slots ? 1 : o->cap / (2 * slots);
	if (room > MOST_ROOM * o->batch - 2)
		room = MOST_ROOM * o->batch - 2;
	p->room = p->check ? 0 : (uint32_t)room;
	p->center = o->cap - p->room * slots;
	if (o->batch > room / LEAST_ROOM)
		o->batch = room > LEAST_ROOM ? (unsigned)room / LEAST_ROOM : 1;
}

int near_pool_init(struct near_pool *pool, const struct near_pool_options *options)
{
	struct near__pool begun = {.options = *options}, *p;
	int saved = errno, r = check(options);
	void *slots;

	if (r)
		return r;
	near_slots(); /* the configuration is read */
	begun.check = near__process.conf.pool_check;
	complete(&begun);
	r = near_percpu_alloc(&slots,
			      sizeof(struct near__pool_slot) + begun.room * sizeof(uint64_t),
			      NEAR__CACHE_LINE);
	if (r)
		return r;
	begun.slots = slots;
	r = near__pool_map(&p, &begun);
	if (r) {
		near_percpu_free(slots);
	} else {
		p->lock = near__percpu_lock(p);
		pool->array = &p->slots->array;
		pool->base = p->base;
		pool->size = p->check ? 0 : (size_t)p->chunks << p->chunk_shift;
		pool->rest = p;
	}
	errno = saved;
	return r;
}

void near_pool_destroy(struct near_pool *pool)
{
	struct near__pool *p = pool->rest;
	struct near_pool_status s;

	if (!p)
		return;
	near_pool_drain(pool);
	near_pool_status(pool, &s, sizeof(s));
	if (s.objects && near__process.conf.pool_check)
		near__die("near_pool_destroy: an object is in use");
	near_percpu_free(p->slots);
	near__pool_unmap(p);
	memset(pool, 0, sizeof(*pool));
}

/* ---- statistics ---- */

static void read_center(struct near__pool *p, struct near_pool_status *out)
{
	near_lock_lock(p->lock);
	out->idle += p->count;
	out->memory = p->used << p->chunk_shift;
	out->objects = p->live;
	near_lock_unlock(p->lock);
}

int near_pool_status(const struct near_pool *pool, struct near_pool_status *out, size_t size)
{
	struct near__pool *p = pool->rest;
	struct near_pool_status known = {
		.stride = p->stride,
		.cap = p->options.cap,
		.batch = p->options.batch,
		.constructed = __atomic_load_n(&p->constructed, __ATOMIC_RELAXED),
		.destructed = __atomic_load_n(&p->destructed, __ATOMIC_RELAXED),
	};

	if (!size)
		return -EINVAL;
	for (unsigned s = 0; near_percpu_next(p->slots, &s); s++) {
		const struct near__pool_slot *slot = near__pool_slot(p, s);

		known.idle +=
			near__pool_count(__atomic_load_n(&slot->array.position, __ATOMIC_RELAXED));
	}
	read_center(p, &known);
	memset(out, 0, size);
	memcpy(out, &known, size < sizeof(known) ? size : sizeof(known));
	return 0;
}
