/* SPDX-License-Identifier: MIT */
/* near_thrwakeup; ident -1, which several processes share; where near_thrsleep deviates from
 * OpenBSD's. */
#include "thr_sleepers.h"

/* ---- wakeup ---- */

/* Another ident whose sleepers are in the same queue. */
static const void *neighbour(void)
{
	static char many[1 << 16];
	size_t i = 0;

	while (near__lot_bucket(&many[i]) != near__lot_bucket(ident))
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
		start_sleepers(s, 4, ident);
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

static void an_ident_is_of_one_process(void **state)
{
	struct sleeper s = {.ident = ident};

	start_sleeper(&s);
	IN_CHILD()
		CHECK(near_thrwakeup(ident, 0) == ESRCH);
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

/* It cannot be counted, as it is in no queue of this process. */
static void start_for_all(struct sleeper *s)
{
	*s = (struct sleeper){.ident = ALL_PROCESSES, .lock = 1};
	s->thread = unit_start(sleep_there, s);
	wait_unlocked(&s->lock);
}

static void ident_minus_1_wakes_all(void **state)
{
	struct sleeper s[3];

	for (unsigned i = 0; i < 3; i++)
		start_for_all(&s[i]);
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
	struct sleeper s;

	if (UNIT_THREAD_SANITIZER)
		skip();
	on_signal(SIGUSR1, wake_all, 0);
	start_for_all(&s);
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
	signal_often(s.thread, 5);
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
