/* SPDX-License-Identifier: MIT */
/* The transfer cache of a slot: its quota, the decay of idle lists, the background thread. */
#include "unit.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "malloc/api/fast.h"
#include "malloc/cache/background.h"
#include "malloc/base/malloc_conf.h"
#include "malloc/cache/malloc_cache.h"
#include "malloc/pages/pages.h"

#define SIZE 64
#define BLOCKS 4096 /* 32 lists */
#define STEP_MS 250

static void take_and_free(void)
{
	static void *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(SIZE);
		assert_non_null(blocks[i]);
	}
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
}

/* Empties all caches, when this slot has one. */
static void begin(void)
{
	if (!near__thread_live() || !near__heap_ready() || !near__heap.caches)
		skip();
	free(malloc(SIZE));
	free(malloc(SIZE));
	near__reclaim();
}

static struct near__cache *cache_of(unsigned slot)
{
	return near_percpu_at(near__heap.caches, slot);
}

/* Lists in the transfer caches of all slots. */
static unsigned cached(void)
{
	unsigned sum = 0;

	for (unsigned s = 0; near__cache_next(&s); s++)
		for (unsigned c = 1; c <= NEAR__SIZES; c++) {
			uint32_t n = __atomic_load_n(&cache_of(s)->transfers[c], __ATOMIC_RELAXED);

			sum += n && n != UINT32_MAX ? n - 1 : 0;
		}
	return sum;
}

static void fill(void)
{
	take_and_free();
	assert_true(cached() > 0);
}

/* Also across sizes: a block of each class that stayed in a cache would make the heap grow. */
static void a_small_heap_keeps_no_idle_large_blocks(void **state)
{
	uint32_t before;

	begin();
	before = near__pages_used();
	assert_true(before <= 256);
	for (unsigned c = NEAR__FIRST_LARGE; c <= NEAR__SIZES; c++) {
		void *volatile pair[2]; /* compilers omit blocks that are not used */

		pair[0] = malloc(near__sizes[c].size);
		pair[1] = malloc(near__sizes[c].size);
		free(pair[0]);
		free(pair[1]);
	}
	/* Two of the largest, and a part of the heap that fits none of them. */
	assert_true(near__pages_used() - before <= 4 * near__sizes[NEAR__SIZES].pages);
}

static void without_quota_nothing_is_held(void **state)
{
	uint64_t cache = near__malloc_conf.cache;

	begin();
	near__malloc_conf.cache = 0;
	for (unsigned s = 0; near__cache_next(&s); s++)
		cache_of(s)->quota = 0;
	take_and_free();
	near__malloc_conf.cache = cache;
	assert_int_equal(cached(), 0);
	fill();
}

static void idle_lists_go_step_by_step(void **state)
{
	uint64_t now;

	begin();
	fill();
	now = near__os_ms();
	for (int i = 1; i < 100 && cached(); i++)
		near__transfer_decay(now + (uint64_t)i * STEP_MS);
	assert_int_equal(cached(), 0);
}

/* Without a deadline: the time limit of the test applies. */
static void an_idle_slot_is_emptied_in_the_background(void **state)
{
	begin();
	fill();
	near__malloc_conf.decay_ms = 1;
	near__malloc_conf.background = NEAR__BACKGROUND_ON;
	near__background_start();
	while (cached())
		usleep(10000);
	near__background_end();
}

/* An emptied slot that nobody uses is not emptied again, which would interrupt CPUs forever. */
static void an_idle_slot_is_emptied_once(void **state)
{
	uint64_t drained;

	begin();
	fill();
	near__malloc_conf.decay_ms = 1;
	near__malloc_conf.background = NEAR__BACKGROUND_ON;
	drained = near__drains.slots;
	near__background_start();
	while (__atomic_load_n(&near__drains.slots, __ATOMIC_RELAXED) == drained)
		usleep(10000);
	do {
		drained = __atomic_load_n(&near__drains.slots, __ATOMIC_RELAXED);
		usleep(600000); /* two periods */
	} while (__atomic_load_n(&near__drains.slots, __ATOMIC_RELAXED) != drained);
	assert_int_equal(cached(), 0);
	near__background_end();
}

static unsigned threads(void)
{
	struct stat s;

	assert_return_code(stat("/proc/self/task", &s), errno);
	return (unsigned)s.st_nlink - 2;
}

/* The child would start it for its parent, whose thread-local storage it uses. */
static void a_vfork_child_starts_no_thread(void **state)
{
	unsigned before;
	pid_t child;

	if (unit_emulated())
		skip(); /* vfork is fork there, and the emulator has threads */
	near__background_end();
	near__malloc_conf.background = NEAR__BACKGROUND_OFF;
	before = threads();
	child = vfork();
	if (child == 0) {
		near__malloc_conf.background = NEAR__BACKGROUND_ON;
		free(malloc(100000));
		free(malloc(SIZE));
		near__background_start();
		near__malloc_conf.background = NEAR__BACKGROUND_OFF;
		_exit(0);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(threads(), before);
	near__malloc_conf.background = NEAR__BACKGROUND_ON;
	near__background_start();
	assert_int_equal(threads(), before + 1);
	near__background_end();
	assert_int_equal(threads(), before);
}

int main(void)
{
	unit_pin(0, NULL); /* the test checks one slot */
	return UNIT_TESTS(a_small_heap_keeps_no_idle_large_blocks, without_quota_nothing_is_held,
			  idle_lists_go_step_by_step, an_idle_slot_is_emptied_in_the_background,
			  an_idle_slot_is_emptied_once, a_vfork_child_starts_no_thread);
}
