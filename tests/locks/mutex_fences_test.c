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
	struct waiter w = {.m = m};

	near_mutex_lock(m);
	start_waiter(&w);
	assert_int_equal(word_of(m) & ~NEAR__MUTEX_OWNER, bits);
	near_mutex_unlock(m);
	unit_join(w.thread);
	assert_int_equal(w.result, 0);
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

struct occupied {
	struct near_mutex m;
	uint32_t holds;
};

static void *let_one_wait(void *arg)
{
	struct occupied *o = arg;

	near_mutex_lock(&o->m);
	__atomic_store_n(&o->holds, 1, __ATOMIC_RELEASE);
	wait_for_waits(&o->m, NEAR__SPACE_MUTEX, 1);
	CHECK(ctrl()->request == 0);
	near_mutex_unlock(&o->m);
	return NULL;
}

static void lock_after_a_wait(struct occupied *o)
{
	pthread_t t;

	o->holds = 0;
	t = unit_start(let_one_wait, o);
	while (!__atomic_load_n(&o->holds, __ATOMIC_ACQUIRE))
		usleep(100);
	near_mutex_lock(&o->m);
	unit_join(t);
}

static void a_lock_after_a_wait_requests_a_longer_slice(void **state)
{
	struct occupied outer = {.m = NEAR_MUTEX_INIT}, inner = outer;
	struct near__thread saved = near__self;

	set_unlock_budget(1);
	near__slice = (struct near__slice){NEAR__SLICE_ABLE, false};
	near__self.area = &fake;
	near__self.state = NEAR__LIVE;
	near_mutex_lock(&outer.m);
	assert_int_equal(ctrl()->request, 0);
	near_mutex_unlock(&outer.m);
	lock_after_a_wait(&outer);
	assert_int_equal(ctrl()->request, 1);
	assert_int_equal(word_of(&outer.m), me()); /* its unlock is called nevertheless */
	lock_after_a_wait(&inner); /* which withdraws the first, as let_one_wait sees */
	assert_int_equal(ctrl()->request, 1);
	near_mutex_unlock(&inner.m);
	assert_int_equal(ctrl()->request, 0);
	near_mutex_unlock(&outer.m);
	assert_int_equal(word_of(&outer.m), 0);
	assert_int_equal(word_of(&inner.m), 0);
	near__self = saved;
	near__slice = (struct near__slice){0};
}

static void what_was_granted_is_given_back(void **state)
{
	struct near__thread saved = near__self;

	near__slice = (struct near__slice){NEAR__SLICE_ABLE, false};
	near__self.area = &fake;
	near__self.state = NEAR__LIVE;
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
	near__self = saved;
	near__slice = (struct near__slice){0};
}

static void nothing_is_requested_of_a_kernel_without(void **state)
{
	struct near_rseq_status status;

	near_rseq_status(&status, sizeof(status));
	near__slice = (struct near__slice){0};
	if (status.has_slice)
		skip();
	assert_false(near__slice_begin());
	assert_int_equal(near__slice.state == NEAR__SLICE_UNABLE, status.live);
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
