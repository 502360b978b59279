/* SPDX-License-Identifier: MIT */
/* How long a futex wait takes, by the clock, and what ends it. Where long has 32 bits and time_t
 * 64, a wait of less than a second once took no time. */
#include "base/futex.h"
#include "unit.h"

#define MS INT64_C(1000000)
#define LONG_NS (60000 * MS)

static uint32_t word;

static int64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* A wait may take longer than its time, and not less. */
static void a_wait_takes_its_time(void **state)
{
	static const int64_t times[] = {250 * MS, 1 * MS, 1100 * MS};

	for (unsigned i = 0; i < sizeof(times) / sizeof(*times); i++) {
		int64_t began = now(CLOCK_MONOTONIC);

		errno = EPERM;
		assert_int_equal(near__futex_sleep(&word, 0, times[i], i & 1), -ETIMEDOUT);
		assert_true(now(CLOCK_MONOTONIC) - began >= times[i]);
		assert_int_equal(errno, EPERM);
	}
	assert_int_equal(near__futex_sleep(&word, 0, 0, false), -ETIMEDOUT);
}

/* A deadline of either clock; one that has passed. */
static void a_deadline(void **state)
{
	static const struct {
		clockid_t clock;
		int op;
	} clocks[] = {{CLOCK_MONOTONIC, 0}, {CLOCK_REALTIME, NEAR__FUTEX_CLOCK_REALTIME}};

	for (unsigned i = 0; i < 2; i++) {
		int op = NEAR__FUTEX_WAIT_BITSET | NEAR__FUTEX_PRIVATE | clocks[i].op;
		int64_t until = now(clocks[i].clock) + 250 * MS;

		assert_int_equal(near__futex(&word, op, 0, until), -ETIMEDOUT);
		assert_true(now(clocks[i].clock) >= until);
		assert_int_equal(near__futex(&word, op, 0, until), -ETIMEDOUT);
	}
}

static void a_word_that_has_changed(void **state)
{
	assert_int_equal(near__futex_sleep(&word, 1, LONG_NS, false), -EAGAIN);
	assert_int_equal(near__futex_sleep(&word, 1, NEAR__FOREVER, true), -EAGAIN);
	assert_int_equal(near__futex_wake(&word, 1, false), 0);
}

/* ---- sleepers ---- */

struct sleeper {
	pthread_t id;
	uint32_t word;
	int64_t ns;
	bool shared;
	int result;
};

static void *sleep_once(void *arg)
{
	struct sleeper *s = arg;

	__atomic_store_n(&s->result, near__futex_sleep(&s->word, 0, s->ns, s->shared),
			 __ATOMIC_RELAXED);
	return NULL;
}

static void start(struct sleeper *s)
{
	assert_int_equal(pthread_create(&s->id, NULL, sleep_once, s), 0);
}

/* Until the kernel reports that it has woken the sleeper. */
static void a_wake_up(void **state)
{
	static const int64_t times[] = {LONG_NS, NEAR__FOREVER, INT64_MAX - 1};

	for (unsigned i = 0; i < 6; i++) {
		struct sleeper s = {.ns = times[i / 2], .shared = i & 1, .result = 1};

		start(&s);
		UNTIL(near__futex_wake(&s.word, 1, s.shared) == 1);
		pthread_join(s.id, NULL);
		assert_int_equal(s.result, 0);
	}
}

/* FUTEX_OP_SET 1; and further wake-ups if the word was 7. */
static void a_wake_up_that_stores(void **state)
{
	int woken = 0;

	while (!woken) {
		struct sleeper s = {.ns = LONG_NS, .result = 1};

		start(&s);
		near__futex_sleep(&word, 0, MS, false);
		woken = near__futex_wake_op(&s.word, 1, 1 << 12 | 7);
		pthread_join(s.id, NULL);
		assert_int_equal(s.word, 1);
		assert_int_equal(s.result, woken == 1 ? 0 : -EAGAIN);
	}
}

static void ignore(int signal)
{
	(void)signal;
}

static void a_signal(void **state)
{
	struct sigaction by = {.sa_handler = ignore}, old;
	struct sleeper s = {.ns = LONG_NS, .result = 1};

	sigaction(SIGUSR1, &by, &old);
	start(&s);
	while (__atomic_load_n(&s.result, __ATOMIC_RELAXED) == 1) {
		pthread_kill(s.id, SIGUSR1);
		near__futex_sleep(&word, 0, MS, false);
	}
	pthread_join(s.id, NULL);
	assert_int_equal(s.result, -EINTR);
	sigaction(SIGUSR1, &old, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_takes_its_time),   cmocka_unit_test(a_deadline),
		cmocka_unit_test(a_word_that_has_changed), cmocka_unit_test(a_wake_up),
		cmocka_unit_test(a_wake_up_that_stores),   cmocka_unit_test(a_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
