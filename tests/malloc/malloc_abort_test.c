/* SPDX-License-Identifier: MIT */
/* Handlers of SIGABRT that allocate, and fork a child that does: whatever misuse is found, and
 * wherever, no lock of the heap is held, and the same fault is not found again. */
#include "unit.h"

#include <malloc.h>

#include "child.h"
#include "aborts.h"
#include "sleeps.h"

int malloc_trim(size_t pad); /* musl does not declare it */

#define BLOCKS 20000

static char *blocks[BLOCKS];
static size_t size;

/* ---- the handler ---- */

static void use_all_sizes(void)
{
	static void *some[200];

	for (size_t n = 1; n < 200000; n = n * 5 / 4 + 1) {
		for (size_t i = 0; i < LENGTH(some); i++)
			CHECK((some[i] = malloc(n)));
		for (size_t i = 0; i < LENGTH(some); i++)
			free(some[i]);
	}
}

static void begin(void)
{
	abort_begin(use_all_sizes);
	for (size_t i = 0; i < BLOCKS; i++)
		CHECK((blocks[i] = malloc(size)));
}

/* A fault in blocks of several classes. */
static void stops(void (*run)(void *), const char *what)
{
	static const size_t sizes[] = {16, 100, 1000, 5000};
	char text[200];

	for (size_t i = 0; i < LENGTH(sizes); i++) {
		size = sizes[i];
		assert_int_equal(unit_capture(run, NULL, text, sizeof(text), NULL), ABORT_HANDLED);
		assert_ptr_equal(strstr(text, "nearcpu-malloc: "), text);
		assert_non_null(strstr(text, what));
		assert_null(strstr(text + 1, "nearcpu-malloc: "));
	}
}

/* ---- faults ---- */

/* Found when the lists go to the central lists, at the latest in malloc_trim: in the second of two
 * lists that have the block. */
static void free_one_twice(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < BLOCKS; i += 2)
		free(blocks[i]);
	free(blocks[BLOCKS / 4 * 2]);
	malloc_trim(0);
}

static void free_twice(void *unused)
{
	begin();
	free_one_twice(unused);
}

/* Of each list in the caches, one link. The caches are emptied with a lock. */
static void write_to_freed(void *unused)
{
	begin();
	for (size_t i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	for (size_t i = BLOCKS - 20; i < BLOCKS; i++)
		memset(blocks[i], 0x41, 8);
	malloc_trim(0);
}

/* A thread whose lists have been given back uses shared ones, with a lock. */
static pthread_key_t key;

static void *set_key(void *block)
{
	free(malloc(1));
	CHECK(pthread_setspecific(key, block) == 0);
	return block;
}

static void end_a_thread(void *unused)
{
	begin();
	CHECK(pthread_key_create(&key, free_one_twice) == 0);
	unit_join(unit_start(set_key, blocks[0]));
}

UNIT_TEST(after_a_second_free, stops(free_twice, "free"))
UNIT_TEST(after_a_write, stops(write_to_freed, "write to a freed block, or freed twice"))
UNIT_TEST(while_a_thread_ends, stops(end_a_thread, "free"))

/* ---- two threads ---- */

static struct {
	bool handles; /* atomic */
	pid_t second; /* atomic; 0: not yet */
} two;

static void wait_for_second(int number)
{
	signal(number, SIG_DFL);
	__atomic_store_n(&two.handles, true, __ATOMIC_RELEASE);
	wait_until_asleep(&two.second);
	_exit(ABORT_HANDLED);
}

static void *fault_too(void *block)
{
	unit_await(&two.handles);
	note_sleeper(&two.second);
	free((char *)block + 8);
	return block;
}

static void fault_in_two_threads(void *unused)
{
	char *block = malloc(1000);

	alarm(20);
	signal(SIGABRT, wait_for_second);
	unit_start(fault_too, block);
	free(block + 16);
}

static void one_of_two_threads_reports(void **state)
{
	char text[200];

	if (unit_emulated()) /* it shows threads in its own way */
		skip();
	assert_int_equal(unit_capture(fault_in_two_threads, NULL, text, sizeof(text), NULL),
			 ABORT_HANDLED);
	assert_null(strstr(strchr(text, '\n'), "nearcpu-malloc: "));
}

UNIT_MAIN(after_a_second_free, after_a_write, while_a_thread_ends, one_of_two_threads_reports)
