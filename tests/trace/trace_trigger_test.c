/* SPDX-License-Identifier: MIT */
/* near_trace: triggers. Events, conditions and latencies take snapshots. */
#include "traces.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include "child.h"

NEAR_TRACEPOINT(test, number, NEAR_TRACE_INFO, (u64, value));
NEAR_TRACEPOINT(test, text, NEAR_TRACE_INFO, (i32, n), (string, text), (u16, last));
NEAR_TRACEPOINT(test, begin, NEAR_TRACE_INFO, (u32, job), (u64, size));
NEAR_TRACEPOINT(test, end, NEAR_TRACE_INFO, (u32, job), (string, why));
NEAR_TRACEPOINT(test, quiet, NEAR_TRACE_VERBOSE);

#define START(...) traces_start((struct near_trace_options){__VA_ARGS__})

static struct near_trace_stats stats(void)
{
	struct near_trace_stats s;

	CHECK(near_trace_stats(&s, sizeof(s)) == 0);
	return s;
}

static const char *snapshot_path(unsigned number)
{
	static char path[500];

	snprintf(path, sizeof(path), "%s.snapshot-%u", near_trace_path(), number);
	return path;
}

static bool is_there(unsigned number)
{
	return access(snapshot_path(number), F_OK) == 0;
}

struct found {
	struct trace_file file;
	const char *name;
	uint64_t word, n, all; /* events of that name with that first word; all */
};

static void find(const struct trace_record *r, void *arg)
{
	struct found *f = arg;
	uint64_t word;

	memcpy(&word, r->payload, sizeof(word));
	f->all++;
	if (strcmp(traces_name(&f->file, r->id), f->name) == 0 && word == f->word)
		f->n++;
}

static struct found find_in(unsigned number, const char *name, uint64_t word)
{
	struct found f = {traces_open(snapshot_path(number)), name, word, 0, 0};

	assert_true(f.file.session->flags & NEAR__TRACE_IS_SNAPSHOT);
	traces_read(&f.file, find, &f);
	traces_close(&f.file);
	return f;
}

static void an_event_takes_one(void **state)
{
	START(0);
	assert_int_equal(near_trace_trigger("test:number if value > 100"), 1);
	assert_int_equal(near_trace_trigger("test:number if value > 100"), 1);
	for (uint64_t i = 1; i <= 200; i++)
		KEEPS_ERRNO(near_trace_test_number(i));
	UNTIL(stats().snapshots);
	assert_int_equal(find_in(1, "test:number", 101).n, 1);
	assert_int_equal(find_in(1, "test:number", 1).n, 1);
	assert_int_equal(find_in(1, "near_trace:trigger", 1).n, 1);
	assert_int_equal(stats().triggered, 100);
	assert_int_equal(stats().limited, 99);
	assert_int_equal(near_trace_trigger(NULL), 0);
	near_trace_test_number(300);
	assert_int_equal(stats().triggered, 100);
	assert_int_equal(stats().snapshots, 1);
	assert_int_equal(stats().failed, 0);
	assert_false(is_there(2));
	assert_int_equal(near_trace_stop(), 0);
}

/* What is off is on; a condition of near_trace_enable_if decides on the record alone. */
static void patterns_and_triggers(void **state)
{
	START(.enable = "test:none");
	near_trace_enable_if("test:number", 0, "value==5");
	assert_int_equal(near_trace_trigger("test:quiet every 0"), 1);
	assert_int_equal(near_trace_trigger("test:number if value>100 every 0"), 1);
	near_trace_test_number(5);
	near_trace_test_number(6);
	near_trace_test_number(101);
	near_trace_test_quiet();
	UNTIL(stats().snapshots + stats().limited == 2);
	near_trace_trigger("");
	near_trace_test_quiet();
	near_trace_test_number(101);
	near_trace_test_number(5);
	assert_int_equal(stats().triggered, 2);
	near_trace_trigger("test:text after 60m");
	near_trace_test_text(1, "last", 2);
	assert_int_equal(near_trace_snapshot(snapshot_path(9)), 0);
	struct found f = {traces_open(snapshot_path(9)), "test:number", 5, 0, 0};

	traces_read(&f.file, find, &f);
	assert_int_equal(f.n, 2);
	assert_int_equal(f.all, 4); /* with test:quiet and test:text */
	traces_close(&f.file);
	assert_int_equal(near_trace_stop(), 0);
}

static void *end_job(void *job)
{
	near_trace_test_end((uint32_t)(uintptr_t)job, "in a thread");
	return NULL;
}

static void latencies(void **state)
{
	uint64_t n = 0;

	START(.clock = NEAR_TRACE_MONOTONIC);
	assert_int_equal(near_trace_trigger("test:begin to test:end by job over 2ms"), 2);
	near_trace_test_begin(1, 0);
	near_trace_test_begin(2, 0);
	usleep(3000);
	near_trace_test_end(3, "has no begin");
	assert_int_equal(stats().triggered, n);
	unit_join(unit_start(end_job, (void *)1));
	assert_int_equal(stats().triggered, ++n);
	near_trace_test_end(1, "has ended");
	assert_int_equal(stats().triggered, n);
	near_trace_test_end(2, "is late");
	assert_int_equal(stats().triggered, ++n);
	near_trace_trigger(NULL);
	assert_int_equal(near_trace_trigger("test:begin if size>=4 to test:end over 1ns"), 2);
	near_trace_test_begin(1, 4);
	unit_join(unit_start(end_job, (void *)1));
	assert_int_equal(stats().triggered, n);
	near_trace_test_end(7, "the same thread");
	assert_int_equal(stats().triggered, ++n);
	near_trace_test_begin(1, 3);
	near_trace_test_end(1, "no begin");
	assert_int_equal(stats().triggered, n);
	near_trace_trigger(NULL);
	near_trace_trigger("test:begin to test:end by job over 60m");
	near_trace_test_begin(1, 0);
	near_trace_test_end(1, "in time");
	assert_int_equal(stats().triggered, n);
	assert_int_equal(near_trace_stop(), 0);
}

/* Begins that never end leave the table to younger ones. */
static void a_table_is_never_full(void **state)
{
	START(0);
	near_trace_trigger("test:begin to test:end by job over 1ns");
	for (uint32_t i = 1; i <= 100000; i++)
		near_trace_test_begin(i, 0);
	near_trace_test_end(100000, "the youngest");
	assert_int_equal(stats().triggered, 1);
	near_trace_test_end(1, "the oldest");
	assert_int_equal(stats().triggered, 1);
	near_trace_trigger(NULL);
	near_trace_trigger("test:begin to test:end by job over 1us");
	near_trace_test_end(99999, "begun for another trigger");
	assert_int_equal(stats().triggered, 1);
	assert_int_equal(near_trace_stop(), 0);
}

static void fire_and_wait(uint64_t n)
{
	near_trace_test_number(n);
	UNTIL(stats().snapshots + stats().failed == n);
}

static void some_stay(void **state)
{
	int fd;

	START(0);
	fd = open(snapshot_path(2), O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0 && close(fd) == 0);
	near_trace_trigger("test:number if value>0 every 0s keep 2");
	for (uint64_t i = 1; i <= 4; i++)
		fire_and_wait(i);
	assert_false(is_there(1));
	assert_true(is_there(2));
	assert_false(is_there(3));
	assert_true(is_there(4) && is_there(5));
	assert_int_equal(find_in(5, "test:number", 4).n, 1);
	assert_int_equal(near_trace_stop(), 0);
}

/* The rings of two sub-buffers' time, and not the whole of them. */
static void what_was_before(void **state)
{
	enum near_trace_clock clocks[] = {NEAR_TRACE_MONOTONIC, NEAR_TRACE_COUNTER};

	for (unsigned i = 0; i < (near_clock() ? 2 : 1); i++) {
		uint64_t most = 3 * (NEAR__TRACE_SUB_SIZE / 24);
		struct found f;

		START(.ring_size = 1 << 20, .clock = clocks[i]);
		near_trace_trigger("test:number if value==1 before 1ns");
		for (unsigned k = 0; k < 100000; k++)
			near_trace_test_number(0);
		near_trace_test_number(1);
		UNTIL(stats().snapshots);
		f = find_in(1, "test:number", 1);
		assert_int_equal(f.n, 1);
		assert_true(f.all < most);
		unlink(snapshot_path(1));
		assert_int_equal(near_trace_stop(), 0);
	}
}

static void the_end_does_not_wait(void **state)
{
	char path[500];

	START(0);
	near_trace_trigger("test:text if last==7 after 60m");
	near_trace_test_text(1, "not this", 8);
	near_trace_test_text(1, "this", 7);
	assert_int_equal(stats().snapshots, 0);
	snprintf(path, sizeof(path), "%s", snapshot_path(1));
	assert_int_equal(near_trace_stop(), 0);
	assert_int_equal(access(path, F_OK), 0);
}

static void a_snapshot_fails(void **state)
{
	char folder[100], text[200], full[20];

	snprintf(folder, sizeof(folder), "%s/gone", traces_folder);
	assert_int_equal(mkdir(folder, 0700), 0);
	snprintf(text, sizeof(text), "test:number if value==1 in %s", folder);
	START(0);
	assert_int_equal(near_trace_trigger(text), 1);
	assert_int_equal(rmdir(folder), 0);
	fire_and_wait(1);
	assert_int_equal(stats().failed, 1);
	assert_int_equal(stats().discarded, 0);
	strcpy(full, "is not lost");
	near_trace_test_text(1, full, 2);
	struct trace_file f = traces_stop();

	assert_true(f.session->flags & NEAR__TRACE_SNAPSHOT_FAILED);
	traces_close(&f);
}

static const char *const wrong[] = {
	" ",
	"test:number if",
	"test:number if value",
	"test:number when value>1",
	"test:number over 1s",
	"test:number to test:text",
	"test:number by value",
	"test:number after",
	"test:number after 1h",
	"test:number after x",
	"test:number keep 0",
	"test:number keep 17",
	"test:number keep 1x",
	"test:number keep 2 keep 2",
	"test:number to a:b c:d over 1s",
	"test:number after 99999999999999999999",
	"test:number after 18446744073709551615s",
	"test:number in /nowhere/at all",
	"test:number in .",
};

static void texts_are_refused(void **state)
{
	char text[300];

	assert_int_equal(near_trace_trigger("test:number"), -ENOENT);
	assert_non_null(strstr(near_trace_error(), "does not trace"));
	START(0);
	for (unsigned i = 0; i < LENGTH(wrong); i++)
		if (near_trace_trigger(wrong[i]) != -EINVAL || !near_trace_error())
			fail_msg("'%s'", wrong[i]);
	memset(text, 'a', sizeof(text));
	text[256] = 0;
	assert_int_equal(near_trace_trigger(text), -EINVAL);
	assert_int_equal(near_trace_trigger("test:number if none>1"), 0);
	assert_int_equal(near_trace_trigger("near_trace:*"), 0);
	assert_int_equal(near_trace_trigger("test:* every 1us before 1m after 0ns"), 5);
	for (unsigned i = 0; i < 5; i++) {
		snprintf(text, sizeof(text), "test:none%u", i);
		assert_int_equal(near_trace_trigger(text), 0);
	}
	assert_int_equal(near_trace_trigger("test:more"), -E2BIG);
	assert_int_equal(near_trace_stop(), 0);
	START(.mode = NEAR_TRACE_STREAM);
	assert_int_equal(near_trace_trigger("test:number"), -EINVAL);
	assert_int_equal(near_trace_stop(), 0);
}

static void a_child_has_them_with_a_thread(void **state)
{
	if (NEAR__TSAN)
		skip(); /* it refuses new threads there */
	START(0);
	near_trace_trigger("test:number if value==1");
	fire_and_wait(1);
	pid_t child = unit_fork_here();

	if (child == 0) {
		near_trace_test_number(1);
		CHECK(stats().triggered == 0);
		CHECK(near_trace_trigger("test:number if value==1") == 1);
		fire_and_wait(1);
		CHECK(is_there(1));
		CHECK(find_in(1, "test:number", 1).n == 2);
		CHECK(near_trace_stop() == 0);
		_exit(0);
	}
	assert_int_equal(unit_wait(child, NULL), 0);
	assert_int_equal(stats().triggered, 1);
	assert_int_equal(near_trace_stop(), 0);
}

/* ---- all at once ---- */

static bool ends;

static void trace_some(int signal)
{
	near_trace_test_number((uint64_t)signal);
	near_trace_test_begin(1, 1);
	near_trace_test_end(1, "a handler");
}

static void *trace_until_end(void *count)
{
	for (uint32_t job = 1; !__atomic_load_n(&ends, __ATOMIC_RELAXED); job++) {
		near_trace_test_begin(job, 0);
		near_trace_test_number(1);
		near_trace_test_end(job, "a thread");
		__atomic_fetch_add((uint64_t *)count, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void change_triggers(unsigned i)
{
	near_trace_trigger("test:begin to test:end by job over 1ns every 0 keep 1");
	near_trace_trigger("test:number if value>1 every 1ms keep 2 before 1ms");
	if (i % 5 == 0 && unit_fork_here() == 0) {
		near_trace_test_number(1);
		_exit(near_trace_stop() != 0);
	}
	usleep(500);
	near_trace_trigger(NULL);
}

static void triggers_change_while_events_fire(void **state)
{
	uint64_t count = 0;
	pthread_t threads[2];

	__atomic_store_n(&ends, false, __ATOMIC_RELAXED);
	START(.ring_size = 256 << 10);
	for (unsigned i = 0; i < LENGTH(threads); i++)
		threads[i] = unit_start(trace_until_end, &count);
	unit_timer(500, trace_some);
	for (unsigned i = 0; i < unit_scale(50); i++)
		change_triggers(i);
	while (wait(NULL) > 0)
		continue;
	near_trace_trigger("test:begin to test:end by job over 1ns every 0 keep 1");
	UNTIL(stats().triggered && stats().snapshots);
	__atomic_store_n(&ends, true, __ATOMIC_RELAXED);
	unit_timer(0, NULL);
	for (unsigned i = 0; i < LENGTH(threads); i++)
		unit_join(threads[i]);
	assert_int_equal(stats().failed, 0);
	assert_int_equal(near_trace_stop(), 0);
}

int main(void)
{
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		an_event_takes_one, patterns_and_triggers, latencies, a_table_is_never_full,
		some_stay, what_was_before, the_end_does_not_wait, a_snapshot_fails,
		texts_are_refused, a_child_has_them_with_a_thread,
		triggers_change_while_events_fire);
}
