/* SPDX-License-Identifier: MIT */
/* near_idspace, call by call. The program is linked with --wrap=near__topology_cpus, near__fence
 * near__is_one_thread and near__topology_nodes. */
#include "ids.h"

#include "fences.h"
#include "one_node.h"
#include "single.h"
#include "slots.h"

#define WORKERS 64u

static struct near_idspace space; /* a new one in each test */
static struct near_worker w[WORKERS];

static int make_space(void **state)
{
	ids_single = true;
	memset(w, 0, sizeof(w));
	ids_init(&space, 256, 8000); /* not much: valgrind describes each page of it */
	fences_made();
	return 0;
}

static int destroy_space(void **state)
{
	slots_leave();
	KEEPS_ERRNO(near_idspace_destroy(&space));
	return 0;
}

static void make(unsigned ids, size_t size)
{
	near_idspace_destroy(&space);
	ids_init(&space, ids, size);
}

/* As if the process had other threads. */
static void have_threads(void)
{
	ids_single = false;
}

static void acquire_on(unsigned slot, unsigned worker, int expected)
{
	slots_enter(slot);
	assert_int_equal(ids_acquire(&space, &w[worker]), expected);
}

static void release_on(unsigned slot, unsigned worker)
{
	slots_enter(slot);
	ids_release(&space, &w[worker]);
}

/* ---- init ---- */

static void options_have_maxima(void **state)
{
	struct near_idspace s;
	const struct near_idspace_options many = {.ids = NEAR_IDSPACE_MAX_IDS + 1},
					  large = {.size = NEAR_IDSPACE_MAX_SIZE + 1},
					  most = {.ids = NEAR_IDSPACE_MAX_IDS, .size = 8};

	KEEPS_ERRNO(assert_int_equal(near_idspace_init(&s, &many), -E2BIG));
	KEEPS_ERRNO(assert_int_equal(near_idspace_init(&s, &large), -E2BIG));
	KEEPS_ERRNO(assert_int_equal(near_idspace_init(&s, &most), 0));
	assert_int_equal(ids_stats(&s).ids, NEAR_IDSPACE_MAX_IDS);
	near_idspace_destroy(&s);
	KEEPS_ERRNO(assert_int_equal(near_idspace_init(&s, NULL), 0));
	assert_int_equal(ids_stats(&s).ids, 4096);
	near_idspace_destroy(&s);
}

UNIT_CHILD(no_address_space_is_reported, UNIT_SANITIZED || unit_emulated())
{
	const struct near_idspace_options o = {.ids = 65535, .size = NEAR_IDSPACE_MAX_SIZE};
	struct rlimit least = {(rlim_t)1 << 30, (rlim_t)1 << 30};
	struct near_idspace s;

	CHECK(setrlimit(RLIMIT_AS, &least) == 0);
	KEEPS_ERRNO(CHECK(near_idspace_init(&s, &o) == -ENOMEM));
	KEEPS_ERRNO(near_idspace_destroy(&s));
}

/* ---- acquire, release ---- */

static void ids_are_the_lowest(void **state)
{
	have_threads();
	for (unsigned i = 0; i < WORKERS; i++)
		acquire_on(i % 5, i, (int)i);
	for (unsigned i = 0; i < WORKERS; i++)
		release_on(7, i);
	assert_int_equal(ids_stats(&space).cached, 1);
	assert_int_equal(ids_stats(&space).highest, WORKERS);
	acquire_on(7, 0, 0); /* the first that was released is in the cache */
	acquire_on(7, 1, 1);
	acquire_on(8, 2, 2);
}

static void a_single_worker_has_one_id(void **state)
{
	for (unsigned i = 0; i < 3 * SLOTS_CPUS; i++) {
		acquire_on(i * 7 % SLOTS_CPUS, 0, 0);
		release_on(i * 11 % SLOTS_CPUS, 0);
	}
	assert_int_equal(ids_stats(&space).highest, 1);
	assert_int_equal(ids_stats(&space).used, 1);
}

static void with_threads_each_slot_has_its_own(void **state)
{
	have_threads();
	for (unsigned i = 0; i < 3 * 6; i++) {
		acquire_on(i % 6, 0, (int)i % 6);
		release_on(i % 6, 0);
	}
	assert_int_equal(ids_stats(&space).cached, 6);
	assert_int_equal(ids_stats(&space).allocations, 6);
	assert_int_equal(ids_stats(&space).hits, 12);
	assert_int_equal(fences_made(), 0);
}

static void more_workers_than_ids(void **state)
{
	make(3, 8);
	for (int round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 3; i++)
			assert_in_range(ids_acquire(&space, &w[i]), 0, 2);
		for (unsigned i = 0; i < 4; i++) {
			acquire_on(i, 3, -EAGAIN);
			assert_int_equal(near_worker_id(&w[3]), -1);
		}
		release_on((unsigned)round, 1);
		slots_enter(9);
		assert_in_range(ids_acquire(&space, &w[3]), 0, 2);
		ids_release(&space, &w[3]);
		ids_release(&space, &w[0]);
		ids_release(&space, &w[2]);
	}
}

/* All ids are in caches of other slots. */
static void what_other_slots_cache_is_taken_last(void **state)
{
	have_threads();
	make(70, 8); /* more than are closed together, and a bitmap that ends within a word */
	for (unsigned i = 0; i < 64; i++)
		acquire_on(i, i, (int)i);
	for (unsigned i = 0; i < 64; i++)
		release_on(i, i);
	for (unsigned i = 64; i < 70; i++)
		acquire_on(100, i - 64, (int)i);
	assert_int_equal(fences_made(), 0);
	acquire_on(100, 6, 0);
	assert_int_equal(ids_stats(&space).migrations, 1);
	assert_int_equal(ids_stats(&space).cached, 0);
	assert_int_equal(fences_made(), near__process.usable ? 2 : 0);
	for (unsigned i = 1; i < 58; i++)
		acquire_on(i, 6 + i, (int)i);
}

/* ---- hand_over, drain, data ---- */

static void hand_over_moves_the_id(void **state)
{
	assert_int_equal(ids_acquire(&space, &w[0]), 0);
	for (unsigned i = 0; i < 100; i++) {
		int id;

		KEEPS_ERRNO(id = near_idspace_hand_over(&space, &w[i % 7], &w[(i + 1) % 7]));
		assert_int_equal(id, 0);
		assert_int_equal(near_worker_id(&w[i % 7]), -1);
		assert_int_equal(near_worker_id(&w[(i + 1) % 7]), 0);
	}
	ids_release(&space, &w[100 % 7]);
	assert_int_equal(ids_stats(&space).transfers, 100);
	assert_int_equal(ids_acquire(&space, &w[0]), 0);
}

static void drain_empties_the_caches(void **state)
{
	unsigned n;

	have_threads();
	for (unsigned i = 0; i < WORKERS; i++)
		acquire_on(i, i, (int)i);
	for (unsigned i = 0; i < WORKERS; i++)
		release_on(WORKERS - 1 - i, i);
	KEEPS_ERRNO(n = near_idspace_drain(&space));
	assert_int_equal(n, WORKERS);
	assert_int_equal(fences_made(), near__process.usable ? 2 : 0);
	assert_int_equal(ids_stats(&space).used, 0);
	assert_int_equal(ids_stats(&space).drains, WORKERS);
	KEEPS_ERRNO(n = near_idspace_drain(&space));
	assert_int_equal(n, 0);
	assert_int_equal(fences_made(), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		acquire_on(i % 3, i, (int)i);
}

static void alloc_checks_its_arguments(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p = &space;

	make(4, 256);
	KEEPS_ERRNO(assert_int_equal(near_idspace_alloc(&space, 0, 8, &p), -EINVAL));
	KEEPS_ERRNO(assert_int_equal(near_idspace_alloc(&space, 8, 0, &p), -EINVAL));
	KEEPS_ERRNO(assert_int_equal(near_idspace_alloc(&space, 8, 24, &p), -EINVAL));
	KEEPS_ERRNO(assert_int_equal(near_idspace_alloc(&space, 8, 8192, &p), -EINVAL));
	KEEPS_ERRNO(assert_int_equal(near_idspace_alloc(&space, page, 1, &p), -ENOMEM));
	KEEPS_ERRNO(assert_int_equal(near_idspace_alloc(&space, SIZE_MAX, 1, &p), -ENOMEM));
	KEEPS_ERRNO(assert_int_equal(near_idspace_alloc(&space, page - 63, 64, &p), -ENOMEM));
	assert_ptr_equal(p, &space);
	KEEPS_ERRNO(assert_int_equal(near_idspace_alloc(&space, 256, 1, &p), 0));
}

static void data_stay_with_the_id(void **state)
{
	char *a, *b;

	have_threads();
	assert_int_equal(near_idspace_alloc(&space, 3, 1, (void **)&a), 0);
	for (unsigned i = 0; i < 8; i++) {
		acquire_on(0, i, (int)i);
		assert_memory_equal(near_idspace_at(&space, a, (int)i), "\0\0\0", 3);
		memset(near_idspace_at(&space, a, (int)i), 'a' + (int)i, 3);
	}
	/* Also of ids that are in use. */
	assert_int_equal(near_idspace_alloc(&space, 4096, 4096, (void **)&b), 0);
	for (int i = 0; i < 8; i++) {
		char *of = near_idspace_at(&space, b, i);

		assert_int_equal((uintptr_t)of % 4096, 0);
		for (int k = 0; k < 4096; k++)
			assert_int_equal(of[k], 0);
		memset(of, '0' + i, 4096);
	}
	for (unsigned i = 0; i < 8; i++)
		release_on(i, i);
	for (unsigned i = 0; i < 8; i++) {
		acquire_on(i, i, (int)i);
		assert_int_equal(*(char *)near_idspace_at(&space, a, (int)i), 'a' + (int)i);
		assert_int_equal(*(char *)near_idspace_at(&space, b, (int)i), '0' + (int)i);
	}
}

UNIT_CHILD(no_memory_for_an_id_is_reported, UNIT_SANITIZED || unit_emulated())
{
	struct rlimit before, none;

	CHECK(ids_acquire(&space, &w[0]) == 0);
	CHECK(getrlimit(RLIMIT_DATA, &before) == 0);
	none = (struct rlimit){4096, before.rlim_max};
	CHECK(setrlimit(RLIMIT_DATA, &none) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(ids_acquire(&space, &w[1]) == -ENOMEM);
	CHECK(setrlimit(RLIMIT_DATA, &before) == 0);
	CHECK(ids_acquire(&space, &w[1]) == 1);
	ids_release(&space, &w[1]);
	ids_release(&space, &w[0]);
	CHECK(ids_stats(&space).used == ids_stats(&space).cached);
}

/* ---- after a peak ---- */

/* The bound that idspace.h states: three searches of the one that goes on. */
#define SHRUNK_AFTER (3 * NEAR__IDS_TRIM)

static void peak(void)
{
	have_threads();
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < WORKERS; i++) {
			slots_enter(i);
			assert_in_range(ids_acquire(&space, &w[i]), 0, WORKERS - 1);
		}
		for (unsigned i = 0; i < WORKERS; i++)
			release_on(i, WORKERS - 1 - i);
	}
	assert_int_equal(ids_stats(&space).used, WORKERS);
	assert_int_equal(ids_stats(&space).hits, 2 * WORKERS);
}

static void shrinks(unsigned acquires_on, unsigned releases_on)
{
	peak();
	for (uint64_t i = 0; i < SHRUNK_AFTER; i++) {
		slots_enter(acquires_on);
		near_idspace_acquire(&space, &w[0]);
		slots_enter(releases_on);
		near_idspace_release(&space, &w[0]);
	}
	assert_in_range(ids_stats(&space).used, 1, 2);
	slots_enter(acquires_on);
	assert_in_range(ids_acquire(&space, &w[0]), 0, acquires_on != releases_on);
	ids_release(&space, &w[0]);
}

static void caches_shrink_after_a_peak(void **state)
{
	shrinks(0, 0);
}

static void caches_shrink_to_a_high_slot(void **state)
{
	shrinks(63, 63);
}

/* No acquire finds an id in a cache. */
static void caches_shrink_where_ids_wander(void **state)
{
	shrinks(3, 5);
}

/* One that other workers use goes on to be cached. */
static void what_is_used_stays_cached(void **state)
{
	have_threads();
	acquire_on(0, 0, 0);
	acquire_on(1, 1, 1);
	release_on(0, 0);
	release_on(1, 1);
	for (uint64_t i = 0; i < 4 * NEAR__IDS_TRIM; i++) {
		unsigned slot = i % 64 == 0;

		slots_enter(slot);
		near_idspace_acquire(&space, &w[slot]);
		near_idspace_release(&space, &w[slot]);
	}
	assert_int_equal(ids_stats(&space).discards, 0);
	assert_int_equal(ids_stats(&space).cached, 2);
	assert_int_equal(fences_made(), 0);
}

/* ---- statistics ---- */

static void stats_of_any_size(void **state)
{
	struct {
		struct near_idspace_stats known;
		char later[64];
	} large;
	uint64_t single;

	have_threads();
	acquire_on(0, 0, 0);
	memset(&large, 0x5a, sizeof(large));
	KEEPS_ERRNO(assert_int_equal(near_idspace_stats(&space, &large.known, 0), -EINVAL));
	KEEPS_ERRNO(assert_int_equal(near_idspace_stats(&space, &large.known, sizeof(large)), 0));
	assert_int_equal(large.known.allocations, 1);
	assert_int_equal(large.known.highest, 1);
	for (size_t i = 0; i < sizeof(large.later); i++)
		assert_int_equal(large.later[i], 0);
	memset(&large, 0x5a, sizeof(large));
	assert_int_equal(near_idspace_stats(&space, &large.known, sizeof(single)), 0);
	assert_int_equal(large.known.single, 0);
	assert_int_equal(large.known.transfers, UINT64_C(0x5a5a5a5a5a5a5a5a));
}

static void each_way_is_counted(void **state)
{
	struct near_idspace_stats st;

	acquire_on(0, 0, 0);
	release_on(0, 0);
	acquire_on(1, 0, 0); /* single: from slot 0 */
	have_threads();
	acquire_on(1, 1, 1);
	release_on(1, 0);
	release_on(1, 1); /* evicted */
	acquire_on(1, 0, 0);
	st = ids_stats(&space);
	assert_int_equal(st.single, 1);
	assert_int_equal(st.evictions, 1);
	assert_int_equal(st.hits, 1);
	assert_int_equal(st.allocations, 2);
	assert_int_equal(st.used, 1);
	assert_int_equal(st.migrations + st.discards + st.drains + st.foreign, 0);
}

UNIT_MAIN_EACH(make_space, destroy_space, options_have_maxima, no_address_space_is_reported,
	       ids_are_the_lowest, a_single_worker_has_one_id, with_threads_each_slot_has_its_own,
	       more_workers_than_ids, what_other_slots_cache_is_taken_last, hand_over_moves_the_id,
	       drain_empties_the_caches, alloc_checks_its_arguments, data_stay_with_the_id,
	       no_memory_for_an_id_is_reported, caches_shrink_after_a_peak,
	       caches_shrink_to_a_high_slot, caches_shrink_where_ids_wander,
	       what_is_used_stays_cached, stats_of_any_size, each_way_is_counted)
