/* SPDX-License-Identifier: MIT */
/* near_thrsleep and near_thrwakeup: the numbered rules of OpenBSD's contract, one by one. */
#include "unit.h"

#include <nearcpu/park.h>

#include "parking/lot.h"

static char ident[64];

/* What CLOCK_REALTIME is ahead of itself. */
static long realtime_step;
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	int r = __real_clock_gettime(clock, t);

	if (r == 0 && clock == CLOCK_REALTIME)
		t->tv_sec += __atomic_load_n(&realtime_step, __ATOMIC_RELAXED);
	return r;
}

static unsigned sleepers_on(const void *id)
{
	struct near__bucket *b = near__lot_lock(id);
	struct near__waiter *w = near__lot_first(b, id, NEAR__SPACE_THR);
	unsigned n = 0;

	for (; w; w = near__lot_next(w))
		n++;
	near__lot_unlock(b);
	return n;
}

struct sleeper {
	const void *ident;
	clockid_t clock;
	const struct timespec *deadline;
	uint32_t lock;
	const int *abort;
	int result;
	pthread_t thread;
};

static void *sleep_there(void *arg)
{
	struct sleeper *s = arg;

	errno = UNIT_ERRNO;
	s->result = near_thrsleep(s->ident, s->clock, s->deadline, &s->lock, s->abort);
	CHECK(errno == UNIT_ERRNO);
	return NULL;
}

/* Starts a sleeper with its lock held, and returns when it is in the queue and has let go. */
static void start_sleeper(struct sleeper *s)
{
	unsigned before = sleepers_on(s->ident);

	s->lock = 1;
	s->thread = unit_start(sleep_there, s);
	while (sleepers_on(s->ident) != before + 1 || __atomic_load_n(&s->lock, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void expect(struct sleeper *s, int result)
{
	unit_join(s->thread);
	assert_int_equal(s->result, result);
	assert_int_equal(s->lock, NEAR_THR_UNLOCKED);
}

static struct timespec in_ms(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

/* A word that cannot be read. */
static int *unreadable(void)
{
	void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(page != MAP_FAILED);
	return page;
}

/* Rules 1 to 3: an error, the lock is held as before, `abort` not read. */
static void expect_refused(const void *id, clockid_t clock, const struct timespec *deadline)
{
	int *abort = unreadable();
	uint32_t lock = 1;

	assert_int_equal(near_thrsleep(id, clock, deadline, &lock, abort), EINVAL);
	assert_int_equal(lock, 1);
	munmap(abort, 4096);
}

static void rule_1_a_deadline_that_is_no_time(void **state)
{
	static const struct timespec wrong[] = {{5, -1}, {5, 1000000000}, {-1, 1000000000}};

	for (size_t i = 0; i < LENGTH(wrong); i++)
		expect_refused(ident, CLOCK_MONOTONIC, &wrong[i]);
}

static void rule_2_ident_0(void **state)
{
	struct timespec past = {0, 0};

	expect_refused(NULL, CLOCK_MONOTONIC, NULL);
	expect_refused(NULL, CLOCK_MONOTONIC, &past);
	assert_int_equal(near_thrwakeup(NULL, 1), EINVAL);
}

static void rule_3_an_unknown_clock(void **state)
{
	struct timespec past = {0, 0};
	int abort = -1; /* whatever is not 0 */
	uint32_t lock = 1;

	expect_refused(ident, 4711, &past);
	/* Ignored without a deadline: it gets as far as to `abort`. */
	assert_int_equal(near_thrsleep(ident, 4711, NULL, &lock, &abort), EINTR);
	assert_int_equal(lock, NEAR_THR_UNLOCKED);
}

static void rule_4_a_past_deadline_comes_before_abort(void **state)
{
	static const struct timespec past[] = {{0, 0}, {0, 1}, {-1, 0}, {INT64_MIN, 0}};
	static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME,
					   CLOCK_PROCESS_CPUTIME_ID};
	int *abort = unreadable();

	for (size_t c = 0; c < LENGTH(clocks); c++)
		for (size_t i = 0; i < LENGTH(past); i++) {
			uint32_t lock = 1;

			assert_int_equal(near_thrsleep(ident, clocks[c], &past[i], &lock, abort),
					 EWOULDBLOCK);
			assert_int_equal(lock, NEAR_THR_UNLOCKED);
		}
	assert_int_equal(near_thrsleep(ident, CLOCK_MONOTONIC, &past[0], NULL, NULL), EWOULDBLOCK);
	munmap(abort, 4096);
}

/* The clock is an hour ahead at the call, and set back during the sleep: an absolute time would be
 * an hour away by the kernel's clock, or by the one that was set. */
static void rule_5_the_wait_is_relative(void **state)
{
	struct timespec soon, end = in_ms(CLOCK_MONOTONIC, 100), now;
	struct sleeper s = {.ident = ident, .clock = CLOCK_REALTIME, .deadline = &soon, .lock = 1};

	__atomic_store_n(&realtime_step, 3600, __ATOMIC_RELAXED);
	soon = in_ms(CLOCK_REALTIME, 100);
	s.thread = unit_start(sleep_there, &s);
	while (__atomic_load_n(&s.lock, __ATOMIC_ACQUIRE))
		usleep(100);
	__atomic_store_n(&realtime_step, 0, __ATOMIC_RELAXED);
	expect(&s, EWOULDBLOCK);
	clock_gettime(CLOCK_MONOTONIC, &now);
	assert_true(now.tv_sec > end.tv_sec ||
		    (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec));
}

static void rule_5_huge_deadlines_are_clamped(void **state)
{
	static const struct timespec huge[] = {{INT64_C(0x7000000000000000), 0},
					       {INT64_MAX, 999999999},
					       {INT64_C(9223372036), 854775807}};
	static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};

	for (size_t c = 0; c < LENGTH(clocks); c++)
		for (size_t i = 0; i < LENGTH(huge); i++) {
			struct sleeper s = {
				.ident = ident, .clock = clocks[c], .deadline = &huge[i]};

			start_sleeper(&s);
			usleep(2000);
			assert_int_equal(near_thrwakeup(ident, 1), 0);
			expect(&s, 0);
		}
}

/* Whoever takes the lock that the sleeper let go of finds the sleeper in the queue. */
static void rule_6_queued_before_the_lock_is_let_go(void **state)
{
	for (unsigned i = 0; i < unit_scale(2000); i++) {
		struct sleeper s = {.ident = ident, .lock = 1};

		s.thread = unit_start(sleep_there, &s);
		while (__atomic_load_n(&s.lock, __ATOMIC_ACQUIRE))
			sched_yield();
		assert_int_equal(near_thrwakeup(ident, 1), 0);
		expect(&s, 0);
	}
}

static void rule_6_first_in_first_out(void **state)
{
	struct sleeper s[4];

	for (unsigned i = 0; i < 4; i++) {
		s[i] = (struct sleeper){.ident = ident};
		start_sleeper(&s[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(near_thrwakeup(ident, 1), 0);
		expect(&s[i], 0);
		assert_int_equal(sleepers_on(ident), 3 - i);
	}
}

/* The read of `abort` faults, so that the handler sees the world as it is at that moment. */
static struct {
	int *abort;
	uint32_t lock;
	bool wake;
	unsigned queued, faults;
	uint32_t seen_lock;
	int woke;
} fault;

static void at_abort(int signal)
{
	fault.faults++;
	fault.seen_lock = fault.lock;
	fault.queued = sleepers_on(ident);
	if (fault.wake)
		fault.woke = near_thrwakeup(ident, 1);
	mprotect(fault.abort, 4096, PROT_READ | PROT_WRITE);
	*fault.abort = 1;
}

static void sleep_with_fault(bool wake)
{
	struct sigaction action = {.sa_handler = at_abort}, old;

	memset(&fault, 0, sizeof(fault));
	fault.abort = unreadable();
	fault.lock = 1;
	fault.wake = wake;
	sigaction(SIGSEGV, &action, &old);
	assert_int_equal(near_thrsleep(ident, 0, NULL, &fault.lock, fault.abort), EINTR);
	sigaction(SIGSEGV, &old, NULL);
	assert_int_equal(fault.faults, 1);
	munmap(fault.abort, 4096);
}

/* The store that lets go of the lock faults, once. */
static struct {
	uint32_t *lock;
	unsigned queued, faults;
} unlocking;

static void at_unlock(int signal)
{
	unlocking.faults++;
	unlocking.queued = sleepers_on(ident);
	mprotect(unlocking.lock, 4096, PROT_READ | PROT_WRITE);
}

static void rule_6_in_the_queue_at_the_store_to_the_lock(void **state)
{
	struct sigaction action = {.sa_handler = at_unlock}, old;
	int abort = 1;

	if (UNIT_SANITIZED || unit_emulated())
		skip();
	memset(&unlocking, 0, sizeof(unlocking));
	unlocking.lock = (uint32_t *)unreadable();
	mprotect(unlocking.lock, 4096, PROT_READ | PROT_WRITE);
	*unlocking.lock = 1;
	mprotect(unlocking.lock, 4096, PROT_READ);
	sigaction(SIGSEGV, &action, &old);
	assert_int_equal(near_thrsleep(ident, 0, NULL, unlocking.lock, &abort), EINTR);
	sigaction(SIGSEGV, &old, NULL);
	assert_int_equal(unlocking.faults, 1);
	assert_int_equal(unlocking.queued, 1);
	assert_int_equal(*unlocking.lock, NEAR_THR_UNLOCKED);
	munmap(unlocking.lock, 4096);
}

static void rule_7_abort_is_read_after_the_unlock(void **state)
{
	if (UNIT_SANITIZED || unit_emulated())
		skip();
	sleep_with_fault(false);
	assert_int_equal(fault.seen_lock, NEAR_THR_UNLOCKED);
	assert_int_equal(fault.queued, 1);
	assert_int_equal(sleepers_on(ident), 0);
}

/* Nobody is there to have it. */
static void rule_7_an_aborted_sleeper_passes_its_wake_up_on(void **state)
{
	if (UNIT_SANITIZED || unit_emulated())
		skip();
	sleep_with_fault(true);
	assert_int_equal(fault.woke, 0);
	assert_int_equal(sleepers_on(ident), 0);
}

static void wait_for_sleepers(unsigned n)
{
	while (sleepers_on(ident) != n)
		sched_yield();
}

static void *sleep_second(void *arg)
{
	wait_for_sleepers(1);
	return sleep_there(arg);
}

static void *sleep_third(void *arg)
{
	wait_for_sleepers(2);
	return sleep_there(arg);
}

static void at_abort_with_three(int signal)
{
	wait_for_sleepers(3);
	at_abort(signal);
}

/* And nobody else. */
static void rule_7_the_next_sleeper_gets_it(void **state)
{
	struct sigaction action = {.sa_handler = at_abort_with_three}, old;
	struct sleeper next = {.ident = ident, .lock = 1}, last = next;

	if (UNIT_SANITIZED || unit_emulated())
		skip();
	memset(&fault, 0, sizeof(fault));
	fault.abort = unreadable();
	fault.lock = 1;
	fault.wake = true;
	sigaction(SIGSEGV, &action, &old);
	next.thread = unit_start(sleep_second, &next);
	last.thread = unit_start(sleep_third, &last);
	assert_int_equal(near_thrsleep(ident, 0, NULL, &fault.lock, fault.abort), EINTR);
	sigaction(SIGSEGV, &old, NULL);
	assert_int_equal(fault.queued, 3);
	assert_int_equal(fault.woke, 0);
	expect(&next, 0);
	assert_int_equal(sleepers_on(ident), 1);
	assert_int_equal(near_thrwakeup(ident, 1), 0);
	expect(&last, 0);
	munmap(fault.abort, 4096);
}

static int signals;

static void note_signal(int signal)
{
	__atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
}

static void catch_signals(int flags)
{
	struct sigaction action = {.sa_handler = note_signal, .sa_flags = flags};

	sigaction(SIGUSR1, &action, NULL);
}

static void rule_8_woken_timed_out_interrupted(void **state)
{
	struct timespec soon = in_ms(CLOCK_MONOTONIC, 20), now;
	struct sleeper s = {.ident = ident};
	int no_abort = 0;
	uint32_t lock = 1;

	assert_int_equal(near_thrsleep(ident, CLOCK_MONOTONIC, &soon, &lock, &no_abort),
			 EWOULDBLOCK);
	clock_gettime(CLOCK_MONOTONIC, &now);
	assert_true(now.tv_sec > soon.tv_sec ||
		    (now.tv_sec == soon.tv_sec && now.tv_nsec >= soon.tv_nsec));
	s.abort = &no_abort;
	start_sleeper(&s);
	assert_int_equal(near_thrwakeup(ident, 1), 0);
	expect(&s, 0);
	if (UNIT_THREAD_SANITIZER)
		skip();
	catch_signals(0);
	start_sleeper(&s);
	while (sleepers_on(ident)) {
		pthread_kill(s.thread, SIGUSR1);
		usleep(1000);
	}
	expect(&s, EINTR);
}

/* Takes the sleeper when its time is over, before it can leave: it has to go by the lock that is
 * held here. False: it left before that. */
static bool take_late(long ms)
{
	struct timespec soon = in_ms(CLOCK_MONOTONIC, ms);
	struct sleeper s = {.ident = ident, .clock = CLOCK_MONOTONIC, .deadline = &soon, .lock = 1};
	struct near__bucket *b;
	struct near__waiter *w;

	s.thread = unit_start(sleep_there, &s);
	while (__atomic_load_n(&s.lock, __ATOMIC_ACQUIRE))
		sched_yield();
	b = near__lot_lock(ident);
	w = near__lot_first(b, ident, NEAR__SPACE_THR);
	usleep(2000 * (useconds_t)ms);
	if (w)
		near__lot_take(b, w);
	near__lot_unlock(b);
	if (w)
		near__lot_wake(w);
	expect(&s, w ? 0 : EWOULDBLOCK);
	return w;
}

static void rule_8_taken_first_is_woken(void **state)
{
	long ms = 10;

	while (!take_late(ms))
		ms *= 2;
}

/* A stated deviation: where OpenBSD returns ECANCELED, the wait goes on. */
static void deviation_a_restarting_signal_ends_nothing(void **state)
{
	struct sleeper s = {.ident = ident};

	if (UNIT_THREAD_SANITIZER)
		skip();
	catch_signals(SA_RESTART);
	start_sleeper(&s);
	for (int before = signals; signals < before + 5; usleep(1000))
		pthread_kill(s.thread, SIGUSR1);
	assert_int_equal(sleepers_on(ident), 1);
	assert_int_equal(near_thrwakeup(ident, 1), 0);
	expect(&s, 0);
}

/* Another stated one: EFAULT is for a kernel to return. */
static void read_bad_deadline(void *unused)
{
	struct timespec *bad = (struct timespec *)unreadable();

	near_thrsleep(ident, CLOCK_MONOTONIC, bad, NULL, NULL);
}

static void deviation_a_bad_pointer_faults(void **state)
{
	char text[4096];
	int signal = 0;

	if (UNIT_SANITIZED || unit_emulated())
		skip();
	assert_int_equal(unit_capture(read_bad_deadline, NULL, text, sizeof(text), &signal), -1);
	assert_int_equal(signal, SIGSEGV);
}

/* ---- wakeup ---- */

static struct near__bucket *bucket_of(const void *id)
{
	struct near__bucket *b = near__lot_lock(id);

	near__lot_unlock(b);
	return b;
}

/* Another ident whose sleepers stand in the same queue. */
static const void *neighbour(void)
{
	static char many[1 << 16];
	size_t i = 0;

	while (bucket_of(&many[i]) != bucket_of(ident))
		assert_true(++i < sizeof(many));
	return &many[i];
}

static void wakes_n_or_all_of_one_ident(void **state)
{
	static const int all[] = {0, -1, INT32_MIN, 100};
	struct sleeper s[4], other = {.ident = neighbour()};

	assert_int_equal(near_thrwakeup(ident, 1), ESRCH);
	assert_int_equal(near_thrwakeup(ident, 0), ESRCH);
	start_sleeper(&other);
	for (size_t i = 0; i < LENGTH(all); i++) {
		for (unsigned n = 0; n < 4; n++) {
			s[n] = (struct sleeper){.ident = ident};
			start_sleeper(&s[n]);
		}
		assert_int_equal(near_thrwakeup(ident, 2), 0);
		expect(&s[0], 0);
		expect(&s[1], 0);
		assert_int_equal(sleepers_on(ident), 2);
		assert_int_equal(near_thrwakeup(ident, all[i]), 0);
		expect(&s[2], 0);
		expect(&s[3], 0);
		assert_int_equal(near_thrwakeup(ident, all[i]), ESRCH);
	}
	assert_int_equal(near_thrwakeup(other.ident, 1), 0);
	expect(&other, 0);
}

static void wake_parents_sleeper(void *unused)
{
	CHECK(near_thrwakeup(ident, 0) == ESRCH);
}

static void an_ident_is_of_one_process(void **state)
{
	struct sleeper s = {.ident = ident};

	start_sleeper(&s);
	unit_in_child(wake_parents_sleeper, NULL);
	/* Nor does near_unpark find it, at the same address. */
	assert_int_equal(near_unpark(ident, 1, 0), 0);
	assert_int_equal(near_thrwakeup(ident, 1), 0);
	expect(&s, 0);
}

/* ---- ident -1 ---- */

#define EVERYBODY ((const void *)-1)

struct page {
	struct near_thr_region region;
	uint32_t lock[2];
	int abort;
};

static struct page *map_page(void)
{
	struct page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(page != MAP_FAILED);
	page->lock[0] = page->lock[1] = 1;
	return page;
}

static void sleep_attached(void *arg)
{
	struct page *page = arg;

	near_thr_attach(&page->region);
	CHECK(near_thrsleep(EVERYBODY, 0, NULL, &page->lock[0], &page->abort) == 0);
	page->abort = 1;
	CHECK(near_thrsleep(EVERYBODY, 0, NULL, NULL, &page->abort) == EINTR);
}

static void sleep_alone(void *arg)
{
	struct page *page = arg;
	struct timespec soon = in_ms(CLOCK_MONOTONIC, 50);

	CHECK(near_thrsleep(EVERYBODY, CLOCK_MONOTONIC, &soon, &page->lock[1], NULL) ==
	      EWOULDBLOCK);
}

static void wait_unlocked(uint32_t *lock)
{
	while (__atomic_load_n(lock, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void ident_minus_1_spans_those_attached(void **state)
{
	struct page *page = map_page();
	pid_t attached = unit_fork(sleep_attached, page), alone = unit_fork(sleep_alone, page);

	near_thr_attach(&page->region);
	wait_unlocked(&page->lock[0]);
	wait_unlocked(&page->lock[1]);
	assert_int_equal(near_thrwakeup(EVERYBODY, 1), 0);
	assert_int_equal(unit_wait(attached, NULL), 0);
	assert_int_equal(unit_wait(alone, NULL), 0);
	assert_int_equal(near_thrwakeup(EVERYBODY, 1), 0); /* nobody is there: 0 all the same */
	near_thr_attach(NULL);
	munmap(page, sizeof(*page));
}

static void *sleep_for_everybody(void *arg)
{
	struct sleeper *s = arg;

	s->ident = EVERYBODY;
	return sleep_there(s);
}

static void ident_minus_1_wakes_all(void **state)
{
	struct sleeper s[3];

	for (unsigned i = 0; i < 3; i++) {
		s[i] = (struct sleeper){.lock = 1};
		s[i].thread = unit_start(sleep_for_everybody, &s[i]);
		wait_unlocked(&s[i].lock);
	}
	assert_int_equal(near_thrwakeup(EVERYBODY, 1), 0);
	for (unsigned i = 0; i < 3; i++)
		expect(&s[i], 0);
}

static void wake_everybody(int signal)
{
	near_thrwakeup(EVERYBODY, 1);
}

/* The wake-up comes first, the end of the system call by the signal after it. */
static void ident_minus_1_woken_in_spite_of_a_signal(void **state)
{
	struct sigaction action = {.sa_handler = wake_everybody};
	struct sleeper s = {.lock = 1};

	if (UNIT_THREAD_SANITIZER)
		skip();
	sigaction(SIGUSR1, &action, NULL);
	s.thread = unit_start(sleep_for_everybody, &s);
	wait_unlocked(&s.lock);
	usleep(5000);
	pthread_kill(s.thread, SIGUSR1);
	expect(&s, 0);
}

UNIT_MAIN(rule_1_a_deadline_that_is_no_time, rule_2_ident_0, rule_3_an_unknown_clock,
	  rule_4_a_past_deadline_comes_before_abort, rule_5_the_wait_is_relative,
	  rule_5_huge_deadlines_are_clamped, rule_6_queued_before_the_lock_is_let_go,
	  rule_6_first_in_first_out, rule_6_in_the_queue_at_the_store_to_the_lock,
	  rule_7_abort_is_read_after_the_unlock, rule_7_an_aborted_sleeper_passes_its_wake_up_on,
	  rule_7_the_next_sleeper_gets_it, rule_8_woken_timed_out_interrupted,
	  rule_8_taken_first_is_woken, deviation_a_restarting_signal_ends_nothing,
	  deviation_a_bad_pointer_faults, wakes_n_or_all_of_one_ident, an_ident_is_of_one_process,
	  ident_minus_1_spans_those_attached, ident_minus_1_wakes_all,
	  ident_minus_1_woken_in_spite_of_a_signal)
