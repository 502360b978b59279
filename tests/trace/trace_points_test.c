/* SPDX-License-Identifier: MIT */
/* near_trace: which tracepoints a process has. */
#include "traces.h"

NEAR_TRACEPOINT(test, number, NEAR_TRACE_INFO, (u64, value));

#define START(...) traces_start((struct near_trace_options){__VA_ARGS__})

/* ---- names ---- */

/* As code registers it that another compiler, or another language, made. */
#define ODD(text, field_text)                                                                      \
	(struct near_trace_point)                                                                  \
	{                                                                                          \
		.level = NEAR_TRACE_INFO, .head = UINT64_C(3) << 52, .name = text,                 \
		.fields = field_text, .place = "odd.c:1"                                           \
	}

static void odd_names_are_refused(void **state)
{
	struct near_trace_point odd[] = {
		ODD("shop:caf\xc3\xa9", "u32 id"),
		ODD("shop:a$b", "u32 id"),
		ODD("shop:order", "u32 a$b"),
		ODD("shop", "u32 id"),
		ODD("shop:", "u32 id"),
		ODD(":order", "u32 id"),
		ODD("a:b:c", "u32 id"),
		ODD("shop:order", "enum e{(1)=%} state"),
	};
	struct near_trace_stats before, after;
	char text[100] = "";
	int saved = dup(2), pipes[2];

	START(0);
	assert_int_equal(near_trace_stats(&before, sizeof(before)), 0);
	assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
	for (unsigned i = 0; i < LENGTH(odd); i++) {
		dup2(pipes[1], 2);
		KEEPS_ERRNO(near__trace_register(&odd[i]));
		dup2(saved, 2);
		assert_true(read(pipes[0], text, sizeof(text) - 1) > 0);
		assert_non_null(strstr(text, odd[i].name));
		assert_int_equal(odd[i].enabled, 0);
	}
	assert_int_equal(near_trace_stats(&after, sizeof(after)), 0);
	assert_int_equal(after.points, before.points);
	assert_int_equal(near_trace_stop(), 0);
	close(saved);
	close(pipes[0]);
	close(pipes[1]);
}

/* ---- the lock, and fork ---- */

#define REGISTERED 2000 /* by one child */
#define FORKS 20

static bool registers, works, ends;

/* Holds the lock most of the time. */
static void *keep_busy(void *unused)
{
	static struct near_trace_point points[REGISTERED];
	struct near_trace_stats stats;

	for (unsigned i = 0; !__atomic_load_n(&ends, __ATOMIC_RELAXED); i++) {
		if (i < REGISTERED) {
			points[i] = ODD("test:more", "u32 id");
			near__trace_register(&points[i]);
		}
		if (i >= REGISTERED || !registers)
			near_trace_stats(&stats, sizeof(stats));
		__atomic_store_n(&works, true, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void take_the_lock(void)
{
	struct near_trace_stats stats;

	alarm(20);
	CHECK(near_trace_stats(&stats, sizeof(stats)) == -ENOENT);
	_exit(0);
}

/* No session has begun here, nor in the parent. */
static void fork_meanwhile(void *unused)
{
	pthread_t thread;
	pid_t child;

	CHECK(pthread_create(&thread, NULL, keep_busy, NULL) == 0);
	while (!__atomic_load_n(&works, __ATOMIC_RELAXED))
		sched_yield();
	for (unsigned i = 0; i < FORKS; i++) {
		child = fork();
		if (child == 0)
			take_the_lock();
		CHECK(unit_wait(child, NULL) == 0);
	}
	__atomic_store_n(&ends, true, __ATOMIC_RELAXED);
	CHECK(pthread_join(thread, NULL) == 0);
}

/* As by dlopen of a library with tracepoints, or near_trace_stats, in a process that never
 * traced. */
static void a_child_finds_the_lock_free(void **state)
{
	registers = true;
	unit_in_child(fork_meanwhile, NULL);
	registers = false;
	unit_in_child(fork_meanwhile, NULL);
}

int main(void)
{
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		a_child_finds_the_lock_free, odd_names_are_refused);
}
