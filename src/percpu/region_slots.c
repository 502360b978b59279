/* SPDX-License-Identifier: MIT */
/* near_region: how the copies of slots come into use, and which are. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "percpu/region.h"

/* A snapshot may be of a machine with another number of CPUs; its header was checked, and is this
 * process's memory. The header of a mapped file may change, after its number was found to be that
 * of this machine. */
static unsigned cpus_of(const struct near_region *r)
{
	return r->read_only ? r->header->cpus : near__process.cpus;
}

/* The words of a region are constant to callers: only this file changes those of slots. For the
 * inline code a snapshot has others (near__region_map). */
static uint64_t *word_of(const struct near_region *r, unsigned slot)
{
	char *slots = (char *)(uintptr_t)r->slots;

	if (r->read_only)
		slots = (char *)r->header + REGION_DIRECTORY +
			r->header->objects * sizeof(struct region_entry);
	return (uint64_t *)(void *)slots + slot;
}

static uint64_t *used_of(const struct near_region *r)
{
	return word_of(r, near__region_slots(cpus_of(r)));
}

static uint64_t *full_of(const struct near_region *r)
{
	return used_of(r) + near__region_words(cpus_of(r));
}

static bool has(const uint64_t *bits, unsigned slot)
{
	return __atomic_load_n(&bits[slot / 64], __ATOMIC_ACQUIRE) >> slot % 64 & 1;
}

static void set(uint64_t *bits, unsigned slot)
{
	__atomic_fetch_or(&bits[slot / 64], UINT64_C(1) << slot % 64, __ATOMIC_RELEASE);
}

/* ---- opening ---- */

/* Its copy has blocks. The release of the bit pairs with the acquire of those who read copies; the
 * release of the word orders it after the bit: who reads what a thread added finds the copy. Two
 * that open the slot store the same. */
void near__region_open_provided(const struct near_region *r, unsigned slot)
{
	set(used_of(r), slot);
	__atomic_store_n(word_of(r, slot), near__region_open_word(r, slot), __ATOMIC_RELEASE);
}

static bool open_slot(const struct near_region *r, unsigned slot)
{
	struct region_caller c;
	int err;

	if (__atomic_load_n(word_of(r, slot), __ATOMIC_ACQUIRE))
		return true;
	if (has(full_of(r), slot))
		return false;
	c = near__region_enter();
	err = near__region_provide_slot(r, near__region_has_file(r) ? r->fd : -1, slot);
	err = near__region_leave(c, err);
	if (err)
		set(full_of(r), slot);
	else
		near__region_open_provided(r, slot);
	return !err;
}

bool near__region_open_cpu(const struct near_region *r)
{
	unsigned slot = near__thread_live() ? near_cpu() : near__process.cpus;

	return !r->read_only && slot < near__process.cpus && open_slot(r, slot);
}

unsigned near__region_fallback(const struct near_region *r)
{
	unsigned first = near__region_first_fallback(cpus_of(r));
	unsigned slot = first + near__hint();

	return slot < near__region_slots(cpus_of(r)) && open_slot(r, slot) ? slot : first;
}

void near__region_add_slow(const struct near_region *r, void *common, int64_t n)
{
	uint64_t copy;

	for (int i = 0; i < NEAR_SEQ_TRIES && near__region_open_cpu(r); i++)
		if (near__region_try_add(r, common, n))
			return;
	copy = near__region_open_word(r, near__region_fallback(r));
	__atomic_fetch_add((int64_t *)((char *)common + copy), n, __ATOMIC_RELAXED);
}

/* ---- attaching ---- */

static bool is_possible(const struct near_region *r, unsigned slot)
{
	uint64_t word = __atomic_load_n(word_of(r, slot), __ATOMIC_ACQUIRE);

	if (slot == cpus_of(r))
		return word == 0 && !has(used_of(r), slot);
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
		if (s < slots ? !is_possible(r, s) : has(used_of(r), s)) {
			r->why = "the slots of the region are damaged";
			return -EBADMSG;
		}
	for (unsigned w = 0; w < words; w++)
		__atomic_store_n(&full_of(r)[w], 0, __ATOMIC_RELAXED);
	for (unsigned s = 0; s < slots && err == 0; s++)
		if (__atomic_load_n(word_of(r, s), __ATOMIC_RELAXED) || has(used_of(r), s)) {
			err = near__region_provide_slot(r, fd, s);
			set(used_of(r), s);
		}
	return err;
}

/* ---- reading ---- */

bool near_region_next(const struct near_region *r, unsigned *slot)
{
	unsigned words = near__region_words(cpus_of(r)), w = *slot / 64;

	for (unsigned from = *slot % 64; w < words; w++, from = 0) {
		uint64_t bits = __atomic_load_n(&used_of(r)[w], __ATOMIC_ACQUIRE) >> from << from;

		if (bits) {
			*slot = w * 64 + (unsigned)__builtin_ctzll(bits);
			return true;
		}
	}
	return false;
}

uint64_t near__region_sum(const struct near_region *r, const void *common)
{
	const char *first = (const char *)common + near__region_open_word(r, 0);
	unsigned words = near__region_words(cpus_of(r));
	const uint64_t *used = used_of(r);
	uint64_t total = 0;

	for (unsigned w = 0; w < words; w++) {
		uint64_t bits = __atomic_load_n(&used[w], __ATOMIC_ACQUIRE);

		for (; bits; bits &= bits - 1) {
			unsigned slot = w * 64 + (unsigned)__builtin_ctzll(bits);

			total += __atomic_load_n((uint64_t *)(first + slot * r->stride),
						 __ATOMIC_RELAXED);
		}
	}
	return total;
}

int near_region_status(const struct near_region *r, struct near_region_status *out, size_t size)
{
	const struct near__region_header *h = r->header;
	struct near_region_status known = {.created_ns = h->created_ns,
					   .creator = h->creator,
					   .cpus = h->cpus,
					   .objects = h->objects,
					   .total = h->total};
	int saved = errno;
	struct stat st;

	if (!size)
		return -EINVAL;
	memcpy(known.program, h->program, sizeof(known.program) - 1);
	for (unsigned slot = 0; near_region_next(r, &slot); slot++)
		++*(slot < h->cpus ? &known.cpus_used : &known.fallbacks_used);
	if (fstat(r->fd, &st) == 0)
		known.allocated = (uint64_t)st.st_blocks * 512;
	memset(out, 0, size);
	memcpy(out, &known, size < sizeof(known) ? size : sizeof(known));
	errno = saved;
	return 0;
}
