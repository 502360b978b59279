/* SPDX-License-Identifier: MIT */
/* Signal handlers and waits: they end those that are interruptible, and post semaphores, whatever
 * they interrupted. */
#include "signals.h"
#include "waiters.h"

/* ---- waits that handlers end ---- */

static struct near_mutex held, guard;
static struct near_rwlock written;
static struct near_cond silent;
static struct near_sem empty;
static struct near_once busy;
static struct near_barrier two = NEAR_BARRIER_INIT(2);

static const struct waiter waits[] = {
	{.kind = &wait_mutex, .on = &held},     {.kind = &wait_sem, .on = &empty},
	{.kind = &wait_reader, .on = &written}, {.kind = &wait_writer, .on = &written},
	{.kind = &wait_barrier, .on = &two},    {.kind = &wait_cond, .on = &silent, .m = &guard},
	{.kind = &wait_await, .on = &guard},    {.kind = &wait_once, .on = &busy},
	{.kind = &wait_park, .on = &two},
};

static bool has_ended; /* atomic */

static void *run_wait(void *waiter)
{
	run_waiter(waiter);
	__atomic_store_n(&has_ended, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Sends signals until it has ended, n at most; then cancels it, if it can be. */
static int signal_wait(struct waiter w, unsigned n)
{
	pthread_t t;

	has_ended = false;
	t = unit_start(run_wait, &w);
	for (unsigned i = 0; i < n && !__atomic_load_n(&has_ended, __ATOMIC_ACQUIRE); i++) {
		pthread_kill(t, SIGUSR1);
		usleep(1000);
	}
	if (w.cancel)
		near_cancel_set(w.cancel);
	unit_join(t);
	return w.result;
}

static void interrupt_wait(struct waiter w)
{
	w.clock = NEAR_INTERRUPTIBLE;
	catch_signals(0);
	CHECK(signal_wait(w, UINT32_MAX) == -EINTR);
	/* With a deadline a handler that restarts calls ends the wait, too. */
	catch_signals(SA_RESTART);
	for (size_t c = 0; c < LENGTH(wait_clocks); c++) {
		struct timespec far = wait_in_ms(wait_clocks[c], 1000000);

		w.clock = wait_clocks[c] | NEAR_INTERRUPTIBLE;
		w.deadline = &far;
		CHECK(signal_wait(w, UINT32_MAX) == -EINTR);
	}
}

/* A wait that is not interruptible continues. Without a deadline an interruptible one does, too,
 * after a handler that restarts calls. */
static void do_not_interrupt_wait(struct waiter w)
{
	for (int restarts = 0; restarts < 2; restarts++) {
		struct near_cancel cancel = NEAR_CANCEL_INIT;

		catch_signals(restarts ? SA_RESTART : 0);
		w.clock = restarts ? NEAR_INTERRUPTIBLE : CLOCK_MONOTONIC;
		w.cancel = &cancel;
		CHECK(signal_wait(w, 5) == -ECANCELED);
	}
}

static int test_waits(void *unused)
{
	for (size_t i = 0; i < LENGTH(waits); i++) {
		interrupt_wait(waits[i]);
		do_not_interrupt_wait(waits[i]);
	}
	return 0;
}

static void handlers_end_interruptible_waits(void **state)
{
	near_mutex_lock(&held);
	near_rwlock_write_lock(&written);
	CHECK(near_once_call(&busy, test_waits, NULL) == 0);
	near_rwlock_write_unlock(&written);
	near_mutex_unlock(&held);
	assert_int_equal(two.arrived, 0);
	assert_int_equal(near_sem_read(&empty), 0);
	assert_int_equal(waits_on(&empty, NEAR__SPACE_SEM), 0);
}

static void unknown_flags_are_no_clock(void **state)
{
	struct timespec t = {1, 0};

	assert_int_equal(near_sem_wait_until(&empty, NEAR_INTERRUPTIBLE << 1, &t, NULL), -EINVAL);
	assert_int_equal(near_sem_wait_until(&empty, NEAR_INTERRUPTIBLE | 77, &t, NULL), -EINVAL);
}

/* ---- handlers that post ---- */

static struct near_sem posted;
static unsigned posts; /* atomic */

static void post(int number)
{
	int saved = errno;

	errno = UNIT_ERRNO;
	CHECK(near_sem_post(&posted) == 0);
	CHECK(errno == UNIT_ERRNO);
	__atomic_fetch_add(&posts, 1, __ATOMIC_RELAXED);
	errno = saved;
}

static struct waiter waiter_for_post(void)
{
	return (struct waiter){.kind = &wait_sem, .on = &posted};
}

/* Under the lock of a bucket. */
static bool raise_there(void *unused)
{
	raise(SIGUSR1);
	return false;
}

/* The address is that of the semaphore, and so the bucket is the one that the post needs. */
static void handlers_post_in_other_locks_sections(void **state)
{
	struct near_park p = {.validate = raise_there};
	struct waiter w;

	on_signal(SIGUSR1, post, 0);
	start_waiters(&w, 1, waiter_for_post());
	assert_int_equal(near_park(&posted, &p), -EAGAIN);
	expect(&w, 0);
	assert_int_equal(near_sem_read(&posted), 0);
}

static struct near_sem many[5];

static void post_many(int number)
{
	for (size_t i = 0; i < LENGTH(many); i++)
		for (size_t n = 0; n <= i; n++)
			CHECK(near_sem_post(&many[i]) == 0);
}

/* More than a thread can name: the i-th has two sleepers, and gets i + 1 units. */
static void handlers_post_many_in_one_section(void **state)
{
	struct near_park p = {.validate = raise_there};
	struct waiter w[2 * LENGTH(many)];

	on_signal(SIGUSR1, post_many, 0);
	for (size_t i = 0; i < LENGTH(many); i++)
		start_waiters(&w[2 * i], 2, (struct waiter){.kind = &wait_sem, .on = &many[i]});
	assert_int_equal(near_park(&many[0], &p), -EAGAIN);
	wait_for_waits(&many[0], NEAR__SPACE_SEM, 1);
	assert_int_equal(near_sem_post(&many[0]), 0);
	for (size_t i = 0; i < LENGTH(w); i++)
		expect(&w[i], 0);
	for (size_t i = 1; i < LENGTH(many); i++)
		assert_int_equal(near_sem_read(&many[i]), i - 1);
	assert_int_equal(near_sem_read(&many[0]), 0);
}

static struct {
	pthread_t target;
	bool is_over; /* atomic */
} sender_state;

static void *send_signals(void *unused)
{
	while (!__atomic_load_n(&sender_state.is_over, __ATOMIC_ACQUIRE)) {
		CHECK(pthread_kill(sender_state.target, SIGUSR1) == 0);
		for (int i = 0; i < 3; i++)
			sched_yield();
	}
	return unused;
}

/* Several kinds of wait: the handler interrupts a thread that enters the queue, leaves it, or
 * sleeps. */
static unsigned take_some(uint64_t *random)
{
	struct timespec soon = wait_in_ns(unit_random(random) & 0x3fff);

	if (unit_random(random) % 4 == 0)
		return near_sem_try_wait(&posted);
	return near_sem_wait_until(&posted, CLOCK_MONOTONIC, &soon, NULL) == 0;
}

static void handlers_post_at_any_moment(void **state)
{
	unsigned taken = 0;
	uint64_t random = 1;
	pthread_t sender;

	on_signal(SIGUSR1, post, SA_RESTART);
	posts = 0;
	sender_state.target = pthread_self();
	sender = unit_start(send_signals, NULL);
	for (unsigned i = 0; i < unit_scale(20000); i++) {
		taken += take_some(&random);
		if (i % 64 == 0) { /* the interrupted thread posts, too */
			CHECK(near_sem_post(&posted) == 0);
			__atomic_fetch_add(&posts, 1, __ATOMIC_RELAXED);
		}
	}
	__atomic_store_n(&sender_state.is_over, true, __ATOMIC_RELEASE);
	unit_join(sender);
	while (near_sem_try_wait(&posted))
		taken++;
	assert_int_equal(taken, posts);
	assert_int_equal(waits_on(&posted, NEAR__SPACE_SEM), 0);
}

/* No thread sleeps in the child, and its thread is in no section any more. */
static void handlers_post_in_a_child(void **state)
{
	struct waiter w;

	on_signal(SIGUSR1, post, 0);
	start_waiters(&w, 1, waiter_for_post());
	IN_CHILD() {
		raise(SIGUSR1);
		CHECK(near_sem_try_wait(&posted));
	}
	raise(SIGUSR1);
	expect(&w, 0);
}

static void wake_one(void)
{
	struct waiter w;

	start_waiters(&w, 1, waiter_for_post());
	CHECK(near_sem_post(&posted) == 0);
	unit_join(w.thread);
	CHECK(w.result == 0);
}

/* ---- children that end in a section, on the thread's memory ---- */

static bool end_there(void *unused)
{
	syscall(SYS_exit_group, 0);
	return false;
}

__attribute__((noinline)) static pid_t start_vforked(const void *address, struct near_park *p)
{
	pid_t child = vfork();

	if (child == 0) {
		near_park(address, p);
		_exit(1);
	}
	return child;
}

/* The child leaves one bucket locked. The thread is in no section: it must not defer its posts. */
static void posts_follow_a_vfork_child_that_ended_in_a_section(void **state)
{
	static const char lost[NEAR__CACHE_LINE];
	struct near_park p = {.validate = end_there};
	const char *address = lost;

	if (unit_emulated() || !NEAR__HAS_SEQ)
		skip(); /* a vfork is a fork; or the library has none of its own */
	while (near__lot_bucket(address) == near__lot_bucket(&posted))
		address++;
	assert_int_equal(unit_wait(start_vforked(address, &p), NULL), 0);
	wake_one();
}

static unsigned shared_rounds;

static void lock_buckets(const void *address)
{
	for (unsigned i = 0; i < shared_rounds; i++)
		near_unpark(address, 1, 0);
}

static int lock_in_clone(void *address)
{
	lock_buckets(address);
	syscall(SYS_exit_group, 0);
	return 0;
}

static void share_storage(void)
{
	static char stack[256 << 10] __attribute__((aligned(16))), here, there;
	pid_t child = clone(lock_in_clone, stack + sizeof(stack), CLONE_VM | SIGCHLD, &there);

	CHECK(child > 0);
	lock_buckets(&here);
	CHECK(unit_wait(child, NULL) == 0);
	wake_one();
}

/* Both would count their sections in one word, without atomics. */
static void posts_follow_a_clone_on_the_same_storage(void **state)
{
	if (unit_emulated() || UNIT_SANITIZED || !NEAR__HAS_SEQ)
		skip();
	shared_rounds = unit_scale(200000);
	IN_CHILD() /* no other test's thread is to share its storage */
		share_storage();
}

int main(void)
{
	return UNIT_TESTS(handlers_end_interruptible_waits, unknown_flags_are_no_clock,
			  handlers_post_in_other_locks_sections, handlers_post_many_in_one_section,
			  handlers_post_at_any_moment, handlers_post_in_a_child,
			  posts_follow_a_vfork_child_that_ended_in_a_section,
			  posts_follow_a_clone_on_the_same_storage);
}
