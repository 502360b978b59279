/* SPDX-License-Identifier: MIT */
/* near_region: how the copies of slots come into use, and which are. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bits.h"
#include "base/known.h"
#include "region/region.h"

/* A snapshot may be of a machine with another number of CPUs; its header was checked, and is this
 * process's memory. The header of a mapped file may change, after its number was found to be that
 * of this machine. */
static unsigned cpus_of(const struct near_region *r)
{
	return r->read_only ? r->header->cpus : near__process.cpus;
}

/* The words of a region are constant to callers: only this file changes those of slots. For the
 * inline code a snapshot has others (near__region_map). */
static uint64_t *slots_word(const struct near_region *r, unsigned slot)
{
	char *slots = (char *)(uintptr_t)r->slots;

	if (r->read_only)
		slots = (char *)r->header + REGION_DIRECTORY +
			r->header->objects * sizeof(struct region_entry);
	return (uint64_t *)(void *)slots + slot;
}

static uint64_t *used_of(const struct near_region *r)
{
	return slots_word(r, near__region_slots(cpus_of(r)));
}

static uint64_t *full_of(const struct near_region *r)
{
	return used_of(r) + near__region_words(cpus_of(r));
}

/* ---- opening ---- */

/* Its copy has blocks. The release of the bit pairs with the acquire of readers of copies; the
 * release of the word orders it after the bit: a reader of what a thread added finds the copy. Two
 * that open the slot store the same. */
void near__region_open_provided(const struct near_region *r, unsigned slot)
{
	NEAR__BIT_SET(used_of(r), slot, __ATOMIC_RELEASE);
	__atomic_store_n(slots_word(r, slot), near__region_open_word(r, slot), __ATOMIC_RELEASE);
}

static bool region_open_slot(const struct near_region *r, unsigned slot)
{
	struct region_caller c;
	int err;

	if (__atomic_load_n(slots_word(r, slot), __ATOMIC_ACQUIRE))
		return true;
	if (NEAR__BIT_LOAD(full_of(r), slot, __ATOMIC_ACQUIRE))
		return false;
	c = near__region_enter();
	err = near__region_provide_slot(r, near__region_has_file(r) ? r->fd : -1, slot);
	err = near__region_leave(c, err);
	if (err)
		NEAR__BIT_SET(full_of(r), slot, __ATOMIC_RELEASE);
	else
		near__region_open_provided(r, slot);
	return !err;
}

bool near__region_open_cpu(const struct near_region *r)
{
	unsigned slot = near__thread_live() ? near_cpu() : near__process.cpus;

	return !r->read_only && slot < near__process.cpus && region_open_slot(r, slot);
}

unsigned near__region_fallback(const struct near_region *r)
{
	unsigned first = near__region_first_fallback(cpus_of(r));
	unsigned slot = first + near__hint();

	return slot < near__region_slots(cpus_of(r)) && region_open_slot(r, slot) ? slot : first;
}

void near__region_add_slow(const struct near_region *r, void *base, int64_t n)
{
	uint64_t copy;

	if (NEAR__TRY(near__region_open_cpu(r), near__region_try_add(r, base, n)))
		return;
	copy = near__region_open_word(r, near__region_fallback(r));
	__atomic_fetch_add((int64_t *)((char *)base + copy), n, __ATOMIC_RELAXED);
}

/* ---- a region that exists ---- */

static bool is_possible(const struct near_region *r, unsigned slot)
{
	uint64_t word = __atomic_load_n(slots_word(r, slot), __ATOMIC_ACQUIRE);

	if (slot == cpus_of(r))
		return word == 0 && !NEAR__BIT_LOAD(used_of(r), slot, __ATOMIC_ACQUIRE);
	return word == near__region_open_word(r, slot) ||
	       (word == 0 && slot != near__region_first_fallback(cpus_of(r)));
}

/* No thread may use memory that is not a copy's. Copies in use have blocks: the file may be a copy
 * that has lost those that were zero. Slots for which there was no room are tried again. */
int near__region_check_slots(struct near_region *r, int fd)
{
	unsigned slots = near__region_slots(cpus_of(r));
	unsigned words = near__region_words(cpus_of(r));
	int err = 0;

	for (unsigned s = 0; s < words * 64; s++)
		if (s < slots ? !is_possible(r, s)
			      : NEAR__BIT_LOAD(used_of(r), s, __ATOMIC_ACQUIRE))
			return near__reason_set(r, -EBADMSG, "the slots of the region are damaged");
	for (unsigned w = 0; w < words; w++)
		__atomic_store_n(&full_of(r)[w], 0, __ATOMIC_RELAXED);
	for (unsigned s = 0; s < slots && err == 0; s++)
		if (__atomic_load_n(slots_word(r, s), __ATOMIC_RELAXED) ||
		    NEAR__BIT_LOAD(used_of(r), s, __ATOMIC_ACQUIRE)) {
			err = near__region_provide_slot(r, fd, s);
			NEAR__BIT_SET(used_of(r), s, __ATOMIC_RELEASE);
		}
	return err;
}

/* ---- reading ---- */

bool near_region_next(const struct near_region *r, unsigned *slot)
{
	return near__bit_next(used_of(r), near__region_slots(cpus_of(r)), slot);
}

uint64_t near__region_sum(const struct near_region *r, const void *base)
{
	const char *first = (const char *)base + near__region_open_word(r, 0);
	unsigned slots = near__region_slots(cpus_of(r));
	const uint64_t *used = used_of(r);
	uint64_t total = 0;

	for (unsigned slot = 0; near__bit_next(used, slots, &slot); slot++)
		total += __atomic_load_n((uint64_t *)(first + slot * r->stride), __ATOMIC_RELAXED);
	return total;
}

int near_region_stats(const struct near_region *r, struct near_region_stats *out, size_t size)
{
	const struct near__region_header *h = r->header;
	struct near_region_stats known = {.created_ns = h->created_ns,
					  .creator = h->creator,
					  .cpus = h->cpus,
					  .objects = h->objects,
					  .total = h->total};
	int saved = errno;
	struct stat st;

	memcpy(known.program, h->program, sizeof(known.program) - 1);
	for (unsigned slot = 0; near_region_next(r, &slot); slot++)
		++*(slot < h->cpus ? &known.cpus_used : &known.fallbacks_used);
	if (fstat(r->fd, &st) == 0)
		known.allocated = (uint64_t)st.st_blocks * 512;
	errno = saved;
	return near__copy_known(out, size, &known, sizeof(known));
}
