/* SPDX-License-Identifier: MIT */
/* Begin, end, data and statistics of near_idspace. */
#define _GNU_SOURCE
#include <nearcpu/idspace.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "ground/page.h"
#include "ground/roots.h"
#include "idspace/idspace.h"

#define DEFAULT_IDS 4096
#define DEFAULT_SIZE ((64u << 10) - sizeof(struct near__id))
#define MAX_ALIGN ((size_t)4096) /* of data */

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1);
}

static void *map(size_t size, int protection)
{
	int saved = errno;
	void *p = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	errno = saved;
	return p == MAP_FAILED ? NULL : p;
}

/* The structure, then the bitmap of blocks, then those of ids. */
static struct near__idspace *make_rest(unsigned ids, unsigned nodes)
{
	size_t ready = round_up(ids, 64) / 8, begin = round_up(sizeof(struct near__idspace), 64);
	size_t size = begin + ready + near__ids_bytes(ids, nodes);
	struct near__idspace *r = map(size, PROT_READ | PROT_WRITE);

	if (!r)
		return NULL;
	r->mapped = size;
	r->lock = near__percpu_lock(r);
	r->ready = (uint64_t *)((char *)r + begin);
	near__ids_init(&r->ids, (char *)r->ready + ready, ids, nodes);
	r->allocated = sizeof(struct near__id);
	return r;
}

static int make(struct near_idspace *s, const struct near_idspace_options *options, unsigned nodes)
{
	unsigned ids = options && options->ids ? options->ids : DEFAULT_IDS;
	size_t size = options && options->size ? options->size : DEFAULT_SIZE;

	memset(s, 0, sizeof(*s));
	if (ids > NEAR_IDSPACE_MAX_IDS || size > NEAR_IDSPACE_MAX_SIZE)
		return -E2BIG;
	s->ids = ids;
	/* Blocks become writable one by one, so that each has pages of its own. */
	s->stride = round_up(size + sizeof(struct near__id), near__page_size());
	s->rest = make_rest(ids, nodes);
	if (!s->rest)
		return -ENOMEM;
	/* Readable: a worker with an id of another space is a misuse, not a fault. */
	s->blocks = map(ids * s->stride, PROT_READ);
	if (s->blocks) {
		madvise(s->blocks, ids * s->stride, MADV_NOHUGEPAGE); /* as much as is used */
		near__root_begin(s->blocks, ids * s->stride);
		return 0;
	}
	near_idspace_destroy(s);
	return -ENOMEM;
}

/* Slots by concurrency id alone have threads of all nodes: then there is one node. */
int near_idspace_init(struct near_idspace *s, const struct near_idspace_options *options)
{
	unsigned slots = near_slots();
	bool has_nodes = near__process.slot_kind != NEAR_SLOT_CID && slots;
	int saved = errno, r = make(s, options, has_nodes ? near__process.nodes : 1);

	if (r == 0)
		r = near_percpu_alloc(&s->slots, sizeof(struct near__id_slot),
				      sizeof(struct near__id_slot));
	if (r)
		near_idspace_destroy(s);
	errno = saved;
	return r;
}

int near__idspace_simulate(struct near_idspace *s, const struct near_idspace_options *options,
			   unsigned nodes, struct near__id_slot *slots, unsigned n)
{
	int r = make(s, options, nodes);

	if (r)
		return r;
	s->rest->simulated = slots;
	s->rest->simulated_slots = n;
	s->rest->lock = &s->rest->simulation;
	return 0;
}

void near_idspace_destroy(struct near_idspace *s)
{
	int saved = errno;

	if (s->slots)
		near_percpu_free(s->slots);
	if (s->blocks) {
		near__root_end(s->blocks, s->ids * s->stride);
		munmap(s->blocks, s->ids * s->stride);
	}
	if (s->rest)
		munmap(s->rest, s->rest->mapped);
	memset(s, 0, sizeof(*s));
	errno = saved;
}

/* Acquire: pairs with the release below; for statistics. A worker has the id from the worker before
 * it. */
static bool is_ready(const struct near_idspace *s, unsigned id)
{
	return __atomic_load_n(&s->rest->ready[id / 64], __ATOMIC_ACQUIRE) >> id % 64 & 1;
}

/* Only the caller has the id; others set other bits of the word. */
int near__idspace_make_ready(struct near_idspace *s, unsigned id)
{
	struct near__id *block = near__idspace_block(s, id);
	int saved = errno, r;

	if (is_ready(s, id))
		return 0;
	r = mprotect(block, s->stride, PROT_READ | PROT_WRITE);
	errno = saved;
	if (r)
		return -ENOMEM;
	near_lock_lock(s->rest->lock);
	block->node = near__ids_node_of(&s->rest->ids, id);
	near_lock_unlock(s->rest->lock);
	__atomic_fetch_or(&s->rest->ready[id / 64], UINT64_C(1) << id % 64, __ATOMIC_RELEASE);
	return 0;
}

int near_idspace_alloc(struct near_idspace *s, void **out, size_t size, size_t align)
{
	struct near__idspace *r = s->rest;
	size_t at;
	bool fits;

	if (!size || !align || align & (align - 1) || align > MAX_ALIGN)
		return -EINVAL;
	near_lock_lock(r->lock);
	at = round_up(r->allocated, align);
	fits = at <= s->stride && size <= s->stride - at;
	if (fits)
		r->allocated = at + size;
	near_lock_unlock(r->lock);
	if (!fits)
		return -ENOMEM;
	*out = s->blocks + at;
	return 0;
}

unsigned near_idspace_drain(struct near_idspace *s)
{
	unsigned n;

	near__idspace_lock_all(s);
	n = near__idspace_collect(s, false);
	s->rest->counts.drains += n;
	near__idspace_unlock_all(s);
	return n;
}

int near_idspace_stats(struct near_idspace *s, struct near_idspace_stats *out, size_t size)
{
	struct near_idspace_stats known;

	if (!size)
		return -EINVAL;
	near_lock_lock(s->rest->lock);
	known = s->rest->counts;
	known.used = near__ids_count_used(&s->rest->ids);
	known.highest = s->rest->ids.highest;
	near_lock_unlock(s->rest->lock);
	known.ids = (unsigned)s->ids;
	for (unsigned id = 0; id < known.highest; id++) {
		const struct near__id *block = near__idspace_block(s, id);

		if (!is_ready(s, id))
			continue;
		known.hits += __atomic_load_n(&block->hits, __ATOMIC_RELAXED);
		known.transfers += __atomic_load_n(&block->transfers, __ATOMIC_RELAXED);
	}
	for (unsigned i = 0; near__idspace_next(s, &i); i++)
		known.cached +=
			__atomic_load_n(&near__idspace_slot(s, i)->word, __ATOMIC_RELAXED) != 0;
	memset(out, 0, size);
	memcpy(out, &known, size < sizeof(known) ? size : sizeof(known));
	return 0;
}
