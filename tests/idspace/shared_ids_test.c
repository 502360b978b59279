/* SPDX-License-Identifier: MIT */
/* near_shared_ids, call by call, in one process and in several. */
#include "one_node.h"
#include "shared.h"

#include <fcntl.h>
#include <spawn.h>

#define IDS 10u

static struct shared_view v; /* of each test a new one */
static struct near_worker w[IDS + 2];

static int make_space(void **state)
{
	memset(w, 0, sizeof(w));
	shared_attach(&v, (struct near_shared_ids_options){.ids = IDS, .seats = 8, .size = 100});
	return 0;
}

static int remove_space(void **state)
{
	shared_detach(&v);
	return remove_files(state);
}

/* ---- one process ---- */

static void ids_are_the_lowest(void **state)
{
	for (unsigned i = 0; i < IDS; i++)
		assert_int_equal(shared_acquire(&v.ids, &w[i]), i);
	assert_int_equal(shared_acquire(&v.ids, &w[IDS]), -EAGAIN);
	assert_string_equal(near_shared_ids_error(&v.ids), "all ids are in use");
	assert_int_equal(shared_stats(&v.ids).used, IDS);
	shared_release(&v.ids, &w[3]);
	assert_int_equal(shared_acquire(&v.ids, &w[IDS]), 3);
	for (unsigned i = 0; i < IDS; i++)
		if (i != 3)
			shared_release(&v.ids, &w[i]);
	shared_release(&v.ids, &w[IDS]);
	assert_int_equal(shared_stats(&v.ids).used, 0);
	assert_int_equal(shared_all(&v.ids), 0);
}

static void the_cached_id_is_next(void **state)
{
	unit_pin(0, NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(shared_acquire(&v.ids, &w[i]), i);
	shared_release(&v.ids, &w[2]);
	shared_release(&v.ids, &w[0]);
	assert_int_equal(shared_acquire(&v.ids, &w[0]), 2);
	assert_int_equal(shared_stats(&v.ids).hits, 1);
	assert_int_equal(shared_stats(&v.ids).allocations, 3);
	assert_int_equal(shared_stats(&v.ids).evictions, 1);
	unit_unpin();
}

static void hand_over_moves_the_id(void **state)
{
	assert_int_equal(shared_acquire(&v.ids, &w[0]), 0);
	for (unsigned i = 0; i < 100; i++) {
		int id;

		KEEPS_ERRNO(id = near_shared_ids_hand_over(&v.ids, &w[i % 7], &w[(i + 1) % 7]));
		assert_int_equal(id, 0);
		assert_int_equal(near_worker_id(&w[i % 7]), -1);
	}
	shared_release(&v.ids, &w[100 % 7]);
	assert_int_equal(shared_stats(&v.ids).transfers, 100);
	assert_int_equal(shared_all(&v.ids), 0);
}

static void lines_are_aligned(void **state)
{
	assert_int_equal((uintptr_t)v.ids.owners % 64, 0);
	assert_int_equal((uintptr_t)v.ids.caches % 64, 0);
	assert_int_equal((uintptr_t)near_shared_ids_data(&v.ids, 3) % 4096, 0);
	assert_int_equal((char *)near_shared_ids_data(&v.ids, 3) -
				 (char *)near_shared_ids_data(&v.ids, 2),
			 4096);
}

static void stats_of_any_size(void **state)
{
	struct {
		struct near_shared_ids_stats known;
		char later[64];
	} large;

	memset(&large, 0x5a, sizeof(large));
	assert_int_equal(shared_acquire(&v.ids, &w[0]), 0);
	KEEPS_ERRNO(assert_int_equal(near_shared_ids_stats(&v.ids, &large.known, 0), -EINVAL));
	assert_int_equal(near_shared_ids_stats(&v.ids, &large.known, sizeof(large)), 0);
	assert_int_equal(large.known.ids, IDS);
	assert_int_equal(large.known.seats, 8);
	assert_int_equal(large.known.taken, 1);
	for (size_t i = 0; i < sizeof(large.later); i++)
		assert_int_equal(large.later[i], 0);
	memset(&large, 0x5a, sizeof(large));
	assert_int_equal(near_shared_ids_stats(&v.ids, &large.known, 8), 0);
	assert_int_equal(large.known.hits, UINT64_C(0x5a5a5a5a5a5a5a5a));
}

/* Each process has descriptions of its own; so do two views of one process. */
static void two_views_have_two_seats(void **state)
{
	struct shared_view other;
	struct near_worker theirs[IDS] = {0};

	shared_attach(&other, (struct near_shared_ids_options){.ids = 99, .seats = 99});
	assert_int_equal(other.ids.ids, IDS); /* it keeps its numbers */
	for (unsigned i = 0; i < IDS; i += 2) {
		assert_int_equal(shared_acquire(&v.ids, &w[i]), i);
		assert_int_equal(shared_acquire(&other.ids, &theirs[i]), i + 1);
	}
	assert_int_equal(shared_acquire(&v.ids, &w[IDS]), -EAGAIN);
	assert_int_equal(shared_stats(&v.ids).taken, 2);
	strcpy(near_shared_ids_data(&v.ids, 4), "four");
	shared_release(&v.ids, &w[4]);
	assert_int_equal(shared_acquire(&other.ids, &theirs[1]), 4);
	assert_string_equal((char *)near_shared_ids_data(&other.ids, 4), "four");
	shared_detach(&other);
	/* Those of the other view are to be repaired. */
	for (unsigned i = 0; i < IDS; i += 2)
		if (i != 4)
			shared_release(&v.ids, &w[i]);
	assert_int_equal(shared_all(&v.ids), 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 9);
	assert_int_equal(shared_all(&v.ids), 0);
	assert_int_equal(shared_stats(&v.ids).exits, 6);
}

static void what_one_view_has_another_cannot_release(void **state)
{
	assert_int_equal(shared_acquire(&v.ids, &w[0]), 0);
	shared_detach(&v);
	shared_attach(&v, (struct near_shared_ids_options){0});
	DIES("near_shared_ids_release: id 0 is not this worker's")
		near_shared_ids_release(&v.ids, &w[0]);
	assert_int_equal(shared_all(&v.ids), 1);
}

/* ---- repair ---- */

static struct shared_view kid;
static struct near_worker kids[IDS];

static void take_two(void *unused)
{
	memset(kids, 0, sizeof(kids));
	shared_attach(&kid, (struct near_shared_ids_options){0});
	CHECK(shared_acquire(&kid.ids, &kids[0]) >= 0);
	CHECK(shared_acquire(&kid.ids, &kids[1]) >= 0);
}

static void a_killed_process_loses_nothing(void **state)
{
	pid_t child;

	assert_int_equal(shared_acquire(&v.ids, &w[0]), 0);
	child = shared_start(take_two, NULL);
	assert_int_equal(shared_stats(&v.ids).used, 3);
	shared_kill(child);
	for (unsigned i = 1; i < IDS; i++) {
		int id = shared_acquire(&v.ids, &w[i]);

		assert_in_range(id, 1, IDS - 1);
		assert_int_equal(near_worker_must_repair(&w[i]), id < 3);
	}
	assert_int_equal(shared_stats(&v.ids).exits, 2);
	assert_int_equal(shared_stats(&v.ids).taken, 1);
	for (unsigned i = 0; i < IDS; i++)
		shared_release(&v.ids, &w[i]);
	assert_int_equal(shared_all(&v.ids), 0);
}

static void the_next_on_its_seat_takes_them_back(void **state)
{
	pid_t child = shared_start(take_two, NULL);
	struct shared_view next;

	shared_kill(child);
	shared_attach(&next, (struct near_shared_ids_options){0});
	assert_int_equal(shared_stats(&v.ids).exits, 2);
	assert_int_equal(shared_stats(&v.ids).used, 0);
	assert_int_equal(shared_acquire(&next.ids, &w[0]), 0);
	assert_true(near_worker_must_repair(&w[0]));
	shared_release(&next.ids, &w[0]);
	shared_detach(&next);
	assert_int_equal(shared_all(&v.ids), 2);
}

/* Until a worker has released it. */
static void what_is_to_be_repaired_stays_so(void **state)
{
	struct near_idspace own;

	shared_kill(shared_start(take_two, NULL));
	shared_kill(shared_start(take_two, NULL)); /* it has seen must_repair, and is killed */
	assert_int_equal(shared_acquire(&v.ids, &w[0]), 2);
	assert_false(near_worker_must_repair(&w[0]));
	shared_release(&v.ids, &w[0]);
	for (unsigned i = 0; i < IDS; i++)
		shared_acquire(&v.ids, &w[i]);
	for (unsigned i = 0; i < IDS; i++)
		assert_int_equal(near_worker_must_repair(&w[i]), near_worker_id(&w[i]) < 2);
	for (unsigned i = 0; i < IDS; i++) {
		bool repair = near_worker_must_repair(&w[i]);

		near_shared_ids_hand_over(&v.ids, &w[i], &w[IDS]);
		assert_int_equal(near_worker_must_repair(&w[IDS]), repair);
		assert_false(near_worker_must_repair(&w[i]));
		shared_release(&v.ids, &w[IDS]);
	}
	/* Not of ids of other spaces. */
	KEEPS_ERRNO(assert_int_equal(near_idspace_init(&own, NULL), 0));
	assert_int_equal(near_idspace_acquire(&own, &w[0]), 0);
	assert_false(near_worker_must_repair(&w[0]));
	near_idspace_destroy(&own);
	w[0] = (struct near_worker){0};
	assert_int_equal(shared_all(&v.ids), 0);
}

/* ---- fork ---- */

/* Its parent is killed while it lives. */
static void fork_and_take(void *pid)
{
	pid_t grandchild;

	take_two(NULL);
	grandchild = shared_start(take_two, NULL);
	*(pid_t *)pid = grandchild;
}

static void take_inherited(void *unused)
{
	memset(kids, 0, sizeof(kids));
	CHECK(shared_acquire(&kid.ids, &kids[0]) >= 0);
}

/* The same space, by what it inherited. */
static void fork_and_go_on(void *pid)
{
	take_two(NULL);
	*(pid_t *)pid = shared_start(take_inherited, NULL);
}

static void pause_only(void *unused)
{
}

/* It does not use the space. */
static void fork_and_pause(void *pid)
{
	take_two(NULL);
	*(pid_t *)pid = shared_start(pause_only, NULL);
}

/* Until there are none, and each search has been made. */
static void take_all(void)
{
	while (shared_acquire(&v.ids, &w[0]) >= 0)
		w[0] = (struct near_worker){0}; /* it stays in use, by the same name */
}

/* A program that was just started closes the descriptor some moments later. */
static void killed_before_its_child(void (*run)(void *), unsigned used_by_both, unsigned by_one)
{
	pid_t *grandchild = unit_shared(sizeof(*grandchild));
	pid_t child = shared_start(run, grandchild);

	assert_int_equal(shared_stats(&v.ids).used, used_by_both);
	shared_kill(child);
	UNTIL((take_all(), shared_stats(&v.ids).exits >= used_by_both - by_one));
	assert_int_equal(shared_stats(&v.ids).exits, used_by_both - by_one);
	kill(*grandchild, SIGKILL); /* not our child */
	UNTIL(shared_acquire(&v.ids, &w[1]) >= 0 || by_one == 0);
	munmap(grandchild, sizeof(*grandchild));
}

static void a_child_does_not_keep_its_parents_seat(void **state)
{
	killed_before_its_child(fork_and_take, 4, 2);
}

static void a_child_has_a_seat_of_its_own(void **state)
{
	killed_before_its_child(fork_and_go_on, 3, 1);
}

static void a_child_without_a_seat(void **state)
{
	killed_before_its_child(fork_and_pause, 2, 0);
}

extern char **environ;

static void spawn_and_take(void *pid)
{
	char *args[] = {(char[]){"sleep"}, (char[]){"60"}, NULL};

	take_two(NULL);
	CHECK(posix_spawnp(pid, "sleep", NULL, NULL, args, environ) == 0);
}

static void a_program_that_it_starts_does_not_keep_it(void **state)
{
	if (unit_emulated() || access("/bin/sleep", X_OK))
		skip(); /* there may be no program */
	killed_before_its_child(spawn_and_take, 2, 0);
}

/* The child's workers are copies of those of its parent. */
static void what_the_parent_has_the_child_cannot_release(void **state)
{
	assert_int_equal(shared_acquire(&v.ids, &w[0]), 0);
	IN_CHILD() {
		w[1] = (struct near_worker){0};
		CHECK(shared_acquire(&v.ids, &w[1]) == 1);
	}
	DIES("near_shared_ids_release: id 0 is not this worker's")
		near_shared_ids_release(&v.ids, &w[0]);
	IN_CHILD() {
		near_shared_ids_close(&v.ids);
		near_shared_ids_close(&v.ids);
		CHECK(near_worker_id(&w[0]) == 0);
	}
	assert_int_equal(shared_stats(&v.ids).used, 2); /* that of the first child */
	shared_release(&v.ids, &w[0]);
	assert_int_equal(shared_all(&v.ids), 2);
}

/* ---- after a peak ---- */

static void ids_are_compact_after_a_peak(void **state)
{
	unsigned highest = 0;

	for (unsigned i = 0; i < IDS; i++)
		assert_int_equal(shared_acquire(&v.ids, &w[i]), i);
	for (unsigned i = 0; i < IDS; i++)
		shared_release(&v.ids, &w[IDS - 1 - i]);
	for (uint64_t i = 0; i < 3 * NEAR__IDS_TRIM; i++) {
		CHECK(near_shared_ids_acquire(&v.ids, &w[0]) >= 0);
		near_shared_ids_release(&v.ids, &w[0]);
	}
	for (unsigned i = 0; i < 2; i++) {
		int id = shared_acquire(&v.ids, &w[i]);

		highest = (unsigned)id > highest ? (unsigned)id : highest;
	}
	assert_in_range(highest, 1, 2);
	shared_release(&v.ids, &w[0]);
	shared_release(&v.ids, &w[1]);
	assert_int_equal(shared_all(&v.ids), 0);
}

/* Without a lack of ids, too, those of killed processes come back. */
static void one_in_many_acquires_searches(void **state)
{
	shared_kill(shared_start(take_two, NULL));
	assert_int_equal(shared_stats(&v.ids).exits, 0);
	for (uint64_t i = 0; i < 2 * NEAR__IDS_TRIM; i++) {
		CHECK(near_shared_ids_acquire(&v.ids, &w[0]) >= 0);
		near_shared_ids_release(&v.ids, &w[0]);
	}
	assert_int_equal(shared_stats(&v.ids).exits, 2);
	assert_int_equal(shared_all(&v.ids) & ~UINT64_C(1), 2);
}

int main(void)
{
	struct unit_fixtures f = {set_up, make_space, remove_space, tear_down};

	return UNIT_TESTS_IN(f, ids_are_the_lowest, the_cached_id_is_next, hand_over_moves_the_id,
			     lines_are_aligned, stats_of_any_size, two_views_have_two_seats,
			     what_one_view_has_another_cannot_release,
			     a_killed_process_loses_nothing, the_next_on_its_seat_takes_them_back,
			     what_is_to_be_repaired_stays_so,
			     a_child_does_not_keep_its_parents_seat, a_child_has_a_seat_of_its_own,
			     a_child_without_a_seat, a_program_that_it_starts_does_not_keep_it,
			     what_the_parent_has_the_child_cannot_release,
			     ids_are_compact_after_a_peak, one_in_many_acquires_searches);
}
