/* SPDX-License-Identifier: MIT */
/* near_trace: children of fork, which have no thread for orders and streams. Their events do what
 * it would do. */
#include "sums.h"

#include <fnmatch.h>
#include <sys/mman.h>
#include <sys/prctl.h>

NEAR_TRACEPOINT(test, number, NEAR_TRACE_INFO, (u64, value));
NEAR_TRACEPOINT(test, text, NEAR_TRACE_INFO, (u64, value), (string, text));
NEAR_TRACEPOINT(test, pair, NEAR_TRACE_VERBOSE, (u64, value), (u64, other));
NEAR_TRACEPOINT(q, a, NEAR_TRACE_INFO);
NEAR_TRACEPOINT(q, ab, NEAR_TRACE_INFO);
NEAR_TRACEPOINT(q, a_b_ab, NEAR_TRACE_INFO);
NEAR_TRACEPOINT(q, A9, NEAR_TRACE_INFO);
NEAR_TRACEPOINT(qq, abab, NEAR_TRACE_INFO);

#define START(...) traces_start((struct near_trace_options){__VA_ARGS__})

/* ---- patterns ---- */

static void patterns_are_those_of_fnmatch(void **state)
{
	static const char *const names[] = {"q:a", "q:ab", "q:a_b_ab", "q:A9", "qq:abab"};
	static const char *const patterns[] = {
		"q*",         "q:*",         "q:?",       "q:a*b",     "q:*a*b",   "q*:*ab",
		"q:[aA]*",    "q:[!a]*",     "q:[a-z]",   "q:[]a]",    "q:[!]b]?", "q:\\a",
		"q:a[_b]*",   "q:a[",        "q:[a",      "q\\:a\\b",  "q:**b",    "q?abab",
		"q:A[0-9]",   "q:A[0-8]",    "q:A[^0-8]", "qq:ab*b",   "q:a_*_*",  "q:*[b]",
		"q:[a-]b",    "q:[\\a]b",    "q",         "q:",        "q:ab?",    "q*q*q*",
		"q:a_b_ab*?", "q:*_[a-c]_*", "q:[b-]*",   "q:a?b?a\\b"};

	START(0);
	for (unsigned i = 0; i < LENGTH(patterns); i++) {
		int n = 0;

		for (unsigned k = 0; k < LENGTH(names); k++)
			n += fnmatch(patterns[i], names[k], 0) == 0;
		if (near_trace_enable(patterns[i], 0) != n)
			fail_msg("%s: not %d", patterns[i], n);
		assert_int_equal(near_trace_enable("*", 0) > n, 1);
	}
}

/* ---- a child that traces, and what others see of it ---- */

static struct shared {
	uint32_t ends, traced, enabled;
	uint64_t n;
} * shared;

static int make_shared(void **state)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return shared == MAP_FAILED ? -1 : traces_make_folder(state);
}

static int remove_shared(void **state)
{
	munmap(shared, sizeof(*shared));
	return traces_remove_folder(state);
}

static void on_timer(int signal)
{
	(void)signal;
	near_trace_test_text(1, "a signal handler");
}

static void *trace_until_end(void *unused)
{
	while (!__atomic_load_n(&shared->ends, __ATOMIC_RELAXED)) {
		near_trace_test_number(1);
		near_trace_test_pair(1, 2);
		__atomic_store_n(&shared->enabled, near__trace_point_test_number.enabled,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&shared->traced, 1, __ATOMIC_RELEASE);
		if (unit_slow())
			sched_yield();
	}
	return unused;
}

static pid_t start_child(unsigned threads)
{
	pid_t child = unit_fork_here();
	pthread_t thread[4];

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	near_trace_test_number(1);
	unit_timer(1000, on_timer);
	for (unsigned i = 1; i < threads; i++)
		thread[i] = unit_start(trace_until_end, NULL);
	trace_until_end(NULL);
	for (unsigned i = 1; i < threads; i++)
		unit_join(thread[i]);
	unit_timer(0, NULL);
	CHECK(near_trace_stop() == 0);
	_exit(0);
}

static pid_t wanted;
static char found[400];

static void find_file(const char *path, void *arg)
{
	struct trace_file f;

	(void)arg;
	if (!traces_try_open(&f, path))
		return;
	if (f.session->pid == (uint64_t)wanted)
		snprintf(found, sizeof(found), "%s", path);
	traces_close(&f);
}

static struct trace_file file_of(pid_t child)
{
	UNTIL(__atomic_load_n(&shared->traced, __ATOMIC_ACQUIRE));
	wanted = child;
	traces_each_file(find_file, NULL);
	return traces_open(found);
}

static uint64_t positions(const struct trace_file *f)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < f->count; i++)
		if (traces_ring(f, i))
			sum += __atomic_load_n(&traces_ring(f, i)->position, __ATOMIC_ACQUIRE);
	return sum;
}

/* ---- orders ---- */

static struct near__trace_control *control_of(const struct trace_file *f)
{
	struct near_region_object o;

	CHECK(near_region_object(&f->region, 3, &o) == 0);
	return (struct near__trace_control *)near_region_common(&f->region, o.offset);
}

/* As nearcpu trace does. */
static void order(const struct trace_file *f, const char *text)
{
	struct near__trace_control *c = control_of(f);
	uint32_t request;

	snprintf(c->order, sizeof(c->order), "%s", text);
	request = __atomic_add_fetch(&c->request, 1, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < f->session->slots; i++)
		if (traces_ring(f, i))
			__atomic_store_n(&traces_ring(f, i)->end, 0, __ATOMIC_SEQ_CST);
	UNTIL(__atomic_load_n(&c->done, __ATOMIC_ACQUIRE) == request);
}

static void orders_reach(unsigned threads)
{
	pid_t child;
	struct trace_file f;

	START(.ring_size = 256 << 10);
	shared->ends = shared->traced = 0;
	child = start_child(threads);
	f = file_of(child);
	assert_true(f.session->flags & NEAR__TRACE_NO_THREAD);
	for (unsigned i = 0; i < unit_scale(100); i++) {
		uint64_t position;

		order(&f, "disable *\nenable none");
		assert_string_equal(control_of(&f)->answer, "");
		UNTIL(__atomic_load_n(&shared->enabled, __ATOMIC_RELAXED) == 32);
		/* Events that were on the way are done. */
		order(&f, "flush\nflush");
		position = positions(&f);
		order(&f, "enable none");
		if (threads == 1)
			assert_int_equal(positions(&f), position);
		position = positions(&f);
		order(&f, i % 2 ? "enable test:number" : "enable test:p* 6 other > 1");
		UNTIL(positions(&f) > position);
	}
	order(&f, "enable test:number 5 none>1\nflush");
	assert_non_null(strstr(control_of(&f)->answer, "such a field"));
	order(&f, "enable");
	assert_true(*control_of(&f)->answer);
	__atomic_store_n(&shared->ends, 1, __ATOMIC_RELAXED);
	assert_int_equal(unit_wait(child, NULL), 0);
	traces_close(&f);
	assert_int_equal(near_trace_stop(), 0);
}

static void orders_reach_a_child(void **state)
{
	orders_reach(1);
}

static void orders_reach_a_child_of_threads(void **state)
{
	if (NEAR__TSAN)
		skip(); /* it refuses new threads there */
	orders_reach(3);
}

/* What is off in a child of a child, before its own session, finds no order. */
static void orders_are_of_one_process(void **state)
{
	struct trace_file f;
	pid_t child;

	START(.enable = "test:number");
	child = unit_fork_here();
	if (child == 0) {
		near_trace_test_number(1);
		CHECK(near__trace_point_test_text.enabled == NEAR__TRACE_WATCHED);
		__atomic_store_n(&shared->traced, 1, __ATOMIC_RELEASE);
		UNTIL(__atomic_load_n(&shared->ends, __ATOMIC_ACQUIRE));
		IN_CHILD() {
			near_trace_test_text(1, "off");
			near_trace_test_number(1);
			near_trace_test_text(1, "off");
			CHECK(near__trace_point_test_text.enabled == NEAR__TRACE_WATCHED);
		}
		near_trace_test_text(1, "the order");
		CHECK(near__trace_point_test_text.enabled & NEAR_TRACE_COUNTER ||
		      near__trace_point_test_text.enabled == NEAR_TRACE_MONOTONIC);
		CHECK(near_trace_stop() == 0);
		CHECK(!near__trace_point_test_text.enabled);
		near_trace_test_text(1, "no session");
		_exit(0);
	}
	f = file_of(child);
	snprintf(control_of(&f)->order, 100, "enable test:text");
	__atomic_add_fetch(&control_of(&f)->request, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&shared->ends, 1, __ATOMIC_RELEASE);
	assert_int_equal(unit_wait(child, NULL), 0);
	assert_int_equal(control_of(&f)->done, 1);
	traces_close(&f);
}

/* ---- streams ---- */

/* Its ring has a tenth of that. */
#define EVENTS 100000

static void a_child_streams(void **state)
{
	struct sums s = {0};
	uint64_t n = unit_scale(EVENTS);

	START(.mode = NEAR_TRACE_STREAM, .ring_size = 256 << 10, .file_size = 512 << 10,
	      .files = 100);
	s.pid = unit_fork_here();
	if (s.pid == 0) {
		for (uint64_t i = 0; i < n; i++)
			KEEPS_ERRNO(near_trace_test_number(1));
		CHECK(near_trace_stop() == 0);
		_exit(0);
	}
	assert_int_equal(unit_wait(s.pid, NULL), 0);
	traces_each_file(add_file, &s);
	assert_int_equal(s.n, n);
	assert_true(s.files > 1 || n < EVENTS);
	assert_int_equal(near_trace_stop(), 0);
}

/* As many as a mover is slow for are discarded, and counted. */
static void *trace_numbers(void *unused)
{
	for (uint64_t i = 0; i < unit_scale(EVENTS); i++)
		near_trace_test_number(1);
	return unused;
}

static void threads_of_a_child_stream(void **state)
{
	struct sums s = {0};
	pthread_t threads[3];

	if (NEAR__TSAN)
		skip(); /* it refuses new threads there */
	START(.mode = NEAR_TRACE_STREAM, .ring_size = 256 << 10, .file_size = 512 << 10,
	      .files = 100);
	s.pid = unit_fork_here();
	if (s.pid == 0) {
		for (unsigned i = 0; i < LENGTH(threads); i++)
			threads[i] = unit_start(trace_numbers, NULL);
		for (unsigned i = 0; i < LENGTH(threads); i++)
			unit_join(threads[i]);
		/* The thread goes on with what events have moved. */
		near_trace_enable("*", 0);
		trace_numbers(NULL);
		CHECK(near_trace_stop() == 0);
		_exit(0);
	}
	assert_int_equal(unit_wait(s.pid, NULL), 0);
	traces_each_file(add_file, &s);
	assert_int_equal(s.sum + s.discarded, (LENGTH(threads) + 1) * unit_scale(EVENTS));
	assert_int_equal(near_trace_stop(), 0);
}

static volatile sig_atomic_t handled;

static void fork_in_handler(int signal)
{
	(void)signal;
	near_trace_test_number(1);
	if (handled++ < 20 && unit_fork_here() == 0) {
		near_trace_test_number(1);
		_exit(0);
	}
}

/* A fork does not come within a move, of this thread or of another one. */
static void handlers_fork_while_a_child_streams(void **state)
{
	pid_t child;

	if (NEAR__TSAN)
		skip(); /* it refuses new threads there */
	START(.mode = NEAR_TRACE_STREAM, .ring_size = 256 << 10, .file_size = 256 << 10,
	      .clock = NEAR_TRACE_MONOTONIC);
	child = unit_fork_here();
	if (child == 0) {
		pthread_t thread = unit_start(trace_numbers, NULL);

		unit_timer(unit_slow() ? 20000 : 1000, fork_in_handler);
		while (handled < 20)
			near_trace_test_number(1);
		unit_timer(0, NULL);
		while (wait(NULL) > 0 || errno == EINTR)
			;
		unit_join(thread);
		CHECK(near_trace_stop() == 0);
		_exit(0);
	}
	assert_int_equal(unit_wait(child, NULL), 0);
	assert_int_equal(near_trace_stop(), 0);
}

int main(void)
{
	return UNIT_TESTS_IN(((struct unit_fixtures){NULL, make_shared, remove_shared, NULL}),
			     patterns_are_those_of_fnmatch, orders_reach_a_child,
			     orders_reach_a_child_of_threads, orders_are_of_one_process,
			     a_child_streams, threads_of_a_child_stream,
			     handlers_fork_while_a_child_streams);
}
