/* SPDX-License-Identifier: MIT */
/* near_idspace in a real process: migration, threads, fork. */
#include "ids.h"

#include "team.h"

#define IDS 40u
#define THREADS 4u

static struct near_idspace space;
static struct near_worker w[IDS + 4];
static uint64_t *data;

static int make_space(void **state)
{
	memset(w, 0, sizeof(w));
	ids_init(&space, IDS, 64);
	return near_idspace_alloc(&space, 8, 8, (void **)&data);
}

static int destroy_space(void **state)
{
	near_idspace_destroy(&space);
	return 0;
}

static uint64_t *data_of(int id)
{
	return near_idspace_at(&space, data, id);
}

/* Acquires what there is; returns how many. Each is another one. Of workers there is one more. */
static unsigned acquire_all(struct near_worker *workers)
{
	bool seen[IDS] = {false};
	unsigned n = 0;
	int id;

	for (; (id = ids_acquire(&space, &workers[n])) >= 0; n++) {
		CHECK(!seen[id]);
		seen[id] = true;
	}
	CHECK(id == -EAGAIN);
	return n;
}

static void a_single_worker_keeps_its_id(void **state)
{
	bool moves = unit_pin(1, NULL);

	if (!near__is_one_thread())
		skip(); /* a sanitizer has threads of its own */
	for (unsigned i = 0; i < unit_scale(2000); i++) {
		if (moves)
			unit_pin(i % 2, NULL);
		assert_int_equal(ids_acquire(&space, &w[0]), 0);
		++*data_of(0);
		if (moves && i % 3 == 0)
			unit_pin(i / 3 % 2, NULL);
		ids_release(&space, &w[0]);
	}
	unit_unpin();
	assert_int_equal(*data_of(0), unit_scale(2000));
	assert_int_equal(ids_stats(&space).highest, 1);
}

/* The child goes on with what its parent had. */
static void a_child_has_a_copy(void **state)
{
	assert_int_equal(ids_acquire(&space, &w[0]), 0);
	assert_in_range(ids_acquire(&space, &w[1]), 1, IDS - 1);
	*data_of(0) = 17;
	ids_release(&space, &w[1]);
	IN_CHILD() {
		CHECK(near_worker_id(&w[0]) == 0 && *data_of(0) == 17);
		*data_of(0) = 18;
		CHECK(ids_acquire(&space, &w[1]) > 0);
		ids_release(&space, &w[0]);
		CHECK(ids_acquire(&space, &w[2]) >= 0);
		CHECK(acquire_all(&w[3]) == IDS - 2);
	}
	assert_int_equal(*data_of(0), 17);
	assert_in_range(ids_acquire(&space, &w[1]), 1, IDS - 1);
	ids_release(&space, &w[0]);
	ids_release(&space, &w[1]);
	assert_int_equal(acquire_all(w), IDS);
}

static void *release_here(void *worker)
{
	++*data_of(near_worker_id(worker));
	ids_release(&space, worker);
	return NULL;
}

/* A worker may go from thread to thread. */
static void another_thread_releases(void **state)
{
	for (unsigned i = 0; i < 50; i++) {
		int id = ids_acquire(&space, &w[0]);

		assert_in_range(id, 0, IDS - 1);
		++*data_of(id);
		unit_join(unit_start(release_here, &w[0]));
	}
	assert_int_equal(ids_stats(&space).used, ids_stats(&space).cached);
	assert_int_equal(acquire_all(w), IDS);
}

static void acquire_until_stopped(unsigned number)
{
	struct near_worker mine = {0};

	while (team_continues())
		if (near_idspace_acquire(&space, &mine) >= 0) {
			++*data_of(near_worker_id(&mine));
			near_idspace_release(&space, &mine);
		}
}

/* What other threads had in the middle of a call, and no more, is lost to the child. */
static void fork_among_threads(void **state)
{
	struct team t;

	team_start(&t, THREADS, acquire_until_stopped);
	for (unsigned i = 0; i < unit_scale(40); i++) {
		IN_CHILD() {
			CHECK(near_idspace_drain(&space) <= IDS);
			CHECK(acquire_all(w) >= IDS - THREADS);
			ids_release(&space, &w[0]);
			CHECK(ids_acquire(&space, &w[0]) >= 0);
		}
	}
	team_stop(&t);
	assert_int_equal(acquire_all(w), IDS);
}

UNIT_MAIN_EACH(make_space, destroy_space, a_single_worker_keeps_its_id, a_child_has_a_copy,
	       another_thread_releases, fork_among_threads)
