/* SPDX-License-Identifier: MIT */
/* The memory of a pool: address space that is reserved once, in chunks of a power of two.
 *
 *     chunk 0                         chunk 1             ...  the pool, descriptors, the center
 *     ^ base | object | ... | links  | object | ...
 *
 * A chunk without objects gives its memory back, and begins again; the address space stays. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/bits.h"
#include "base/roots.h"
#include "base/valgrind.h"
#include "pool/pool.h"

#define LEAST_SHIFT 16 /* of a chunk: a multiple of any system's page */
#if __SIZEOF_POINTER__ == 8
#define MOST_BYTES ((uint64_t)16 << 30)
#define MOST_OFFSET ((uint64_t)1 << 44)
#else
#define MOST_BYTES ((uint64_t)64 << 20)
#define MOST_OFFSET ((uint64_t)1 << 30)
#endif
#define SHARE 16 /* of a limited address space: as much is reserved at most */

/* ---- objects ---- */

struct place {
	uint64_t chunk, i; /* its number; the object's in it */
	uint64_t *end;     /* of the chunk */
	bool exact;        /* the object begins there */
};

static struct place place_of(const struct near__pool *p, uint64_t object)
{
	uint64_t chunk = (object - p->base) >> p->chunk_shift;
	uint64_t inside = object - p->base - (chunk << p->chunk_shift);

	return (struct place){
		.chunk = chunk,
		.i = inside / p->stride,
		.end = (uint64_t *)(uintptr_t)(p->base + ((chunk + 1) << p->chunk_shift)),
		.exact = inside % p->stride == 0,
	};
}

bool near__pool_has(const struct near__pool *p, uint64_t object)
{
	struct place at = place_of(p, object);

	return at.exact && at.chunk < p->chunks &&
	       at.i < __atomic_load_n(&p->chunk[at.chunk].carved, __ATOMIC_RELAXED);
}

uint64_t *near__pool_link(const struct near__pool *p, uint64_t object)
{
	struct place at = place_of(p, object);

	return at.end - 1 - at.i;
}

uint8_t *near__pool_in_use(const struct near__pool *p, uint64_t object)
{
	struct place at = place_of(p, object);

	return (uint8_t *)(at.end - p->per_chunk) - 1 - at.i;
}

/* ---- with the lock ---- */

static uintptr_t address_of(const struct near__pool *p, uint32_t chunk)
{
	return p->base + ((uintptr_t)chunk << p->chunk_shift);
}

static void link_chunk(struct near__pool *p, uint32_t chunk)
{
	p->chunk[chunk].next = p->first_room;
	p->first_room = chunk;
}

static bool add_chunk(struct near__pool *p)
{
	if (p->top == p->chunks || mprotect((void *)address_of(p, p->top),
					    (size_t)1 << p->chunk_shift, PROT_READ | PROT_WRITE))
		return false;
	link_chunk(p, p->top++);
	return true;
}

/* The memory of one object, of the first chunk that has room. */
static uint64_t take_one(struct near__pool *p)
{
	struct near__pool_chunk *c = &p->chunk[p->first_room];
	uint64_t object = c->raw;

	if (object) {
		c->raw = *near__pool_link(p, object);
	} else {
		object = address_of(p, p->first_room) + c->carved * p->stride;
		__atomic_store_n(&c->carved, c->carved + 1, __ATOMIC_RELAXED);
	}
	p->live++;
	p->used += c->live++ == 0;
	if (c->live == p->per_chunk)
		p->first_room = c->next;
	return object;
}

unsigned near__pool_raw_take(struct near__pool *p, uint64_t *objects, unsigned want)
{
	unsigned n = 0;

	if (want > p->limit - p->live)
		want = (unsigned)(p->limit - p->live);
	while (n < want && (p->first_room != NEAR__NO_CHUNK || add_chunk(p)))
		objects[n++] = take_one(p);
	return n;
}

/* If the system refuses the memory of an empty chunk, it is still used again. */
void near__pool_raw_give(struct near__pool *p, uint64_t object)
{
	uint32_t number = (uint32_t)place_of(p, object).chunk;
	struct near__pool_chunk *c = &p->chunk[number];

	*near__pool_link(p, object) = c->raw;
	c->raw = object;
	p->live--;
	if (c->live-- == p->per_chunk)
		link_chunk(p, number);
	if (c->live)
		return;
	madvise((void *)address_of(p, number), (size_t)1 << p->chunk_shift, MADV_DONTNEED);
	c->raw = 0;
	__atomic_store_n(&c->carved, 0, __ATOMIC_RELAXED);
	p->used--;
}

/* ---- address space ---- */

static void lay_out(struct near__pool *p)
{
	const struct near_pool_options *o = &p->options;

	p->stride =
		near__round_up(p->size, o->align > sizeof(uint64_t) ? o->align : sizeof(uint64_t));
	p->chunk_shift = LEAST_SHIFT;
	while ((size_t)1 << p->chunk_shift < 8 * p->stride)
		p->chunk_shift++;
	p->per_chunk = (uint32_t)(((size_t)1 << p->chunk_shift) /
				  (p->stride + sizeof(uint64_t) + p->check));
}

/* Chunks for `most` objects, or by default for as many as are reasonable. 0: too many. */
static uint64_t wanted_chunks(const struct near__pool *p)
{
	uint64_t bytes = MOST_BYTES, n;
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur / SHARE < bytes)
		bytes = limit.rlim_cur / SHARE;
	n = (bytes >> p->chunk_shift) + 1;
	if (p->options.max_objects)
		n = (p->options.max_objects - 1) / p->per_chunk + 1;
	return n > MOST_OFFSET >> p->chunk_shift ? 0 : n;
}

/* Reserves address space for that many chunks and for what follows them, which becomes writable. */
static bool chunks_reserve(struct near__pool *p, uint64_t chunks)
{
	size_t objects = (size_t)(chunks << p->chunk_shift), most = chunks * p->per_chunk;
	size_t table = near__round_up(sizeof(*p) + chunks * sizeof(*p->chunk), NEAR__CACHE_LINE);
	size_t idle = (p->options.max_idle < most ? p->options.max_idle : most) * sizeof(*p->idle);
	char *m;

	p->chunks = (uint32_t)chunks;
	p->mapped = objects + table + idle;
	m = mmap(NULL, p->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		return false;
	madvise(m, p->mapped, MADV_NOHUGEPAGE); /* fails without huge pages: fine */
	if (mprotect(m + objects, table + idle, PROT_READ | PROT_WRITE)) {
		munmap(m, p->mapped);
		return false;
	}
	near__valgrind_ignore(m + objects, table);
	p->base = (uintptr_t)m;
	p->idle = (uint64_t *)(m + objects + table);
	return true;
}

int near__pool_map(struct near__pool **out, struct near__pool *begun)
{
	uint64_t chunks;

	lay_out(begun);
	chunks = wanted_chunks(begun);
	if (!chunks)
		return -E2BIG;
	while (!chunks_reserve(begun, chunks))
		if (begun->options.max_objects || (chunks /= 2) == 0)
			return -ENOMEM;
	begun->first_room = NEAR__NO_CHUNK;
	begun->limit = begun->options.max_objects ? begun->options.max_objects
						  : chunks * begun->per_chunk;
	*out = (struct near__pool *)address_of(begun, begun->chunks);
	begun->chunk = (struct near__pool_chunk *)(*out + 1);
	**out = *begun;
	near__root_begin((void *)begun->base, begun->mapped);
	return 0;
}

void near__pool_unmap(struct near__pool *p)
{
	near__root_end((void *)p->base, p->mapped);
	munmap((void *)p->base, p->mapped);
}
