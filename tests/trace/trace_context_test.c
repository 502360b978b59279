/* SPDX-License-Identifier: MIT */
/* near_trace: events with the ids of a request, the thread's name, the process. */
#include "traces.h"

#include <sys/prctl.h>
#include <sys/stat.h>

#include "child.h"

NEAR_TRACEPOINT(test, none, NEAR_TRACE_INFO);
NEAR_TRACEPOINT(test, one, NEAR_TRACE_INFO, (u8, a));
NEAR_TRACEPOINT(test, many, NEAR_TRACE_INFO, (u64, a), (u32, b), (u8, c));
NEAR_TRACEPOINT(test, text, NEAR_TRACE_INFO, (string, s), (u16, last));

#define START(...) traces_start((struct near_trace_options){__VA_ARGS__})

static const unsigned char trace_id[16] = "0123456789abcdef", span_id[8] = "ABCDEFGH";

/* What an event has to be. */
struct want {
	struct trace_file file;
	const char *name, *fields;
	const void *payload;
	size_t size;
	unsigned n;
};

static void compare(const struct trace_record *r, void *arg)
{
	struct want *w = arg;
	const char *name = traces_name(&w->file, r->id), *fields = name + strlen(name) + 1;
	char got[4096];

	if (strcmp(name, w->name) != 0 || strcmp(fields, w->fields) != 0)
		return;
	memcpy(got, r->payload, r->words * sizeof(uint64_t));
	if (r->words == (w->size + 7) / 8 && memcmp(got, w->payload, w->size) == 0)
		w->n++;
}

static unsigned count(const char *path, const char *name, const char *fields, const void *payload,
		      size_t size)
{
	struct want w = {traces_open(path), name, fields, payload, size, 0};

	traces_read(&w.file, compare, &w);
	traces_close(&w.file);
	return w.n;
}

static char path[500];

static void end_session(void)
{
	snprintf(path, sizeof(path), "%s", near_trace_path());
	assert_int_equal(near_trace_stop(), 0);
}

static void ids_follow_the_fields(void **state)
{
	START(0);
	assert_int_equal(near_trace_context("test:*", NEAR_TRACE_WITH_IDS), 4);
	near_trace_test_one(1);
	assert_int_equal(near_trace_set_ids(trace_id, span_id), 0);
	KEEPS_ERRNO(near_trace_test_none());
	KEEPS_ERRNO(near_trace_test_one(2));
	KEEPS_ERRNO(near_trace_test_many(3, 4, 5));
	KEEPS_ERRNO(near_trace_test_text("abc", 6));
	assert_int_equal(near_trace_set_ids(trace_id, NULL), 0);
	near_trace_test_one(7);
	assert_int_equal(near_trace_set_ids(NULL, NULL), 0);
	near_trace_test_one(8);
	assert_int_equal(near_trace_context("test:one", 0), 1);
	near_trace_test_one(9);
	end_session();
#define IDS "bytes trace_id;bytes span_id"
#define BOTH                                                                                       \
	"\x10\0"                                                                                   \
	"0123456789abcdef\x08\0"                                                                   \
	"ABCDEFGH"
	assert_int_equal(count(path, "test:none", IDS, BOTH, 28), 1);
	assert_int_equal(count(path, "test:one", "u8 a;" IDS, "\1\0\0\0", 5), 1);
	assert_int_equal(count(path, "test:one", "u8 a;" IDS, "\2" BOTH, 29), 1);
	assert_int_equal(count(path, "test:many", "u64 a;u32 b;u8 c;" IDS,
			       "\3\0\0\0\0\0\0\0\4\0\0\0\5" BOTH, 41),
			 1);
	assert_int_equal(count(path, "test:text", "string s;u16 last;" IDS,
			       "\3\0"
			       "abc\6\0" BOTH,
			       35),
			 1);
	assert_int_equal(count(path, "test:one", "u8 a;" IDS,
			       "\7\x10\0"
			       "0123456789abcdef\0\0",
			       21),
			 1);
	assert_int_equal(count(path, "test:one", "u8 a;" IDS, "\10\0\0\0", 5), 1);
	assert_int_equal(count(path, "test:one", "u8 a", "\11\0\0\0\0\0\0\0", 8), 1);
}

static size_t put(char *to, const void *data, size_t size)
{
	memcpy(to, data, size);
	return size;
}

/* What this process is, as context has it. */
static size_t process(char *to)
{
	char text[4096] = "", *line;
	uint32_t pid = (uint32_t)getpid();
	struct stat st = {.st_ino = 0};
	uint64_t space;
	FILE *f = fopen("/proc/self/cgroup", "re");
	uint16_t n;
	size_t size;

	text[f ? fread(text, 1, sizeof(text) - 1, f) : 0] = 0;
	if (f)
		fclose(f);
	line = strstr(text, "0::");
	line = strchr(line ? line : text, '/');
	n = (uint16_t)(line ? strcspn(line, "\n") : 0);
	stat("/proc/self/ns/pid", &st);
	space = st.st_ino;
	n = n < 159 ? n : 159;
	size = put(to, &pid, sizeof(pid));
	size += put(to + size, &space, sizeof(space));
	size += put(to + size, &n, sizeof(n));
	return size + put(to + size, line ? line : "", n);
}

static void trace_as(const char *name)
{
	prctl(PR_SET_NAME, name);
	near_trace_test_one(1);
}

/* The child of fork is another process. */
static void threads_and_processes(void **state)
{
	static const char fields[] = "u8 a;string thread;u32 pid;u64 pid_namespace;string cgroup";
	char wanted[400] = "\1\4\0work";
	size_t size = 7 + process(wanted + 7);

	START(.clock = NEAR_TRACE_MONOTONIC);
	near_trace_context("*", NEAR_TRACE_WITH_THREAD | NEAR_TRACE_WITH_PROCESS);
	near_trace_context("test:text", 0);
	trace_as("work");
	near_trace_test_text("is as it was", 1);
	pid_t child = unit_fork_here();

	if (child == 0) {
		trace_as("kid");
		snprintf(path, sizeof(path), "%s", near_trace_path());
		CHECK(near_trace_stop() == 0);
		memcpy(wanted, "\1\3\0kid", 6);
		CHECK(count(path, "test:one", fields, wanted, 6 + process(wanted + 6)) == 1);
		_exit(0);
	}
	assert_int_equal(unit_wait(child, NULL), 0);
	end_session();
	assert_int_equal(count(path, "test:one", fields, wanted, size), 1);
	assert_int_equal(count(path, "test:text", "string s;u16 last", "\14\0is as it was\1\0", 16),
			 1);
}

/* A condition, a trigger and a context of one tracepoint. */
static void all_at_once(void **state)
{
	struct near_trace_stats s;

	START(0);
	near_trace_context("test:one", NEAR_TRACE_WITH_IDS);
	near_trace_disable("test:none");
	near_trace_context("test:none", NEAR_TRACE_WITH_IDS);
	near_trace_trigger("test:none after 60m");
	near_trace_test_none();
	near_trace_enable_if("test:one", 0, "a>1");
	near_trace_trigger("test:one if a==1");
	near_trace_set_ids(NULL, NULL);
	near_trace_test_one(1);
	near_trace_test_one(2);
	near_trace_trigger(NULL);
	near_trace_test_one(2);
	near_trace_test_one(0);
	assert_int_equal(near_trace_stats(&s, sizeof(s)), 0);
	assert_int_equal(s.triggered, 2);
	end_session();
	assert_int_equal(count(path, "test:none", IDS, "\0\0\0\0", 4), 1);
	assert_int_equal(count(path, "test:one", "u8 a;" IDS, "\1\0\0\0\0", 5), 0);
	assert_int_equal(count(path, "test:one", "u8 a;" IDS, "\2\0\0\0\0", 5), 2);
	assert_int_equal(count(path, "test:one", "u8 a;" IDS, "\0\0\0\0\0", 5), 0);
}

static void errors(void **state)
{
	char pattern[10];

	assert_int_equal(near_trace_context("*", NEAR_TRACE_WITH_IDS), -ENOENT);
	START(0);
	assert_int_equal(near_trace_context("", NEAR_TRACE_WITH_IDS), -EINVAL);
	assert_int_equal(near_trace_context("*", 16), -EINVAL);
	assert_non_null(near_trace_error());
	for (unsigned i = 0; i < 8; i++) {
		snprintf(pattern, sizeof(pattern), "a:%u", i);
		assert_int_equal(near_trace_context(pattern, NEAR_TRACE_WITH_IDS), 0);
	}
	assert_int_equal(near_trace_context("a:0", NEAR_TRACE_WITH_THREAD), 0);
	assert_int_equal(near_trace_context("a:8", NEAR_TRACE_WITH_IDS), -E2BIG);
	assert_true(near_trace_context("*", 0) >= 4);
	assert_int_equal(near_trace_context("a:8", NEAR_TRACE_WITH_IDS), 0);
	end_session();
}

/* ---- while events come ---- */

static bool ends;

static void switch_ids(int signal)
{
	(void)signal;
	near_trace_test_one(1);
}

static void *trace_until_end(void *arg)
{
	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
		near_trace_set_ids(trace_id, arg);
		near_trace_test_many(1, 2, 3);
		near_trace_test_text("text", 4);
		near_trace_set_ids(NULL, NULL);
	}
	return NULL;
}

/* No event has a part of the ids, also in a handler that interrupts their change. */
static void check_ids(const struct trace_record *r, void *arg)
{
	struct want *w = arg;
	const char *name = traces_name(&w->file, r->id), *fields = name + strlen(name) + 1;

	if (strcmp(name, "test:one") != 0 || strcmp(fields, "u8 a;" IDS) != 0)
		return;
	CHECK(memcmp(r->payload, "\1\0\0\0\0", 5) == 0 || memcmp(r->payload, "\1" BOTH, 29) == 0);
	w->n++;
}

static void contexts_change_while_events_come(void **state)
{
	struct want w = {.n = 0};
	pthread_t threads[2];

	ends = false;
	START(.ring_size = 4 << 20);
	for (unsigned i = 0; i < LENGTH(threads); i++)
		threads[i] = unit_start(trace_until_end, (void *)(uintptr_t)span_id);
	unit_timer(200, switch_ids);
	for (unsigned i = 0; i < unit_scale(100); i++) {
		near_trace_context("test:*", i % 16);
		usleep(300);
	}
	__atomic_store_n(&ends, true, __ATOMIC_RELAXED);
	unit_timer(0, NULL);
	for (unsigned i = 0; i < LENGTH(threads); i++)
		unit_join(threads[i]);
	near_trace_context("test:one", NEAR_TRACE_WITH_IDS);
	near_trace_test_one(1);
	w.file = traces_stop();
	traces_read(&w.file, check_ids, &w);
	assert_true(w.n > 0);
	traces_close(&w.file);
}

int main(void)
{
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		ids_follow_the_fields, threads_and_processes, all_at_once, errors,
		contexts_change_while_events_come);
}
