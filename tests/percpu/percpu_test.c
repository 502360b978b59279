/* SPDX-License-Identifier: MIT */
/* Per-CPU memory: what a request gets, that copies are zero and nobody else's, which slots are in
 * use and have pages, misuse. percpu_threads_test.c has threads, children and a million objects. */
#include "objects.h"

#include "filter.h"

/* ---- requests ---- */

static void bad_requests_have_their_errors(void **state)
{
	static const struct {
		size_t size, align;
		int error;
	} table[] = {
		{0, 8, EINVAL},
		{0, 0, EINVAL},
		{8, 0, EINVAL},
		{8, 3, EINVAL},
		{8, 6, EINVAL},
		{8, 12, EINVAL},
		{8, SIZE_MAX, EINVAL},
		{0, 8192, EINVAL},
		{256 * KIB + 1, 3, EINVAL},
		{8, 8192, E2BIG},
		{8, SIZE_MAX / 2 + 1, E2BIG},
		{256 * KIB + 1, 8, E2BIG},
		{SIZE_MAX, 1, E2BIG},
		{SIZE_MAX - 7, 8, E2BIG},
	};

	for (size_t i = 0; i < LENGTH(table); i++) {
		void *p = &p;

		KEEPS_ERRNO(assert_int_equal(near_percpu_alloc(table[i].size, table[i].align, &p),
					     -table[i].error));
		assert_ptr_equal(p, &p);
	}
}

static void objects_are_aligned_in_every_slot(void **state)
{
	static const size_t around[] = {1,  7,   8,   9,    16,   24,   25,   48,    64,   65,
					96, 100, 128, 1000, 4095, 4096, 4097, 12288, 65536};
	uint64_t seed = 3;

	for (size_t align = 1; align <= NEAR_PERCPU_MAX_ALIGN; align *= 2) {
		for (size_t i = 0; i < LENGTH(around) + 20; i++) {
			size_t size = i < LENGTH(around)
					      ? around[i]
					      : 1 + unit_random(&seed) % NEAR_PERCPU_MAX_SIZE;
			void *p = allocate(size, align), *q = allocate(size, align);

			assert_int_equal((uintptr_t)p % align, 0);
			assert_int_equal((uintptr_t)q % align, 0);
			assert_int_equal((uintptr_t)near_percpu_at(p, 77) % align, 0);
			assert_true((char *)p + size <= (char *)q || (char *)q + size <= (char *)p);
			/* Behind the state word, and inside the slot. */
			assert_true(((uintptr_t)p & ~NEAR__ARENA_MASK) + 64 <= (uintptr_t)p);
			assert_int_equal(((uintptr_t)p ^ ((uintptr_t)p + size - 1)) >> 20, 0);
			release(p);
			release(q);
		}
	}
	release(allocate(NEAR_PERCPU_MAX_SIZE, NEAR_PERCPU_MAX_ALIGN));
	release(NULL);
}

static bool is_all(const unsigned char *copy, unsigned char byte, size_t size)
{
	return copy[0] == byte && memcmp(copy, copy + 1, size - 1) == 0;
}

struct object {
	char *p;
	size_t size;
};

static int by_address(const void *a, const void *b)
{
	const struct object *x = a, *y = b;

	return x->p < y->p ? -1 : x->p > y->p;
}

/* Fills each object's own copy of fallback slot, which is writable, and checks it again
 * afterwards. */
static void objects_do_not_overlap(void **state)
{
	static struct object objects[3000];
	uint64_t seed = 4;
	unsigned n = unit_emulated() ? 400 : LENGTH(objects);

	slots_enter(5);
	for (unsigned i = 0; i < n; i++) {
		size_t size = (size_t)1 << unit_random(&seed) % 14;

		size = i % 50 ? 1 + unit_random(&seed) % size : 100 * KIB;
		objects[i] = (struct object){allocate(size, 8), size};
		memset(near_percpu_fallback(objects[i].p), (int)(i % 255) + 1, size);
	}
	for (unsigned i = 0; i < n; i++)
		assert_true(
			is_all(near_percpu_fallback(objects[i].p), i % 255 + 1, objects[i].size));
	qsort(objects, n, sizeof(objects[0]), by_address);
	for (unsigned i = 1; i < n; i++)
		assert_true(objects[i - 1].p + objects[i - 1].size <= objects[i].p);
	for (unsigned i = 0; i < n; i++)
		release(objects[i].p);
}

/* ---- slots ---- */

/* Writes to the copies of all slots in use, frees, allocates until the memory comes again. */
static void check_no_stale_content(size_t size)
{
	static char *again[4096];
	char *p = allocate(size, 8);
	unsigned slots = 0, n = 0;

	for (unsigned slot = 0; slot < SLOTS_CPUS; slot += 13) {
		slots_enter(slot);
		add(p, 1);
		memset(near_percpu_fallback(p), 0xff, size);
	}
	for (unsigned s = 0; near_percpu_next(p, &s); s++, slots++)
		memset(near_percpu_at(p, s), 0xff, size);
	assert_true(slots >= 10);
	release(p);
	do
		again[n] = allocate(size, 8);
	while (again[n++] != p && n < LENGTH(again));
	assert_ptr_equal(again[n - 1], p);
	for (unsigned s = 0; s <= near_slots() + near_cpus(); s++)
		assert_true(is_all(near_percpu_at(p, s), 0, size));
	for (unsigned i = 0; i < n; i++)
		release(again[i]);
}

static void copies_are_zero(void **state)
{
	static const size_t sizes[] = {8,     16,    24,    64,    1000,  4096,
				       20000, 49152, 65536, 98304, 262144};

	for (size_t i = 0; i < LENGTH(sizes); i++)
		if (!unit_emulated() || sizes[i] <= 4096)
			check_no_stale_content(sizes[i]);
}

/* A size class that no other test uses: its arena is fresh. */
static void slots_in_use_are_found(void **state)
{
	static const unsigned used[] = {0, 1, 2, 31, 63, 64, 65, 100, 127, 128, 129};
	bool live = near__thread_live();
	unsigned first = near_slots() + 1, s = 0;
	int64_t *p = allocate(3000, 8);

	assert_true(near_percpu_next(p, &s)); /* the first fallback slot is always open */
	assert_int_equal(s, first);
	s++;
	assert_false(near_percpu_next(p, &s));
	for (unsigned i = 0; i < LENGTH(used); i++) {
		slots_enter(used[i]);
		add(p, 1 << i);
		assert_int_equal(sum(p), (2 << i) - 1);
	}
	s = 0;
	for (unsigned i = 0; i < LENGTH(used); i++, s++) {
		assert_true(near_percpu_next(p, &s));
		assert_int_equal(s, (live ? 0 : first) + used[i]);
		assert_int_equal(near_percpu_is_fallback(s), !live);
		assert_int_equal(*(int64_t *)near_percpu_at(p, s), 1 << i);
	}
	assert_int_equal(near_percpu_next(p, &s), live);
	assert_false(near_percpu_is_fallback(near_slots()));
	assert_true(near_percpu_is_fallback(first));
	assert_true(near_percpu_is_fallback(first + near_cpus() - 1));
	s = UINT32_MAX;
	assert_false(near_percpu_next(p, &s));
	release(p);
}

static void a_fallback_copy_is_there_for_each_cpu(void **state)
{
	int64_t *p = allocate(40, 8);

	for (unsigned cpu = 0; cpu < SLOTS_CPUS; cpu++) {
		slots_enter(cpu);
		KEEPS_ERRNO(assert_ptr_equal(near_percpu_fallback(p),
					     near_percpu_at(p, near_slots() + 1 + cpu)));
		*(int64_t *)near_percpu_fallback(p) += 1;
	}
	assert_int_equal(sum(p), SLOTS_CPUS);
	release(p);
}

/* A number beyond what this machine can have, as after a restore on a larger one. */
static void a_slot_out_of_range_is_not_used(void **state)
{
	int64_t *p = allocate(8, 8), before;

	slots_enter(near_slots() + 7);
	before = sum(p);
	for (int i = 0; i < 10; i++)
		add(p, 1);
	assert_int_equal(sum(p), before + 10);
	slots_enter(UINT32_MAX);
	assert_false(near_slot_open(p));
	release(p);
}

/* The kernel has no memory for another mapping: the first fallback slot, open from the start,
 * serves. */
UNIT_CHILD(an_add_never_fails, unit_emulated())
{
	void *p = allocate(2000, 8);

	slots_enter(99);
	if (!filter_out(SYS_mprotect, ENOMEM))
		return;
	for (int i = 0; i < 100; i++)
		KEEPS_ERRNO(add(p, 3));
	CHECK(sum(p) == 300);
	/* A class that has no arena. */
	KEEPS_ERRNO(CHECK(near_percpu_alloc(5000, 8, &p) == -ENOMEM));
}

/* ---- pages ---- */

/* Reads pages that nobody wrote, so that the walk itself must not take any. */
static void only_slots_in_use_have_pages(void **state)
{
	static const unsigned used[] = {0, 3, 64, 129};
	unsigned n_used = 0;
	void *p[100];

	for (unsigned i = 0; i < LENGTH(p); i++)
		p[i] = allocate(160, 8); /* a class of its own */
	for (unsigned k = 0; k < LENGTH(used); k++) {
		slots_enter(used[k]);
		for (unsigned i = 0; i < LENGTH(p); i++)
			add(p[i], 1);
	}
	slots_leave();
	for (unsigned i = 0; i < LENGTH(p); i++)
		assert_int_equal(sum(p[i]), LENGTH(used));
	for (unsigned i = 50; i < LENGTH(p); i++)
		release(p[i]);
	for (unsigned slot = 0; slot < near_slots() + 1 + near_cpus(); slot++) {
		unsigned pages = resident(p[0], slot), next = slot;

		if (near_percpu_next(p[0], &next) && next == slot) {
			assert_in_range(pages, 1, 1 + 101 * 192 / page_size() + 1);
			n_used++;
		} else if (slot != near_slots()) {
			assert_int_equal(pages, 0);
		} else {
			/* The slot that is never open: its state word was read. */
			assert_true(pages <= 1);
		}
	}
	assert_in_range(n_used, LENGTH(used), LENGTH(used) + 1);
	for (unsigned i = 0; i < 50; i++)
		release(p[i]);
}

/* Large objects give their pages back; the next owner finds zeros. */
static void freed_large_objects_leave_no_pages(void **state)
{
	void *p = allocate(256 << 10, 8);
	unsigned before;

	slots_enter(7);
	memset(near_percpu_fallback(p), 1, 256 << 10);
	before = resident(p, near_slots() + 1 + 7);
	assert_true(before >= (256 << 10) / page_size());
	release(p);
	assert_true(resident(p, near_slots() + 1 + 7) <= before - (256 << 10) / page_size());
}

/* The VmFlags of the mapping that an address is in, from /proc/self/smaps. */
static bool flags_of(const void *address, char *flags, size_t size)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long from, to;
	bool inside = false, found = false;
	char line[512];

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = (uintptr_t)address >= from && (uintptr_t)address < to;
		found = inside && strncmp(line, "VmFlags:", 8) == 0;
		if (found)
			snprintf(flags, size, "%s ", line);
	}
	if (f)
		fclose(f);
	return found;
}

static void pages_are_never_huge(void **state)
{
	void *p = allocate(24, 8), *slot;
	char flags[520];

	if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) || unit_emulated())
		skip();
	slots_enter(2);
	add(p, 1);
	slot = near_percpu_at(p, near__thread_live() ? 2 : near_slots() + 3);
	slots_leave();
	if (!flags_of(slot, flags, sizeof(flags)))
		skip();
	assert_non_null(strstr(flags, " nh "));
	assert_non_null(strstr(flags, " wr "));
	assert_true(flags_of(near_percpu_at(p, near_slots()), flags, sizeof(flags)));
	assert_non_null(strstr(flags, " nh "));
	assert_null(strstr(flags, " wr "));
	release(p);
}

/* ---- misuse ---- */

#define NOT_ALLOCATED "near_percpu_free: not an allocated object, or freed twice"

static void refuses(void *p)
{
	DIES(NOT_ALLOCATED)
		near_percpu_free(p);
}

static void bad_frees_stop_the_program(void **state)
{
	char *p = allocate(48, 8), *q = allocate(48, 8);

	slots_enter(1);
	add(p, 1);
	add(q, 1);
	DIES(NOT_ALLOCATED) {
		near_percpu_free(p);
		near_percpu_free(p);
	}
	refuses(p + 1);
	refuses(p + 8);
	refuses(q - 1);
	/* Never allocated, the state word, the last bytes of the slot. */
	refuses(p + 48 * 1000);
	refuses((char *)((uintptr_t)p & ~NEAR__ARENA_MASK));
	refuses((char *)((uintptr_t)p | NEAR__ARENA_MASK));
	/* Another slot's copy. */
	refuses(near_percpu_at(p, 1));
	refuses(near_percpu_at(p, near_slots() + 1));
	release(p);
	release(q);
}

/* Memory of the process that is not the library's, but mapped where a header would be. */
static void memory_of_others_is_refused(void **state)
{
	size_t size = 4 * KIB * KIB;
	char *memory = malloc(size);

	assert_non_null(memory);
	memset(memory, 0, size);
	refuses(memory + size / 2);
	memset(memory, 0xff, size);
	refuses(memory + size / 2);
	free(memory);
}

/* The first ones need size classes that no other test has used. After a slot out of range the
 * thread is not live any more. */
UNIT_MAIN_EACH(NULL, leave_slot, only_slots_in_use_have_pages, slots_in_use_are_found,
	       bad_requests_have_their_errors, an_add_never_fails,
	       objects_are_aligned_in_every_slot, objects_do_not_overlap, copies_are_zero,
	       a_fallback_copy_is_there_for_each_cpu, freed_large_objects_leave_no_pages,
	       pages_are_never_huge, a_slot_out_of_range_is_not_used, bad_frees_stop_the_program,
	       memory_of_others_is_refused)
