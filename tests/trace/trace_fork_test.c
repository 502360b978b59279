/* SPDX-License-Identifier: MIT */
/* near_trace: children of fork, vfork and clone; forks in signal handlers. */
#include "sums.h"
#include "trap_steps.h"

NEAR_TRACEPOINT(test, number, NEAR_TRACE_INFO, (u64, value));
NEAR_TRACEPOINT(test, text, NEAR_TRACE_INFO, (u64, value), (string, text));

#define START(...) traces_start((struct near_trace_options){__VA_ARGS__})

/* ---- fork ---- */

static void a_child_has_a_file_of_its_own(void **state)
{
	struct sums s;
	pid_t child;

	START(0);
	near_trace_test_number(1);
	child = unit_fork_here();
	if (child == 0) {
		CHECK(!near_trace_path());
		near_trace_test_number(20);
		near_trace_test_number(20);
		CHECK(near_trace_path());
		CHECK(near_trace_stop() == 0);
		_exit(0);
	}
	near_trace_test_number(300);
	assert_int_equal(unit_wait(child, NULL), 0);
	near_trace_test_number(300);
	assert_int_equal(near_trace_stop(), 0);
	s = sums_of(child);
	assert_int_equal(s.files, 1);
	assert_int_equal(s.sum, 40);
	s = sums_of(getpid());
	assert_int_equal(s.files, 1);
	assert_int_equal(s.sum, 601);
}

static void children_that_trace_nothing_make_no_file(void **state)
{
	START(0);
	IN_CHILD() {
		CHECK(near_trace_start(NULL) == -EALREADY);
		CHECK(near_trace_enable("test:*", 0) == 2);
	}
	IN_CHILD() {
		CHECK(near_trace_stop() == 0);
		near_trace_test_number(1);
		CHECK(near_trace_stop() == -ENOENT);
	}
	assert_int_equal(traces_files(), 1);
}

static void a_named_file_gets_numbers(void **state)
{
	char path[400], child[420];

	snprintf(path, sizeof(path), "%s/log", traces_folder);
	START(.path = path);
	IN_CHILD() {
		near_trace_test_number(1);
		snprintf(child, sizeof(child), "%s-%d", path, (int)getpid());
		CHECK(strcmp(near_trace_path(), child) == 0);
	}
	assert_string_equal(near_trace_path(), path);
}

static void grandchildren(void **state)
{
	struct sums s;

	START(.clock = NEAR_TRACE_MONOTONIC);
	for (uint64_t i = 1; i < 32; i *= 2) {
		pid_t child = unit_fork_here();

		if (child) {
			if (i > 1)
				_exit(unit_wait(child, NULL));
			assert_int_equal(unit_wait(child, NULL), 0);
			break;
		}
		near_trace_test_number(i);
		if (i == 16)
			_exit(0);
	}
	assert_int_equal(near_trace_stop(), 0);
	s = sums_of(0);
	assert_int_equal(s.files, 6);
	assert_int_equal(s.sum, 31);
}

/* Descriptors and mappings. */
static unsigned files_in(const char *folder)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char name[40], at[400];
	unsigned n = 0;

	while (maps && fgets(at, sizeof(at), maps))
		n += strstr(at, folder) != NULL;
	if (maps)
		fclose(maps);
	for (int fd = 0; fd < 100; fd++) {
		ssize_t length;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		length = readlink(name, at, sizeof(at) - 1);
		at[length > 0 ? length : 0] = 0;
		n += strstr(at, folder) != NULL;
	}
	return n;
}

/* Nor do they keep the blocks of files that a stream removes. */
static void children_have_no_files_of_the_parent(void **state)
{
	START(.mode = NEAR_TRACE_STREAM);
	for (unsigned i = 0; i < 10000; i++)
		near_trace_test_number(1);
	UNTIL(traces_files() > 1);
	assert_true(files_in(traces_folder) >= 2);
	IN_CHILD() {
		CHECK(files_in(traces_folder) == 0);
	}
}

/* One of them makes the file; what the others write before it is there is counted. */
static bool begins;

static void *begin_to_trace(void *unused)
{
	while (!__atomic_load_n(&begins, __ATOMIC_RELAXED))
		;
	for (unsigned i = 0; i < 100; i++)
		near_trace_test_number(1);
	return NULL;
}

static void trace_in_threads(void)
{
	pthread_t threads[2];
	struct trace_file f;
	struct sums s = {0};

	for (unsigned i = 0; i < LENGTH(threads); i++)
		threads[i] = unit_start(begin_to_trace, NULL);
	usleep(500);
	__atomic_store_n(&begins, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < LENGTH(threads); i++)
		unit_join(threads[i]);
	f = traces_stop();
	traces_read(&f, add, &s);
	CHECK(s.n + traces_discarded(&f) == 100 * LENGTH(threads));
	traces_close(&f);
}

static void threads_of_a_child_begin_together(void **state)
{
	if (NEAR__TSAN)
		skip(); /* it refuses new threads there */
	START(.mode = NEAR_TRACE_STOP_WHEN_FULL);
	for (unsigned i = 0; i < unit_scale(20); i++)
		IN_CHILD() {
			trace_in_threads();
		}
}

/* The folder is away when the child traces. */
static void a_folder_that_vanishes(void **state)
{
	char path[400], folder[400];

	START(0);
	snprintf(path, sizeof(path), "%s", near_trace_path());
	near_trace_test_number(1);
	unlink(path);
	snprintf(folder, sizeof(folder), "%s.away", traces_folder);
	assert_int_equal(rename(traces_folder, folder), 0);
	near_trace_test_number(1);
	IN_CHILD() {
		KEEPS_ERRNO(near_trace_test_number(1));
		CHECK(!near_trace_path() && !near__trace_point_test_number.enabled);
	}
	assert_int_equal(rename(folder, traces_folder), 0);
	assert_int_equal(near_trace_stop(), 0);
}

/* ---- other children ---- */

/* It has no handlers, but must not write to its parent's rings. */
static void a_bare_clone_writes_nothing(void **state)
{
	struct sums s;
	long child;

	if (unit_emulated())
		skip(); /* MADV_WIPEONFORK does nothing there */
	START(0);
	near_trace_test_number(1);
	child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		for (int i = 0; i < 1000; i++)
			near_trace_test_text(1, "child");
		near_trace_test_number(1);
		_exit(0);
	}
	assert_int_equal(unit_wait((pid_t)child, NULL), 0);
	assert_int_equal(near_trace_stop(), 0);
	s = sums_of(0);
	assert_int_equal(s.n, 1);
}

/* As its destructors do after a session of NEAR_CONF. It has no thread that could be joined. */
static void a_bare_clone_stops_nothing(void **state)
{
	struct trace_file f;
	long child;

	if (unit_emulated())
		skip();
	START(.mode = NEAR_TRACE_STREAM);
	near_trace_test_number(1);
	child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		alarm(20);
		_exit(near_trace_stop() != -ENOENT);
	}
	assert_int_equal(unit_wait((pid_t)child, NULL), 0);
	f = traces_open(near_trace_path());
	assert_int_equal(f.session->ended, 0);
	traces_close(&f);
}

static void a_vfork_child_traces(void **state)
{
	struct sums s;
	pid_t child;

	START(0);
	near_trace_test_number(1);
	child = vfork();
	if (child == 0) {
		near_trace_test_number(20);
		_exit(0);
	}
	near_trace_test_number(300);
	assert_int_equal(unit_wait(child, NULL), 0);
	assert_int_equal(near_trace_stop(), 0);
	s = sums_of(getpid());
	assert_int_equal(s.sum, 321);
}

/* ---- signal handlers ---- */

static volatile sig_atomic_t handled;
static volatile bool forks;

static void trace_in_handler(int signal)
{
	near_trace_test_text(1, "a signal handler");
	near_trace_test_number(1);
	if (forks && handled % 8 == 0 && unit_fork_here() == 0) {
		near_trace_test_number(1);
		_exit(0);
	}
	handled++;
}

/* With rings that come into use all the time. */
static void handlers_trace_at_any_moment(void **state)
{
	uint64_t n = 0;
	struct sums s;

	handled = 0;
	forks = false;
	START(.ring_size = 16 << 20, .mode = NEAR_TRACE_STOP_WHEN_FULL);
	unit_timer(100, trace_in_handler);
	while (handled < (int)unit_scale(1000)) {
		near_trace_test_number(1);
		near_trace_test_text(1, "not in a handler");
		n += 2;
		if (n >= 400000)
			usleep(10);
	}
	unit_timer(0, NULL);
	assert_int_equal(near_trace_stop(), 0);
	s = sums_of(0);
	assert_int_equal(s.n, n + 2 * (uint64_t)handled);
	assert_int_equal(s.sum, s.n);
}

/* The handler's child goes on with what the handler interrupted in a copy of the process. */
static void handlers_fork_at_any_moment(void **state)
{
	struct sums s;

	handled = 0;
	forks = true;
	START(.clock = NEAR_TRACE_MONOTONIC);
	unit_timer(unit_slow() ? 20000 : 1000, trace_in_handler);
	while (handled < 64) {
		near_trace_test_number(1);
		near_trace_test_text(1, "not in a handler");
	}
	unit_timer(0, NULL);
	while (wait(NULL) > 0 || errno == EINTR)
		;
	assert_int_equal(near_trace_stop(), 0);
	s = sums_of(0);
	assert_int_equal(s.files, 1 + (handled + 7) / 8);
	assert_int_equal(s.sum, s.n);
}

static volatile sig_atomic_t is_child;

static void fork_in_handler(int signal)
{
	if (handled++ == 0 && unit_fork_here() == 0) {
		is_child = 1;
		near_trace_test_number(1);
	}
}

/* The handler's child opens a ring of its own, then goes on with the opening of its parent's. */
static void handlers_fork_while_a_ring_opens(void **state)
{
	for (unsigned i = 0; i < unit_scale(20); i++) {
		struct trace_file f;
		struct sums s = {0};

		handled = 0;
		START(.ring_size = 4 << 20);
		unit_timer(100 + i % 10 * 100, fork_in_handler);
		near_trace_test_number(1);
		UNTIL(handled);
		unit_timer(0, NULL);
		for (unsigned n = 0; n < 100; n++)
			near_trace_test_number(1);
		f = traces_stop();
		traces_read(&f, add, &s);
		CHECK(s.n + traces_discarded(&f) >= 101);
		traces_close(&f);
		if (is_child)
			_exit(0);
		assert_int_equal(unit_wait(-1, NULL), 0);
	}
}

static unsigned instructions, stride, forks_made;

static void count_instruction(void)
{
	instructions++;
}

/* The child begins its session in the middle of its parent's event, and ends it afterwards. */
static void fork_at_times(void)
{
	pid_t child;

	if (instructions++ % stride)
		return;
	child = unit_fork_here();
	if (child == 0) {
		is_child = 1;
		steps.ended = true;
		near_trace_test_number(1);
	} else {
		CHECK(unit_wait(child, NULL) == 0);
		forks_made++;
	}
}

static void one_event(void)
{
	near_trace_test_number(1);
}

/* Of an event that goes into C code, as the steps abort sequences. */
static void handlers_fork_at_any_instruction(void **state)
{
	struct sums s;

	if (!can_step())
		skip();
	START(.ring_size = 1 << 20);
	is_child = 0;
	instructions = forks_made = 0;
	step(one_event, 0, count_instruction);
	stride = instructions / 250 + 1;
	instructions = 0;
	step(one_event, 0, fork_at_times);
	if (is_child)
		_exit(near_trace_stop() == 0 ? 0 : 1);
	assert_int_equal(near_trace_stop(), 0);
	s = sums_of(getpid());
	assert_int_equal(s.n, 2);
	assert_true(forks_made > 50);
}

int main(void)
{
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		a_child_has_a_file_of_its_own, children_that_trace_nothing_make_no_file,
		children_have_no_files_of_the_parent, a_named_file_gets_numbers, grandchildren,
		threads_of_a_child_begin_together, a_folder_that_vanishes,
		a_bare_clone_writes_nothing, a_bare_clone_stops_nothing, a_vfork_child_traces,
		handlers_trace_at_any_moment, handlers_fork_at_any_moment,
		handlers_fork_while_a_ring_opens, handlers_fork_at_any_instruction);
}
