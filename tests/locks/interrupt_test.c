/* SPDX-License-Identifier: MIT */
/* Signal handlers: they post semaphores, whatever they interrupted, and end waits that ask for it.
 *
 * A test that hangs is ended by an alarm. */
#include "waits.h"

#include <nearcpu/barrier.h>
#include <nearcpu/cond.h>
#include <nearcpu/mutex.h>
#include <nearcpu/once.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/sem.h>

#define HANGS_AFTER_S 50

static void on_signal(int number, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	CHECK(sigaction(number, &action, NULL) == 0);
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

static void *take_one(void *unused)
{
	near_sem_wait(&posted);
	return unused;
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
	pthread_t t;

	on_signal(SIGUSR1, post, 0);
	t = unit_start(take_one, NULL);
	wait_for_waits(&posted, NEAR__SPACE_SEM, 1);
	assert_int_equal(near_park(&posted, &p), -EAGAIN);
	unit_join(t);
	assert_int_equal(near_sem_read(&posted), 0);
}

static struct near_sem many[5];

static void post_many(int number)
{
	for (size_t i = 0; i < LENGTH(many); i++)
		for (size_t n = 0; n <= i; n++)
			CHECK(near_sem_post(&many[i]) == 0);
}

static void *take_of(void *s)
{
	near_sem_wait(s);
	return NULL;
}

/* More than a thread can name: the i-th has two sleepers, and gets i + 1 units. */
static void handlers_post_many_in_one_section(void **state)
{
	struct near_park p = {.validate = raise_there};
	pthread_t t[2 * LENGTH(many)];

	on_signal(SIGUSR1, post_many, 0);
	for (size_t i = 0; i < LENGTH(t); i++)
		t[i] = unit_start(take_of, &many[i / 2]);
	for (size_t i = 0; i < LENGTH(many); i++)
		wait_for_waits(&many[i], NEAR__SPACE_SEM, 2);
	assert_int_equal(near_park(&many[0], &p), -EAGAIN);
	wait_for_waits(&many[0], NEAR__SPACE_SEM, 1);
	assert_int_equal(near_sem_post(&many[0]), 0);
	for (size_t i = 0; i < LENGTH(t); i++)
		unit_join(t[i]);
	for (size_t i = 1; i < LENGTH(many); i++)
		assert_int_equal(near_sem_read(&many[i]), i - 1);
	assert_int_equal(near_sem_read(&many[0]), 0);
}

static struct {
	pthread_t target;
	unsigned rounds;
	bool is_over; /* atomic */
} storm;

static void *send_signals(void *unused)
{
	while (!__atomic_load_n(&storm.is_over, __ATOMIC_ACQUIRE)) {
		CHECK(pthread_kill(storm.target, SIGUSR1) == 0);
		for (int i = 0; i < 3; i++)
			sched_yield();
	}
	return unused;
}

/* Ways to wait, so that the handler interrupts the queue's beginning, its end, and a sleep. */
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
	storm.target = pthread_self();
	sender = unit_start(send_signals, NULL);
	storm.rounds = unit_scale(20000);
	for (unsigned i = 0; i < storm.rounds; i++) {
		taken += take_some(&random);
		if (i % 64 == 0) { /* the interrupted thread posts, too */
			CHECK(near_sem_post(&posted) == 0);
			__atomic_fetch_add(&posts, 1, __ATOMIC_RELAXED);
		}
	}
	__atomic_store_n(&storm.is_over, true, __ATOMIC_RELEASE);
	unit_join(sender);
	while (near_sem_try_wait(&posted))
		taken++;
	assert_int_equal(taken, posts);
	assert_int_equal(waits_on(&posted, NEAR__SPACE_SEM), 0);
}

static void post_in_child(void *unused)
{
	raise(SIGUSR1);
	CHECK(near_sem_try_wait(&posted));
}

/* Which nobody sleeps in, and whose thread is in no section any more. */
static void handlers_post_in_a_child(void **state)
{
	pthread_t t;

	on_signal(SIGUSR1, post, 0);
	t = unit_start(take_one, NULL);
	wait_for_waits(&posted, NEAR__SPACE_SEM, 1);
	unit_in_child(post_in_child, NULL);
	raise(SIGUSR1);
	unit_join(t);
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
	pthread_t t;

	if (unit_emulated() || !NEAR__HAS_SEQ)
		skip(); /* a vfork is a fork; or the library has none of its own */
	while (near__lot_bucket(address) == near__lot_bucket(&posted))
		address++;
	assert_int_equal(unit_wait(start_vforked(address, &p), NULL), 0);
	t = unit_start(take_one, NULL);
	wait_for_waits(&posted, NEAR__SPACE_SEM, 1);
	assert_int_equal(near_sem_post(&posted), 0);
	unit_join(t);
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

static void share_storage(void *unused)
{
	static char stack[256 << 10] __attribute__((aligned(16))), here, there;
	pid_t child = clone(lock_in_clone, stack + sizeof(stack), CLONE_VM | SIGCHLD, &there);
	pthread_t t;

	CHECK(child > 0);
	lock_buckets(&here);
	CHECK(unit_wait(child, NULL) == 0);
	t = unit_start(take_one, NULL);
	wait_for_waits(&posted, NEAR__SPACE_SEM, 1);
	CHECK(near_sem_post(&posted) == 0);
	unit_join(t);
}

/* Both would count their sections in one word, without atomics. */
static void posts_follow_a_clone_on_the_same_storage(void **state)
{
	if (unit_emulated() || UNIT_SANITIZED || !NEAR__HAS_SEQ)
		skip();
	shared_rounds = unit_scale(200000);
	unit_in_child(share_storage, NULL); /* no other test's thread is to share its storage */
}

/* ---- handlers that end waits ---- */

static struct near_mutex held, guard;
static struct near_rwlock written;
static struct near_cond silent;
static struct near_sem empty;
static struct near_once busy;
static struct near_barrier two = NEAR_BARRIER_INIT(2);

struct wait {
	const struct timespec *deadline;
	struct near_cancel *cancel;
	int (*wait)(int clock, const struct timespec *deadline, struct near_cancel *cancel);
	int clock;
	int result;
	bool has_ended; /* atomic */
};

static int wait_mutex(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	return near_mutex_lock_until(&held, clock, deadline, cancel);
}

static int wait_unit(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	return near_sem_wait_until(&empty, clock, deadline, cancel);
}

static int wait_reader(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	return near_rwlock_read_lock_until(&written, clock, deadline, cancel);
}

static int wait_writer(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	return near_rwlock_write_lock_until(&written, clock, deadline, cancel);
}

static int wait_others(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	return near_barrier_wait_until(&two, clock, deadline, cancel);
}

static int wait_signal(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	int r;

	near_mutex_lock(&guard);
	r = near_cond_wait_until(&silent, &guard, clock, deadline, cancel);
	near_mutex_unlock(&guard);
	return r;
}

static bool never(void *unused)
{
	return false;
}

static int wait_condition(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	int r;

	near_mutex_lock(&guard);
	r = near_mutex_await_until(&guard, never, NULL, clock, deadline, cancel);
	near_mutex_unlock(&guard);
	return r;
}

static int do_nothing(void *unused)
{
	return 0;
}

static int wait_once(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	return near_once_call_until(&busy, do_nothing, NULL, clock, deadline, cancel);
}

static int wait_parked(int clock, const struct timespec *deadline, struct near_cancel *cancel)
{
	struct near_park p = {.clock = clock, .deadline = deadline, .cancel = cancel};

	return near_park(&two, &p);
}

static int (*const waits[])(int, const struct timespec *, struct near_cancel *) = {
	wait_mutex,  wait_unit,      wait_reader, wait_writer, wait_others,
	wait_signal, wait_condition, wait_once,   wait_parked,
};

static void count_signal(int number)
{
	__atomic_fetch_add(&posts, 1, __ATOMIC_RELAXED);
}

static void *run_wait(void *arg)
{
	struct wait *w = arg;

	errno = UNIT_ERRNO;
	w->result = w->wait(w->clock, w->deadline, w->cancel);
	CHECK(errno == UNIT_ERRNO);
	__atomic_store_n(&w->has_ended, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Signals until it has ended, or so many. */
static void signal_wait(struct wait *w, unsigned n)
{
	pthread_t t = unit_start(run_wait, w);

	for (unsigned i = 0; i < n && !__atomic_load_n(&w->has_ended, __ATOMIC_ACQUIRE); i++) {
		pthread_kill(t, SIGUSR1);
		usleep(1000);
	}
	if (w->cancel)
		near_cancel_set(w->cancel);
	unit_join(t);
}

static int test_waits(void *unused)
{
	static const int clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME};

	for (size_t i = 0; i < LENGTH(waits); i++) {
		struct near_cancel cancel = NEAR_CANCEL_INIT;
		struct wait w = {.wait = waits[i], .clock = NEAR_INTERRUPTIBLE};

		on_signal(SIGUSR1, count_signal, 0);
		signal_wait(&w, UINT32_MAX);
		CHECK(w.result == -EINTR);
		/* With a deadline a handler that restarts calls ends the wait, too. */
		for (size_t c = 0; c < LENGTH(clocks); c++) {
			struct timespec far = wait_in_ms(clocks[c], 1000000);
			struct wait timed = {.wait = waits[i],
					     .clock = clocks[c] | NEAR_INTERRUPTIBLE,
					     .deadline = &far};

			on_signal(SIGUSR1, count_signal, SA_RESTART);
			signal_wait(&timed, UINT32_MAX);
			CHECK(timed.result == -EINTR);
		}
		/* A wait that did not ask for it goes on; without a deadline so does one that did,
		 * after a handler that restarts calls. */
		for (int asks = 0; asks < 2; asks++) {
			cancel = (struct near_cancel)NEAR_CANCEL_INIT;
			on_signal(SIGUSR1, count_signal, asks ? SA_RESTART : 0);
			w = (struct wait){.wait = waits[i],
					  .clock = asks ? NEAR_INTERRUPTIBLE : CLOCK_MONOTONIC,
					  .cancel = &cancel};
			signal_wait(&w, 5);
			CHECK(w.result == -ECANCELED);
		}
	}
	return 0;
}

static void handlers_end_waits_that_ask_for_it(void **state)
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

int main(void)
{
	alarm(unit_emulated() ? 4 * HANGS_AFTER_S : HANGS_AFTER_S);
	return UNIT_TESTS(handlers_post_in_other_locks_sections, handlers_post_many_in_one_section,
			  handlers_post_at_any_moment, handlers_post_in_a_child,
			  handlers_end_waits_that_ask_for_it,
			  posts_follow_a_vfork_child_that_ended_in_a_section,
			  posts_follow_a_clone_on_the_same_storage, unknown_flags_are_no_clock);
}
