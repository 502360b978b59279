/* SPDX-License-Identifier: MIT */
/* near_idspace: what a program must not do stops it, with one line. */
#include "ids.h"

static void misuse_stops_the_program(void **state)
{
	struct near_worker w[4] = {0}, copy;
	struct near_idspace space;

	ids_init(&space, 0, 0);
	assert_int_equal(ids_acquire(&space, &w[0]), 0);
	assert_int_equal(ids_acquire(&space, &w[1]), 1);
	copy = w[1];
	DIES("near_idspace_acquire: the worker has id 1 already")
		near_idspace_acquire(&space, &w[1]);
	DIES("near_idspace_release: the worker has no id")
		near_idspace_release(&space, &w[2]);
	DIES("near_idspace_release: id 1 is not this worker's")
		near_idspace_release(&space, &copy);
	DIES("near_idspace_hand_over: the worker has no id")
		near_idspace_hand_over(&space, &w[2], &w[3]);
	DIES("near_idspace_hand_over: id 1 is not this worker's")
		near_idspace_hand_over(&space, &copy, &w[3]);
	DIES("near_idspace_hand_over: the worker has id 1 already")
		near_idspace_hand_over(&space, &w[0], &w[1]);
	DIES("near_idspace_hand_over: the worker has id 0 already")
		near_idspace_hand_over(&space, &w[0], &w[0]);
	near_idspace_release(&space, &w[1]);
	DIES("near_idspace_release: id 1 is not this worker's")
		near_idspace_release(&space, &copy);
	w[1] = copy;
	DIES("near_idspace_release: id 1 is not this worker's")
		near_idspace_release(&space, &w[1]);
	near_idspace_destroy(&space);
}

/* Also of an id that the space has never given out, or does not have. */
static void an_id_of_another_space_is_misuse(void **state)
{
	struct near_worker w[4] = {0};
	struct near_idspace space, other;

	ids_init(&other, 9, 8);
	ids_init(&space, 0, 0);
	assert_int_equal(ids_acquire(&space, &w[0]), 0);
	assert_int_equal(ids_acquire(&space, &w[1]), 1);
	DIES("near_idspace_release: id 1 is not this worker's")
		near_idspace_release(&other, &w[1]);
	DIES("near_idspace_hand_over: id 1 is not this worker's")
		near_idspace_hand_over(&other, &w[1], &w[2]);
	w[3].id1 = 11;
	DIES("near_idspace_release: id 10 is not this worker's")
		near_idspace_release(&other, &w[3]);
	w[3].id1 = UINT32_MAX;
	DIES("near_idspace_release: the worker has no id")
		near_idspace_release(&other, &w[3]);
	near_idspace_destroy(&other);
	near_idspace_destroy(&space);
}

UNIT_MAIN(misuse_stops_the_program, an_id_of_another_space_is_misuse)
