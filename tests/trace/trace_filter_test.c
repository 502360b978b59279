/* SPDX-License-Identifier: MIT */
/* near_trace: conditions on fields of all types, and what happens while they change. */
#include "traces.h"

enum color { RED, BLUE = 7 };

NEAR_TRACEPOINT(test, one, NEAR_TRACE_INFO, (u64, size));
NEAR_TRACEPOINT(test, many, NEAR_TRACE_INFO, (u8, a), (i16, b), (f32, c), (u64, d), (i8, e));
NEAR_TRACEPOINT(test, text, NEAR_TRACE_INFO, (i32, n), (string, s), (f64, x),
		(enum, color, color, RED, BLUE), (u16, h));

#define START(...) traces_start((struct near_trace_options){__VA_ARGS__})

static void ignore(const struct trace_record *r, void *arg)
{
}

static uint64_t events_of(struct trace_file f)
{
	uint64_t n = traces_read(&f, ignore, NULL);

	assert_int_equal(traces_discarded(&f), 0);
	traces_close(&f);
	return n;
}

static void trace_all(void)
{
	for (int i = 0; i < 100; i++) {
		near_trace_test_one((uint64_t)i);
		near_trace_test_many((uint8_t)i, (int16_t)-i, (float)i / 2,
				     ((uint64_t)1 << 40) + (uint64_t)i, (int8_t)(i - 100));
		near_trace_test_text(i - 50, "some text", i * .5, i % 2 ? RED : BLUE,
				     (uint16_t)(i * 100));
	}
}

static void conditions_choose(void **state)
{
	static const struct {
		const char *text;
		int points;
		uint64_t events;
	} cases[] = {
		{"size>90", 1, 9},      {" size <= 9 ", 1, 10},
		{"size == 0x10", 1, 1}, {"size!=5", 1, 99},
		{"size>=100", 1, 0},    {"a>=98", 1, 2},
		{"b<-97", 1, 2},        {"c>49", 1, 1},
		{"c!=1.5", 1, 99},      {"d<1099511627781", 1, 5},
		{"e<=-99", 1, 2},       {"n>=0", 1, 50},
		{"x<=0.5", 1, 2},       {"color==BLUE", 1, 50},
		{"color!=7", 1, 50},    {"color == RED", 1, 50},
		{"h>9850", 1, 1},       {"none>1", 0, 0},
		{"s==1", 0, 0},         {"size==-1", 0, 0},
		{"size==1x", 0, 0},     {"color==GREEN", 0, 0},
		{"no>0", 0, 0},         {"b==99999999999999999999", 0, 0},
	};

	for (unsigned i = 0; i < LENGTH(cases); i++)
		for (enum near_trace_clock clock = NEAR_TRACE_MONOTONIC;;
		     clock = NEAR_TRACE_NO_CLOCK) {
			START(.enable = "none", .clock = i % 2 ? (enum near_trace_clock)0 : clock);
			assert_int_equal(near_trace_enable_if("test:*", 0, cases[i].text),
					 cases[i].points);
			trace_all();
			assert_int_equal(events_of(traces_stop()), cases[i].events);
			if (i % 2 || clock == NEAR_TRACE_NO_CLOCK)
				break;
		}
}

static void other_texts_are_refused(void **state)
{
	static const char *const texts[] = {"",         "size",    "size>",  ">4", "size=4",
					    "size>1 2", "size=>4", "size 4", " "};
	char text[120];

	START(.enable = "none");
	for (unsigned i = 0; i < LENGTH(texts); i++) {
		KEEPS_ERRNO(CHECK(near_trace_enable_if("*", 0, texts[i]) == -EINVAL));
		assert_non_null(near_trace_error());
	}
	snprintf(text, sizeof(text), "size>%0100d", 1);
	assert_int_equal(near_trace_enable_if("*", 0, text), -EINVAL);
	assert_int_equal(near_trace_enable_if("test:*", 9, "size>1"), -EINVAL);
	trace_all();
	assert_int_equal(events_of(traces_stop()), 0);
}

/* The last pattern that matches decides; one with a condition matches only what has the field. */
static void conditions_and_patterns(void **state)
{
	START(0);
	assert_int_equal(near_trace_enable_if("*", 0, "size>97"), 1);
	trace_all();
	assert_int_equal(near_trace_enable_if("*", NEAR_TRACE_ERROR, "x>1"), 1);
	trace_all();
	assert_int_equal(near_trace_enable("test:one", 0), 1);
	trace_all();
	assert_int_equal(events_of(traces_stop()), 202 + 102 + 200);
}

/* As often as the program likes; other patterns than the last 32 are too many. */
static void tracepoints_are_switched_many_times(void **state)
{
	char pattern[20];

	START(.enable = "none");
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(near_trace_enable("test:one", 0), 1);
		assert_int_equal(near_trace_disable("test:one"), 1);
		assert_int_equal(near_trace_enable_if("test:one", 0, "size>97"), 1);
		assert_int_equal(near_trace_enable_if("test:*", 0, "size<5"), 1);
	}
	trace_all();
	assert_int_equal(near_trace_disable("test:*"), 3);
	for (int i = 0; i < 40; i++) {
		snprintf(pattern, sizeof(pattern), "other:%d", i);
		assert_int_equal(near_trace_enable(pattern, 0), i < 28 ? 0 : -E2BIG);
	}
	trace_all();
	assert_int_equal(events_of(traces_stop()), 5);
}

/* All records of a chain, or none. */
static void long_payloads(void **state)
{
	char text[1000];

	memset(text, 'x', sizeof(text));
	text[999] = 0;
	START(.enable = "none");
	near_trace_enable_if("*", 0, "h==3");
	for (uint16_t i = 0; i < 5; i++)
		near_trace_test_text(1, text, 2, RED, i);
	assert_int_equal(events_of(traces_stop()), 5);
}

static void children_have_the_condition(void **state)
{
	START(0);
	near_trace_enable_if("*", 0, "size>97");
	IN_CHILD() {
		trace_all();
		CHECK(events_of(traces_stop()) == 202);
	}
}

/* ---- changes ---- */

static bool ends;
static uint64_t traced;

static void trace_one(int signal)
{
	near_trace_test_one(5);
	traced++;
}

static void *trace_until_end(void *unused)
{
	uint64_t n = 0;

	for (; !__atomic_load_n(&ends, __ATOMIC_RELAXED) && n < 100000; n++)
		near_trace_test_one(5);
	return (void *)(uintptr_t)n;
}

/* What passes the condition before and after a change is recorded during it, also in a handler that
 * interrupts the change. */
static void no_event_is_lost_by_a_change(void **state)
{
	sigset_t alarm;
	pthread_t thread;
	void *n;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	ends = false;
	traced = 0;
	START(.ring_size = 4 << 20);
	near_trace_enable_if("*", 0, "size==5");
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	thread = unit_start(trace_until_end, NULL);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	unit_timer(100, trace_one);
	for (unsigned i = 0; i < 28; i++) {
		near_trace_enable_if("*", 0, i % 2 ? "size>=5" : "size<6");
		usleep(100);
	}
	__atomic_store_n(&ends, true, __ATOMIC_RELAXED);
	unit_timer(0, NULL);
	pthread_join(thread, &n);
	assert_int_equal(events_of(traces_stop()), traced + (uintptr_t)n);
}

int main(void)
{
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		conditions_choose, other_texts_are_refused, conditions_and_patterns,
		tracepoints_are_switched_many_times, long_payloads, children_have_the_condition,
		no_event_is_lost_by_a_change);
}
