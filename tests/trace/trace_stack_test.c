/* SPDX-License-Identifier: MIT */
/* near_trace: call stacks of events. This file is compiled with frame pointers. */
#include "traces.h"

#include <inttypes.h>
#include <sys/prctl.h>

#include "child.h"
#include "trace/context.h"

NEAR_TRACEPOINT(test, one, NEAR_TRACE_INFO, (u64, a));
NEAR_TRACEPOINT(test, many, NEAR_TRACE_INFO, (u64, a), (u32, b), (u8, c));
NEAR_TRACEPOINT(test, text, NEAR_TRACE_INFO, (string, s));
NEAR_TRACEPOINT(test, none, NEAR_TRACE_INFO);

#define START(...) traces_start((struct near_trace_options){__VA_ARGS__})
#define STACK "array_x64 stack"
#define MOST 31
#define HAS_FRAMES (NEAR__FRAME(path) != NULL)
/* With a sanitizer a function of the library may call another one last, and stay on the stack. */
#define BEFORE 2

/* ---- reading ---- */

/* The stack of the last event with that name and these fields. */
struct found {
	struct trace_file file;
	const char *name, *fields;
	uint64_t stack[MOST];
	unsigned depth, n, size; /* size: of the payload before the stack */
};

static void find(const struct trace_record *r, void *arg)
{
	struct found *f = arg;
	const char *name = traces_name(&f->file, r->id);
	uint16_t depth;

	if (strcmp(name, f->name) != 0 || strcmp(name + strlen(name) + 1, f->fields) != 0)
		return;
	memcpy(&depth, r->payload + f->size, sizeof(depth));
	CHECK(depth <= MOST && f->size + 2 + depth * 8u <= r->words * 8);
	CHECK(!(r->flags & NEAR__TRACE_PART));
	memcpy(f->stack, r->payload + f->size + 2, depth * 8u);
	f->depth = depth;
	f->n++;
}

static struct found find_in(const char *path, const char *name, const char *fields, unsigned size)
{
	struct found f = {.file = traces_open(path), .name = name, .fields = fields, .size = size};

	traces_read(&f.file, find, &f);
	traces_close(&f.file);
	return f;
}

static char path[500];

static void end_session(void)
{
	snprintf(path, sizeof(path), "%s", near_trace_path());
	CHECK(near_trace_stop() == 0);
}

/* ---- three calls ---- */

enum form { ONE, MANY, TEXT, NONE };
static const struct {
	const char *name, *fields;
	unsigned size;
} forms[] = {
	{"test:one", "u64 a;" STACK, 8},
	{"test:many", "u64 a;u32 b;u8 c;" STACK, 13},
	{"test:text", "string s;" STACK, 5},
	{"test:none", STACK, 0},
};

/* The return addresses of the functions below, as the compiler has them. */
static uint64_t returns[3];
static volatile unsigned after; /* so that no function calls another one last */

#define RETURN ((uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)))

__attribute__((noinline)) static void inner(enum form form)
{
	returns[0] = RETURN;
	if (form == ONE)
		near_trace_test_one(1);
	else if (form == MANY)
		near_trace_test_many(1, 2, 3);
	else if (form == TEXT)
		near_trace_test_text("abc");
	else
		near_trace_test_none();
	after++;
}

__attribute__((noinline)) static void middle(enum form form)
{
	returns[1] = RETURN;
	inner(form);
	after++;
}

__attribute__((noinline)) static void outer(enum form form)
{
	returns[2] = RETURN;
	middle(form);
	after++;
}

/* The addresses of one function after the other; 0: they are not there. */
static bool has_calls(const struct found *f)
{
	for (unsigned i = 1; i <= 1 + BEFORE && i + 2 < f->depth; i++)
		if (memcmp(&f->stack[i], returns, sizeof(returns)) == 0)
			return f->stack[i - 1] - (uintptr_t)inner < 4096 || i > 1;
	return false;
}

static void check_calls(enum form form)
{
	struct found f = find_in(path, forms[form].name, forms[form].fields, forms[form].size);

	CHECK(f.n == 1 && (has_calls(&f) || !HAS_FRAMES));
}

static void stack_has_each_call(void **state)
{
	static const enum near_trace_clock clocks[] = {0, NEAR_TRACE_MONOTONIC,
						       NEAR_TRACE_NO_CLOCK};

	for (unsigned i = 0; i < LENGTH(clocks); i++)
		for (enum form form = ONE; form <= NONE; form++) {
			START(.clock = clocks[i]);
			assert_int_equal(near_trace_context("test:*", NEAR_TRACE_WITH_STACK), 4);
			KEEPS_ERRNO(outer(form));
			end_session();
			check_calls(form);
		}
}

/* After what other contexts add, and with a condition. */
static void stack_is_last(void **state)
{
	static const char fields[] = "u64 a;bytes trace_id;bytes span_id;string thread;" STACK;
	struct found f;

	START(0);
	prctl(PR_SET_NAME, "work");
	near_trace_context("*",
			   NEAR_TRACE_WITH_IDS | NEAR_TRACE_WITH_THREAD | NEAR_TRACE_WITH_STACK);
	near_trace_enable_if("test:one", 0, "a<2");
	outer(ONE);
	near_trace_test_one(2);
	end_session();
	f = find_in(path, "test:one", fields, 8 + 2 + 2 + 2 + 4);
	assert_int_equal(f.n, 1);
	assert_true(has_calls(&f) || !HAS_FRAMES);
}

/* The rest of the record, and no other one. */
static void long_payloads_leave_less_room(void **state)
{
	static char text[1000];
	struct found f;

	for (unsigned size = 0; size < sizeof(text); size += size < 260 ? 1 : 200) {
		memset(text, 'x', size);
		text[size] = 0;
		START(0);
		near_trace_context("test:text", NEAR_TRACE_WITH_STACK);
		near_trace_test_text(text);
		near_trace_context("test:text", 0);
		end_session();
		if (size + 4 > 256)
			continue;
		f = find_in(path, "test:text", "string s;" STACK, 2 + size);
		assert_int_equal(f.n, 1);
		assert_true(f.depth <= (256 - size - 4) / 8);
		if (size > 256 - 4 - 8 && HAS_FRAMES)
			assert_int_equal(f.depth, 0);
		else if (HAS_FRAMES)
			assert_true(f.depth > 0);
	}
}

/* ---- depth ---- */

__attribute__((noinline)) static unsigned recurse(unsigned depth, size_t frame)
{
	volatile char room[frame];

	room[0] = room[frame - 1] = 1;
	if (depth > 1)
		after ^= recurse(depth - 1, frame);
	else
		near_trace_test_one(depth);
	return after ^ (unsigned char)room[frame - 1];
}

static void trace_deeply(unsigned depth, size_t frame)
{
	struct found f;

	START(0);
	near_trace_context("test:one", NEAR_TRACE_WITH_STACK);
	recurse(depth, frame);
	end_session();
	f = find_in(path, "test:one", "u64 a;" STACK, 8);
	CHECK(f.n == 1);
	for (unsigned i = 2 + BEFORE; HAS_FRAMES && i < f.depth && i < depth; i++)
		CHECK(f.stack[i] == f.stack[i - 1]);
	CHECK(!HAS_FRAMES || f.depth >= (depth < 29 ? depth : 29));
}

/* A page for each frame; more of them than the record has; deeper than any event before. */
static void *trace_all_depths(void *arg)
{
	trace_deeply(1, 16);
	trace_deeply(10, 5000);
	trace_deeply(100, 100);
	trace_deeply(40, 20000);
	trace_deeply(3, 300000);
	return arg;
}

static void deep_stacks(void **state)
{
	pthread_attr_t attr;
	pthread_t thread;

	trace_all_depths(NULL);
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstacksize(&attr, 4 << 20), 0);
	assert_int_equal(pthread_create(&thread, &attr, trace_all_depths, NULL), 0);
	unit_join(thread);
	pthread_attr_destroy(&attr);
}

/* ---- threads and processes ---- */

static void *trace_in_thread(void *arg)
{
	outer((enum form)(uintptr_t)arg);
	return NULL;
}

static void trace_in_handler(int signal)
{
	(void)signal;
	near_trace_test_many(1, 2, 3);
	after++;
}

static void threads_have_stacks(void **state)
{
	START(0);
	near_trace_context("*", NEAR_TRACE_WITH_STACK);
	unit_join(unit_start(trace_in_thread, (void *)(uintptr_t)ONE));
	unit_join(unit_start(trace_in_thread, (void *)(uintptr_t)TEXT));
	signal(SIGUSR1, trace_in_handler);
	raise(SIGUSR1);
	signal(SIGUSR1, SIG_DFL);
	end_session();
	check_calls(TEXT);
	struct found f = find_in(path, "test:many", forms[MANY].fields, forms[MANY].size);

	assert_true(f.n == 1 && (f.depth > 0 || !HAS_FRAMES));
}

/* Of the first thread, and of another one that had an event before. */
static void check_child(void)
{
	pid_t child = unit_fork_here();

	if (child == 0) {
		outer(MANY);
		end_session();
		check_calls(MANY);
		_exit(0);
	}
	CHECK(unit_wait(child, NULL) == 0);
}

static void *fork_in_thread(void *arg)
{
	near_trace_test_one(1);
	check_child();
	return arg;
}

static void children_have_stacks(void **state)
{
	START(0);
	near_trace_context("*", NEAR_TRACE_WITH_STACK);
	check_child();
	unit_join(unit_start(fork_in_thread, NULL));
	near_trace_stop();
}

/* ---- other stacks, wrong frames ---- */

#define ROOM ((size_t)1 << 16)

static void *trace_on_other_stack(void *room)
{
	stack_t stack = {.ss_sp = room, .ss_size = ROOM}, none = {.ss_flags = SS_DISABLE};
	struct sigaction act = {.sa_handler = trace_in_handler, .sa_flags = SA_ONSTACK};

	CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR2, &act, NULL) == 0);
	raise(SIGUSR2);
	outer(ONE); /* its own is known all the same */
	raise(SIGUSR2);
	sigaltstack(&none, NULL);
	return NULL;
}

/* The other stack, a guard, and the thread's stack, one above the other. */
static void trace_below_guard(void)
{
	char *all =
		mmap(NULL, 18 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t thread;

	CHECK(all != MAP_FAILED && mprotect(all + ROOM, ROOM, PROT_NONE) == 0);
	CHECK(pthread_attr_init(&attr) == 0);
	CHECK(pthread_attr_setstack(&attr, all + 2 * ROOM, 16 * ROOM) == 0);
	CHECK(pthread_create(&thread, &attr, trace_on_other_stack, all) == 0);
	unit_join(thread);
	pthread_attr_destroy(&attr);
	munmap(all, 18 * ROOM);
}

static void no_stack_on_other_stacks(void **state)
{
	static char room[ROOM] __attribute__((aligned(16)));
	struct found f;

	for (unsigned i = 0; i < 3; i++) {
		START(0);
		near_trace_context("*", NEAR_TRACE_WITH_STACK);
		if (i == 0)
			unit_join(unit_start(trace_on_other_stack, room));
		else if (i == 1)
			trace_below_guard();
		else
			trace_on_other_stack(room);
		end_session();
		f = find_in(path, "test:many", forms[MANY].fields, forms[MANY].size);
		assert_int_equal(f.n, 2);
		assert_int_equal(f.depth, 0);
		check_calls(ONE);
	}
}

/* Frames as a register with any number makes them: none is followed out of the stack, or back.
 * AddressSanitizer would have the array elsewhere. */
__attribute__((no_sanitize("address"))) static void *follow_wrong_frames(void *arg)
{
	uintptr_t frame[4] = {0}, here = (uintptr_t)frame;
	void *guard = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t wild[] = {0,
			    1,
			    8,
			    4096,
			    UINTPTR_MAX,
			    UINTPTR_MAX - 7,
			    UINTPTR_MAX / 2,
			    (uintptr_t)guard,
			    (uintptr_t)guard + 32768,
			    here,
			    here - 64,
			    here + sizeof(uintptr_t) / 2,
			    (uintptr_t)pthread_self(),
			    (uintptr_t)pthread_self() - sizeof(uintptr_t),
			    getauxval(AT_RANDOM),
			    getauxval(AT_RANDOM) + 4096,
			    here - (1u << 20),
			    here + (1u << 30)};
	const uintptr_t *pointer = (const uintptr_t *)(2 * here - (uintptr_t)NEAR__FRAME(frame));
	uint64_t stack[MOST];

	frame[1] = 4711;
	for (unsigned i = 0; i < LENGTH(wild); i++) {
		frame[0] = wild[i];
		CHECK(near__trace_stack(stack, MOST, pointer) >= HAS_FRAMES);
		frame[0] = wild[i] + (here - (uintptr_t)NEAR__FRAME(frame));
		CHECK(near__trace_stack(stack, MOST, pointer) == HAS_FRAMES);
		CHECK(!HAS_FRAMES || stack[0] == 4711);
	}
	munmap(guard, 65536);
	return arg;
}

static void wrong_frames_are_left(void **state)
{
	follow_wrong_frames(NULL);
	unit_join(unit_start(follow_wrong_frames, NULL));
}

/* ---- objects ---- */

/* The place of the object that has this address. */
static void find_object(const struct trace_file *f, const void *of, char *place, size_t size)
{
	const char *at = near_region_common(&f->region, f->points.offset);
	const char *end = at + f->session->points_bytes;
	uint64_t first, last;

	for (*place = 0; at < end;) {
		const struct near__trace_point_record *r = (const void *)at;
		const char *text = r->texts + r->name_size + r->fields_size;

		at += r->size;
		if (strcmp(r->texts, NEAR__TRACE_OBJECT) == 0 &&
		    sscanf(text, "%" SCNx64 "-%" SCNx64, &first, &last) == 2 &&
		    (uintptr_t)of >= first && (uintptr_t)of < last) {
			CHECK(!*place);
			snprintf(place, size, "%s", text);
		}
	}
}

static void check_objects(const char *file)
{
	struct trace_file f = traces_open(file);
	char program[500] = "", place[5000];

	CHECK(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
	find_object(&f, (void *)(uintptr_t)inner, place, sizeof(place));
	CHECK(strlen(place) > strlen(program) &&
	      strcmp(place + strlen(place) - strlen(program), program) == 0);
	find_object(&f, place, place, sizeof(place)); /* the stack is of none */
	CHECK(!*place);
	traces_close(&f);
}

/* Each file has them once, also snapshots, further sessions and children. */
static void files_have_the_objects(void **state)
{
	char copy[300];

	for (unsigned i = 0; i < 2; i++) {
		START(0);
		near_trace_context("test:one", NEAR_TRACE_WITH_STACK);
		near_trace_context("test:many", NEAR_TRACE_WITH_STACK);
		outer(ONE);
		snprintf(copy, sizeof(copy), "%s/copy", traces_folder);
		assert_int_equal(near_trace_snapshot(copy), 0);
		check_objects(copy);
		unlink(copy);
		pid_t child = unit_fork_here();

		if (child == 0) {
			outer(ONE);
			end_session();
			check_objects(path);
			_exit(0);
		}
		assert_int_equal(unit_wait(child, NULL), 0);
		end_session();
		check_objects(path);
	}
}

int main(void)
{
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		stack_has_each_call, stack_is_last, long_payloads_leave_less_room, deep_stacks,
		threads_have_stacks, children_have_stacks, no_stack_on_other_stacks,
		wrong_frames_are_left, files_have_the_objects);
}
