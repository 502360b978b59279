/* SPDX-License-Identifier: MIT */
/* near_thrwakeup; ident -1, which several processes share; where near_thrsleep deviates from
 * OpenBSD's. */
#include "thr_sleepers.h"

/* ---- wakeup ---- */

static struct near__bucket *bucket_of(const void *id)
{
	struct near__bucket *b = near__lot_lock(id);

	near__lot_unlock(b);
	return b;
}

/* Another ident whose sleepers are in the same queue. */
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

#define ALL_PROCESSES ((const void *)-1)

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
	CHECK(near_thrsleep(ALL_PROCESSES, 0, NULL, &page->lock[0], &page->abort) == 0);
	page->abort = 1;
	CHECK(near_thrsleep(ALL_PROCESSES, 0, NULL, NULL, &page->abort) == EINTR);
}

static void sleep_alone(void *arg)
{
	struct page *page = arg;
	struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, 50);

	CHECK(near_thrsleep(ALL_PROCESSES, CLOCK_MONOTONIC, &soon, &page->lock[1], NULL) ==
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
	assert_int_equal(near_thrwakeup(ALL_PROCESSES, 1), 0);
	assert_int_equal(unit_wait(attached, NULL), 0);
	assert_int_equal(unit_wait(alone, NULL), 0);
	assert_int_equal(near_thrwakeup(ALL_PROCESSES, 1),
			 0); /* no thread sleeps: 0 nevertheless */
	near_thr_attach(NULL);
	munmap(page, sizeof(*page));
}

static void *sleep_for_all(void *arg)
{
	struct sleeper *s = arg;

	s->ident = ALL_PROCESSES;
	return sleep_there(s);
}

static void ident_minus_1_wakes_all(void **state)
{
	struct sleeper s[3];

	for (unsigned i = 0; i < 3; i++) {
		s[i] = (struct sleeper){.lock = 1};
		s[i].thread = unit_start(sleep_for_all, &s[i]);
		wait_unlocked(&s[i].lock);
	}
	assert_int_equal(near_thrwakeup(ALL_PROCESSES, 1), 0);
	for (unsigned i = 0; i < 3; i++)
		expect(&s[i], 0);
}

static void wake_all(int signal)
{
	near_thrwakeup(ALL_PROCESSES, 1);
}

/* The wake-up comes first, the end of the system call by the signal after it. */
static void ident_minus_1_woken_in_spite_of_a_signal(void **state)
{
	struct sigaction action = {.sa_handler = wake_all};
	struct sleeper s = {.lock = 1};

	if (UNIT_THREAD_SANITIZER)
		skip();
	sigaction(SIGUSR1, &action, NULL);
	s.thread = unit_start(sleep_for_all, &s);
	wait_unlocked(&s.lock);
	usleep(5000);
	pthread_kill(s.thread, SIGUSR1);
	expect(&s, 0);
}

/* ---- deviations ---- */

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

UNIT_MAIN(deviation_a_restarting_signal_ends_nothing, deviation_a_bad_pointer_faults,
	  wakes_n_or_all_of_one_ident, an_ident_is_of_one_process,
	  ident_minus_1_spans_those_attached, ident_minus_1_wakes_all,
	  ident_minus_1_woken_in_spite_of_a_signal)
