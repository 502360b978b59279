/* SPDX-License-Identifier: MIT */
/* near_mutex: how many fences it makes, and the time-slice extensions that it requests. */
#include "mutex_waiters.h"

#include "locks/slice.h"

/* ---- fences ---- */

static uint64_t fences(void)
{
	return __atomic_load_n(&near__locks.fences, __ATOMIC_RELAXED);
}

/* A thread parks, and gets the mutex. */
static void be_waited_for(struct near_mutex *m, uint32_t bits)
{
	struct waiter w;

	near_mutex_lock(m);
	start_lockers(&w, 1, m, NULL);
	assert_int_equal(word_of(m) & ~NEAR__MUTEX_OWNER, bits);
	near_mutex_unlock(m);
	expect(&w, 0);
}

static void each_first_park_fences_where_cpus_are_few(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	uint64_t before = fences();

	set_unlock_budget(1);
	for (unsigned i = 1; i <= 5; i++) {
		be_waited_for(&m, PARKED);
		assert_int_equal(word_of(&m), 0);
		assert_int_equal(fences() - before, i);
	}
}

static unsigned budget_unlocks(struct near_mutex *m)
{
	unsigned n = 0;

	while (word_of(m) == ATOMIC_UNLOCK) {
		near_mutex_lock(m);
		assert_int_equal(word_of(m), me() | ATOMIC_UNLOCK);
		near_mutex_unlock(m);
		n++;
	}
	assert_int_equal(word_of(m), 0);
	return n;
}

static void unlocks_pay_for_fences_where_cpus_are_many(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT, other = NEAR_MUTEX_INIT;
	uint64_t before = fences();

	set_unlock_budget(50);
	for (unsigned i = 1; i <= 5; i++) {
		be_waited_for(&m, PARKED | ATOMIC_UNLOCK);
		assert_int_equal(fences() - before, 2 * i - 1);
		be_waited_for(&m, PARKED | ATOMIC_UNLOCK);
		assert_int_equal(fences() - before, 2 * i - 1);
		assert_int_equal(word_of(&m), ATOMIC_UNLOCK);
		assert_int_equal(budget_unlocks(&m), 50);
		/* A thread counts for all its mutexes. */
		be_waited_for(&m, PARKED | ATOMIC_UNLOCK);
		m.word = me() | ATOMIC_UNLOCK;
		near_mutex_unlock_fair(&m);
		be_waited_for(&other, PARKED | ATOMIC_UNLOCK);
		assert_int_equal(budget_unlocks(&other), 49);
		before++;
		m.word = 0;
	}
}

/* With two CPUs or fewer none are counted; with more, in proportion. */
static void the_budget_depends_on_the_machine(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	bool few = near_cpus() <= 2;

	set_unlock_budget(0);
	be_waited_for(&m, few ? PARKED : PARKED | ATOMIC_UNLOCK);
	assert_int_equal(near__locks.unlocks_per_fence, few ? 1 : 100 * near_cpus());
}

/* ---- longer slices ---- */

/* The kernel's area as a kernel would have it that can extend a slice. */
static struct near__area fake;

struct slice_ctrl {
	uint8_t request, granted;
};

static struct slice_ctrl *ctrl(void)
{
	return (struct slice_ctrl *)&fake.slice_ctrl;
}

static void *hold_without_request(void *m)
{
	near_mutex_lock(m);
	wait_for_waits(m, NEAR__SPACE_MUTEX, 1);
	CHECK(ctrl()->request == 0);
	near_mutex_unlock(m);
	return NULL;
}

static struct near__thread real_thread;

static void begin_slices(void)
{
	set_unlock_budget(1);
	real_thread = near__self;
	near__locks_thread_own()->slice = (struct near__slice){NEAR__SLICE_ABLE, false};
	near__self.area = &fake;
	near__self.state = NEAR__LIVE;
}

static void end_slices(void)
{
	near__self = real_thread;
	near__locks_thread_own()->slice = (struct near__slice){0};
}

static void a_lock_after_a_wait_requests_a_longer_slice(void **state)
{
	struct near_mutex outer = NEAR_MUTEX_INIT, inner = NEAR_MUTEX_INIT;

	begin_slices();
	near_mutex_lock(&outer);
	assert_int_equal(ctrl()->request, 0);
	near_mutex_unlock(&outer);
	lock_after_a_wait(&outer, hold_without_request);
	assert_int_equal(ctrl()->request, 1);
	assert_int_equal(word_of(&outer), me()); /* its unlock is called nevertheless */
	/* This withdraws the first, as hold_without_request checks. */
	lock_after_a_wait(&inner, hold_without_request);
	assert_int_equal(ctrl()->request, 1);
	near_mutex_unlock(&inner);
	assert_int_equal(ctrl()->request, 0);
	near_mutex_unlock(&outer);
	assert_int_equal(word_of(&outer), 0);
	assert_int_equal(word_of(&inner), 0);
	end_slices();
}

static void what_was_granted_is_given_back(void **state)
{
	begin_slices();
	assert_true(near__slice_begin());
	*ctrl() = (struct slice_ctrl){.granted = 1};
	errno = UNIT_ERRNO;
	assert_true(near__slice_end_requested());
	assert_int_equal(errno, UNIT_ERRNO);
	*ctrl() = (struct slice_ctrl){0};
	assert_true(near__slice_begin());
	assert_false(near__slice_end_requested());
	near__self.state = NEAR__LIVE + 1;
	assert_false(near__slice_begin());
	assert_int_equal(fake.slice_ctrl, 0);
	end_slices();
}

static void nothing_is_requested_of_a_kernel_without(void **state)
{
	struct near_rseq_status status;

	near_rseq_status(&status, sizeof(status));
	near__locks_thread_own()->slice = (struct near__slice){0};
	if (status.has_slice)
		skip();
	assert_false(near__slice_begin());
	assert_int_equal(near__locks_thread_peek()->slice.state == NEAR__SLICE_UNABLE, status.live);
	assert_int_equal(near__self.area->slice_ctrl, 0);
}

int main(void)
{
	return UNIT_GROUP(few_cpus, few_cpus, NULL, each_first_park_fences_where_cpus_are_few,
			  unlocks_pay_for_fences_where_cpus_are_many,
			  the_budget_depends_on_the_machine,
			  a_lock_after_a_wait_requests_a_longer_slice,
			  what_was_granted_is_given_back, nothing_is_requested_of_a_kernel_without);
}
