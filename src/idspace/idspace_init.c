/* SPDX-License-Identifier: MIT */
/* Begin, end and data of near_idspace. */
#define _GNU_SOURCE
#include <nearcpu/idspace.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/page.h"
#include "base/reserved.h"
#include "base/roots.h"
#include "idspace/idspace.h"

#define DEFAULT_IDS 4096
#define DEFAULT_SIZE ((64u << 10) - sizeof(struct near__id))
#define MAX_ALIGN ((size_t)4096) /* of data */

static void *idspace_map(size_t size, int protection)
{
	int saved = errno;
	void *p = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	errno = saved;
	return p == MAP_FAILED ? NULL : p;
}

/* The structure, then the bitmap of blocks, then those of ids. */
static struct near__idspace *make_rest(unsigned ids, unsigned nodes)
{
	size_t ready = near__round_up(ids, 64) / 8,
	       begin = near__round_up(sizeof(struct near__idspace), 64);
	size_t size = begin + ready + near__ids_bytes(ids, nodes);
	struct near__idspace *r = idspace_map(size, PROT_READ | PROT_WRITE);

	if (!r)
		return NULL;
	r->mapped = size;
	r->lock = near__percpu_lock(r);
	r->ready = (uint64_t *)((char *)r + begin);
	near__ids_init(&r->ids, (char *)r->ready + ready, ids, nodes);
	r->allocated = sizeof(struct near__id);
	return r;
}

static int idspace_make(struct near_idspace *s, const struct near_idspace_options *options,
			unsigned nodes)
{
	unsigned ids = options && options->ids ? options->ids : DEFAULT_IDS;
	size_t size = options && options->size ? options->size : DEFAULT_SIZE;

	memset(s, 0, sizeof(*s));
	if (options && !NEAR__RESERVED_ARE_ZERO(options))
		return -EINVAL;
	if (ids > NEAR_IDSPACE_MAX_IDS || size > NEAR_IDSPACE_MAX_SIZE)
		return -E2BIG;
	s->ids = ids;
	/* Blocks become writable one by one, so that each has pages of its own. */
	s->stride = near__round_up(size + sizeof(struct near__id), near__page_size());
	s->rest = make_rest(ids, nodes);
	if (!s->rest)
		return -ENOMEM;
	/* Readable: a worker with an id of another space is a misuse, not a fault. */
	s->blocks = idspace_map(ids * s->stride, PROT_READ);
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
	int saved = errno, r = idspace_make(s, options, has_nodes ? near__process.nodes : 1);

	if (r == 0)
		r = near_percpu_alloc(sizeof(struct near__id_slot), sizeof(struct near__id_slot),
				      &s->slots);
	if (r)
		near_idspace_destroy(s);
	errno = saved;
	return r;
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

int near_idspace_alloc(struct near_idspace *s, size_t size, size_t align, void **out)
{
	struct near__idspace *r = s->rest;
	size_t at;
	bool fits;

	if (!size || !align || align & (align - 1) || align > MAX_ALIGN)
		return -EINVAL;
	near_lock_lock(r->lock);
	at = near__round_up(r->allocated, align);
	fits = at <= s->stride && size <= s->stride - at;
	if (fits)
		r->allocated = at + size;
	near_lock_unlock(r->lock);
	if (!fits)
		return -ENOMEM;
	*out = s->blocks + at;
	return 0;
}
