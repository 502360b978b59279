/* SPDX-License-Identifier: MIT */
/* near_trace: events of all sizes, start and stop, modes, clocks, errors. */
#include <nearcpu/mutex.h>
#include <nearcpu/rcu.h>

#include "traces.h"

#define START(...) traces_start((struct near_trace_options){__VA_ARGS__})

NEAR_TRACEPOINT(test, tick, NEAR_TRACE_INFO);
NEAR_TRACEPOINT(test, number, NEAR_TRACE_INFO, (u64, value));
NEAR_TRACEPOINT(test, detail, NEAR_TRACE_DEBUG, (u32, value));
NEAR_TRACEPOINT(test, verbose, NEAR_TRACE_VERBOSE, (u32, value));
NEAR_TRACEPOINT(other, number, NEAR_TRACE_ERROR, (u32, value));

struct seen {
	uint64_t n, sum, next;
	bool in_order;
	unsigned rings;
};

static void see(const struct trace_record *r, void *arg)
{
	struct seen *s = arg;
	uint64_t value;

	memcpy(&value, r->payload, sizeof(value));
	s->in_order = s->in_order && value >= s->next;
	s->next = value + 1;
	s->sum += value;
	s->n++;
}

static struct seen all_of(const struct trace_file *f)
{
	struct seen s = {.in_order = true};

	traces_read(f, see, &s);
	return s;
}

static void numbers(uint64_t from, uint64_t n)
{
	for (uint64_t i = from; i < from + n; i++)
		near_trace_test_number(i);
}

/* ---- events ---- */

static void events_are_in_the_file(void **state)
{
	struct trace_file f;
	struct seen s;

	near_trace_test_number(7);
	START(0);
	numbers(0, 1000);
	f = traces_stop();
	near_trace_test_number(7);
	s = all_of(&f);
	assert_int_equal(s.n, 1000);
	assert_int_equal(s.sum, 999 * 500);
	assert_int_equal(traces_discarded(&f), 0);
	assert_int_equal(f.session->ended, 1);
	assert_int_equal(f.session->pid, getpid());
	traces_close(&f);
}

static void the_newest_events_stay(void **state)
{
	struct trace_file f;
	struct seen s;

	START(.ring_size = 256 << 10);
	numbers(0, 100000);
	f = traces_stop();
	s = all_of(&f);
	assert_true(s.n >= 3 * 65536 / 24 - 10 && s.n <= 4 * 65536 / 24 * traces_rings(&f));
	if (traces_rings(&f) == 1) {
		assert_true(s.in_order);
		assert_int_equal(s.next, 100000);
	}
	assert_int_equal(traces_discarded(&f), 0);
	traces_close(&f);
}

static void the_oldest_events_stay(void **state)
{
	struct near_trace_stats stats;
	struct trace_file f;
	struct seen s;

	START(.ring_size = 256 << 10, .mode = NEAR_TRACE_STOP_WHEN_FULL);
	numbers(0, 20000);
	assert_int_equal(near_trace_stats(&stats, sizeof(stats)), 0);
	f = traces_stop();
	s = all_of(&f);
	assert_int_equal(s.n + traces_discarded(&f), 20000);
	assert_int_equal(stats.discarded, traces_discarded(&f));
	assert_int_equal(stats.rings, traces_rings(&f));
	if (traces_rings(&f) == 1) {
		assert_int_equal(s.next, s.n);
		assert_int_equal(s.n, 4 * (65535 / 24));
	}
	traces_close(&f);
}

static void sessions_follow_each_other(void **state)
{
	for (unsigned i = 0; i < 8; i++) {
		struct trace_file f;

		START(.clock = (enum near_trace_clock)(i % 2 ? NEAR_TRACE_MONOTONIC : 0));
		numbers(0, i);
		f = traces_stop();
		assert_int_equal(all_of(&f).n, i);
		assert_int_equal(f.session->number, f.session->number);
		traces_close(&f);
	}
	assert_int_equal(traces_files(), 8);
}

/* Unmapped rings would fault. */
static bool done;

static void *trace_until_done(void *arg)
{
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
		numbers(1, 100);
		near_trace_test_tick();
	}
	return NULL;
}

static void sessions_end_while_threads_trace(void **state)
{
	static const enum near_trace_clock clocks[] = {(enum near_trace_clock)0,
						       NEAR_TRACE_MONOTONIC, NEAR_TRACE_NO_CLOCK};
	pthread_t threads[3];

	done = false;
	for (unsigned i = 0; i < LENGTH(threads); i++)
		threads[i] = unit_start(trace_until_done, NULL);
	for (unsigned i = 0; i < unit_scale(60); i++) {
		char path[400];

		START(.ring_size = 256 << 10, .clock = clocks[i % LENGTH(clocks)]);
		snprintf(path, sizeof(path), "%s", near_trace_path());
		usleep(300);
		assert_int_equal(near_trace_stop(), 0);
		unlink(path);
	}
	__atomic_store_n(&done, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < LENGTH(threads); i++)
		unit_join(threads[i]);
}

/* ---- rings ---- */

static void *trace_some(void *arg)
{
	for (unsigned i = 0; i < 50; i++) {
		numbers(1, 20);
		sched_yield();
	}
	return NULL;
}

/* No more than concurrency ids: those of the threads of the process. */
static void rings_follow_the_concurrency(void **state)
{
	struct near_rseq_status status;
	struct trace_file f;
	unsigned rings = 0;
	char threads[4];

	near_rseq_status(&status, sizeof(status));
	START(0);
	unit_run(trace_some, threads, 1, LENGTH(threads));
	f = traces_stop();
	for (unsigned i = 0; i < f.session->slots; i++)
		rings += traces_ring(&f, i) != NULL;
	print_message("4 threads, %u possible CPUs, %u slots: rings of %u slots\n", near_cpus(),
		      f.session->slots, rings);
	if (status.slot_kind == NEAR_SLOT_CID)
		assert_in_range(rings, 0, LENGTH(threads) + 2);
	traces_close(&f);
}

/* ---- clocks ---- */

static uint64_t own_time;

static uint64_t own_clock(void)
{
	return __atomic_add_fetch(&own_time, 2, __ATOMIC_RELAXED);
}

static void first_time(const struct trace_record *r, void *time)
{
	if (!*(uint64_t *)time)
		*(uint64_t *)time = r->time;
}

static void times_are_those_of_the_clock(void **state)
{
	static const enum near_trace_clock clocks[] = {NEAR_TRACE_COUNTER, NEAR_TRACE_MONOTONIC,
						       NEAR_TRACE_OWN, NEAR_TRACE_NO_CLOCK};

	for (unsigned i = near_clock() ? 0 : 1; i < LENGTH(clocks); i++) {
		struct near__trace_moment last;
		struct trace_file f;
		uint64_t time = 0;

		START(.clock = clocks[i], .now = own_clock);
		numbers(0, 1);
		f = traces_stop();
		assert_int_equal(traces_read(&f, first_time, &time), 1);
		last = f.session->latest[f.session->latest_count % 2];
		if (clocks[i] == NEAR_TRACE_COUNTER)
			assert_true(time >= f.session->begin.counter && time <= last.counter);
		if (clocks[i] == NEAR_TRACE_MONOTONIC)
			assert_true(time >= f.session->begin.monotonic_ns &&
				    time <= last.monotonic_ns);
		if (clocks[i] == NEAR_TRACE_OWN)
			assert_true(time && time <= own_time);
		if (clocks[i] == NEAR_TRACE_NO_CLOCK)
			assert_int_equal(time, 0);
		assert_true(last.realtime_ns >= f.session->begin.realtime_ns);
		traces_close(&f);
	}
}

/* ---- patterns ---- */

static uint64_t events_with(const char *enable, int level)
{
	struct trace_file f;
	uint64_t n;

	START(.enable = enable, .level = level);
	near_trace_test_tick();
	near_trace_test_number(1);
	near_trace_test_detail(1);
	near_trace_test_verbose(1);
	near_trace_other_number(1);
	f = traces_stop();
	n = all_of(&f).n;
	traces_close(&f);
	return n;
}

static void patterns_and_levels_choose(void **state)
{
	assert_int_equal(events_with(NULL, 0), 4);
	assert_int_equal(events_with("*", NEAR_TRACE_VERBOSE), 5);
	assert_int_equal(events_with("test:*", 0), 3);
	assert_int_equal(events_with("test:*", NEAR_TRACE_INFO), 2);
	assert_int_equal(events_with("*:number", 0), 2);
	assert_int_equal(events_with("test:tick,other:number", 0), 2);
	assert_int_equal(events_with("none", 0), 0);
}

static void tracepoints_are_switched_while_it_runs(void **state)
{
	struct trace_file f;

	START(.enable = "none");
	numbers(0, 1);
	assert_int_equal(near_trace_enable("test:num*", 0), 1);
	numbers(10, 1);
	assert_int_equal(near_trace_disable("*:number"), 2);
	numbers(100, 1);
	f = traces_stop();
	assert_int_equal(all_of(&f).sum, 10);
	traces_close(&f);
	assert_int_equal(near_trace_enable("test:*", 0), 4);
	assert_false(near__trace_point_test_number.enabled);
}

/* ---- the library's own ---- */

static void count_names(const struct trace_record *r, void *arg)
{
	++((unsigned *)arg)[r->id];
}

static unsigned times_seen(const struct trace_file *f, const unsigned *counts, const char *name)
{
	unsigned n = 0;

	for (unsigned id = 1; id < 100; id++)
		if (traces_name(f, id) && strcmp(traces_name(f, id), name) == 0)
			n += counts[id];
	return n;
}

static struct near_mutex mutex;

static void *lock_it(void *arg)
{
	near_mutex_lock(&mutex);
	near_mutex_unlock(&mutex);
	return NULL;
}

static void the_library_has_tracepoints(void **state)
{
	unsigned counts[65536] = {0};
	struct trace_file f;
	struct near_rcu rcu;
	pthread_t thread;

	assert_int_equal(near_rcu_init(&rcu, NULL), 0);
	START(.enable = "near_*", .level = NEAR_TRACE_VERBOSE);
	near_rcu_synchronize(&rcu);
	near_mutex_lock(&mutex);
	thread = unit_start(lock_it, NULL);
	usleep(20000);
	near_mutex_unlock(&mutex);
	unit_join(thread);
	f = traces_stop();
	near_rcu_synchronize(&rcu);
	near_rcu_destroy(&rcu);
	traces_read(&f, count_names, counts);
	assert_int_equal(times_seen(&f, counts, "near_rcu:begin"), 1);
	assert_int_equal(times_seen(&f, counts, "near_rcu:end"), 1);
	assert_int_equal(times_seen(&f, counts, "near_mutex:wait"), 1);
	assert_int_equal(times_seen(&f, counts, "near_mutex:locked"), 1);
	assert_int_equal(times_seen(&f, counts, "near_park:sleep"),
			 times_seen(&f, counts, "near_park:woken"));
	traces_close(&f);
}

/* ---- errors ---- */

static void bad_options_are_refused(void **state)
{
	static const struct near_trace_options bad[] = {
		{.ring_size = 128 << 10},
		{.ring_size = 300 << 10},
		{.max_bytes = 4096},
		{.mode = NEAR_TRACE_STREAM, .file_size = (uint64_t)1 << 39},
		{.file_size = UINT64_MAX},
		{.mode = 7},
		{.clock = NEAR_TRACE_OWN},
		{.clock = 9},
		{.level = 99},
		{.enable = ""},
		{.path = "/none/x"},
		{.path = "/proc/x"},
		{.path = "/dev/null/x"},
		{.enable = "a,,b"},
	};

	for (unsigned i = 0; i < LENGTH(bad); i++) {
		KEEPS_ERRNO(CHECK(near_trace_start(&bad[i]) < 0));
		assert_non_null(near_trace_error());
		assert_int_equal(near_trace_stop(), -ENOENT);
		assert_null(near_trace_path());
	}
}

static void there_is_one_session(void **state)
{
	struct near_trace_stats stats;
	struct near_trace_options o = {.path = traces_folder};
	char path[400];

	assert_int_equal(near_trace_stats(&stats, sizeof(stats)), -ENOENT);
	START(0);
	assert_int_equal(near_trace_start(&o), -EALREADY);
	snprintf(path, sizeof(path), "%s", near_trace_path());
	assert_int_equal(near_trace_stats(&stats, 0), -EINVAL);
	assert_int_equal(near_trace_stop(), 0);
	assert_int_equal(near_trace_stop(), -ENOENT);
	o.path = path;
	assert_int_equal(near_trace_start(&o), -EEXIST);
}

int main(void)
{
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		events_are_in_the_file, the_newest_events_stay, the_oldest_events_stay,
		sessions_follow_each_other, sessions_end_while_threads_trace,
		rings_follow_the_concurrency, times_are_those_of_the_clock,
		patterns_and_levels_choose, tracepoints_are_switched_while_it_runs,
		the_library_has_tracepoints, bad_options_are_refused, there_is_one_session);
}
