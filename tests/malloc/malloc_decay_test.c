/* SPDX-License-Identifier: MIT */
/* The transfer cache of a slot: its quota, the decay of idle lists, the background thread. */
#include "unit.h"

#include "malloc/api/fast.h"
#include "malloc/cache/background.h"
#include "malloc/base/conf.h"
#include "malloc/cache/cache.h"

#define SIZE 64
#define BLOCKS 4096 /* 32 lists */
#define STEP_MS 250

static struct near__cache *own(void)
{
	if (!near__thread_live() || !near__heap_ready() || !near__heap.caches)
		skip();
	free(malloc(SIZE));
	free(malloc(SIZE));
	return near__cache_now();
}

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

/* Lists in the transfer caches of all slots. */
static unsigned cached(void)
{
	unsigned sum = 0;

	for (unsigned s = 0; near_percpu_next(near__heap.caches, &s) && s < near__process.slots;
	     s++) {
		const struct near__cache *f = near_percpu_at(near__heap.caches, s);

		for (unsigned c = 1; c <= NEAR__SIZES; c++) {
			uint32_t n = __atomic_load_n(&f->transfers[c], __ATOMIC_RELAXED);

			sum += n && n != UINT32_MAX ? n - 1 : 0;
		}
	}
	return sum;
}

static void without_quota_nothing_is_held(void **state)
{
	uint64_t cache = near__malloc_conf.cache;

	own();
	near__reclaim();
	near__malloc_conf.cache = 0;
	for (unsigned s = 0; near_percpu_next(near__heap.caches, &s) && s < near__process.slots;
	     s++)
		((struct near__cache *)near_percpu_at(near__heap.caches, s))->quota = 0;
	take_and_free();
	near__malloc_conf.cache = cache;
	assert_int_equal(cached(), 0);
	take_and_free();
	assert_true(cached() > 0);
}

static void idle_lists_go_step_by_step(void **state)
{
	uint64_t now;

	own();
	near__reclaim();
	take_and_free();
	assert_true(cached() > 0);
	now = near__os_ms();
	for (int i = 1; i < 100 && cached(); i++)
		near__transfer_decay(now + (uint64_t)i * STEP_MS);
	assert_int_equal(cached(), 0);
}

/* Without a deadline: the time limit of the test applies. */
static void an_idle_slot_is_emptied_in_the_background(void **state)
{
	own();
	near__reclaim();
	take_and_free();
	assert_true(cached() > 0);
	near__malloc_conf.decay_ms = 1;
	near__malloc_conf.background = 1;
	near__background_start();
	while (cached())
		usleep(10000);
}

/* On one CPU: the test checks one slot. */
static void stay(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

int main(void)
{
	stay();
	return UNIT_TESTS(without_quota_nothing_is_held, idle_lists_go_step_by_step,
			  an_idle_slot_is_emptied_in_the_background);
}
