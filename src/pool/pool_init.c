/* SPDX-License-Identifier: MIT */
/* Beginning, end and statistics of near_pool. */
#include <nearcpu/pool.h>

#include <errno.h>
#include <string.h>

#include "base/known.h"
#include "base/reserved.h"
#include "pool/pool.h"

#define DEFAULT_ALIGN 16
#define DEFAULT_BATCH 64
#define MOST_ROOM 16 /* batches in a slot */
#define LEAST_ROOM 4
#define BATCH_BYTES ((size_t)16 << 10)

static int options_check(size_t size, const struct near_pool_options *o)
{
	if (!size || o->align & (o->align - 1) || !NEAR__RESERVED_ARE_ZERO(o))
		return -EINVAL;
	return size > NEAR_POOL_MAX_SIZE || o->align > NEAR_POOL_MAX_ALIGN ||
			       o->batch > NEAR_POOL_MAX_BATCH
		       ? -E2BIG
		       : 0;
}

/* All slots together have half of the cap at most, in up to MOST_ROOM batches each; the rest is for
 * the center. With a small cap batches become shorter, so that a slot has LEAST_ROOM. With the
 * array's two words a copy has a power of two, for batches of 64. */
static void pool_complete(struct near__pool *p)
{
	struct near_pool_options *o = &p->options;
	size_t slots = near_slots(), room;

	if (!o->align)
		o->align = DEFAULT_ALIGN;
	if (!o->batch)
		o->batch = p->size < BATCH_BYTES / DEFAULT_BATCH
				   ? DEFAULT_BATCH
				   : (unsigned)(BATCH_BYTES / p->size);
	o->batch = o->batch ? o->batch : 1;
	if (!o->max_idle)
		o->max_idle = 2 * MOST_ROOM * o->batch * slots;
	room = o->max_idle > slots && o->max_idle < 2 * slots ? 1 : o->max_idle / (2 * slots);
	if (room > MOST_ROOM * o->batch - 2)
		room = MOST_ROOM * o->batch - 2;
	p->room = p->check ? 0 : (uint32_t)room;
	p->center = o->max_idle - p->room * slots;
	if (o->batch > room / LEAST_ROOM)
		o->batch = room > LEAST_ROOM ? (unsigned)room / LEAST_ROOM : 1;
}

int near_pool_init(struct near_pool *pool, size_t size, const struct near_pool_options *options)
{
	struct near__pool begun = {.size = size}, *p;
	int saved = errno, r;
	void *slots;

	if (options)
		begun.options = *options;
	r = options_check(size, &begun.options);
	if (r)
		return r;
	near_slots(); /* the configuration is read */
	begun.check = near__process.conf.pool_check;
	pool_complete(&begun);
	r = near_percpu_alloc(sizeof(struct near__pool_slot) + begun.room * sizeof(uint64_t),
			      NEAR__CACHE_LINE, &slots);
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
	struct near_pool_stats s;

	if (!p)
		return;
	near_pool_drain(pool);
	near_pool_stats(pool, &s, sizeof(s));
	if (s.objects && near__process.conf.pool_check)
		near__die("near_pool_destroy: an object is in use");
	near_percpu_free(p->slots);
	near__pool_unmap(p);
	memset(pool, 0, sizeof(*pool));
}

/* ---- statistics ---- */

static void read_center(struct near__pool *p, struct near_pool_stats *out)
{
	near_lock_lock(p->lock);
	out->idle += p->count;
	out->memory = p->used << p->chunk_shift;
	out->objects = p->live;
	near_lock_unlock(p->lock);
}

int near_pool_stats(const struct near_pool *pool, struct near_pool_stats *out, size_t size)
{
	struct near__pool *p = pool->rest;
	struct near_pool_stats known = {
		.stride = p->stride,
		.max_idle = p->options.max_idle,
		.batch = p->options.batch,
		.constructed = __atomic_load_n(&p->constructed, __ATOMIC_RELAXED),
		.destructed = __atomic_load_n(&p->destructed, __ATOMIC_RELAXED),
	};

	for (unsigned s = 0; near_percpu_next(p->slots, &s); s++) {
		const struct near__pool_slot *slot = near__pool_slot(p, s);

		known.idle +=
			near__pool_count(__atomic_load_n(&slot->array.position, __ATOMIC_RELAXED));
	}
	read_center(p, &known);
	return near__copy_known(out, size, &known, sizeof(known));
}
