/* SPDX-License-Identifier: MIT */
/* The caches of a process without sequences: the shards of the CPUs, and what threads keep. */
#include "stats.h"

#include <string.h>

#include "child.h"
#include "malloc/base/malloc_conf.h"
#include "malloc/cache/malloc_cache.h"
#include "malloc/central/central.h"
#include "team.h"

#define CLASS 8u /* of 112 bytes */
#define BATCH 128u

static unsigned length_of(uint64_t list)
{
	unsigned n = 0;

	while (!near__list_is_empty(list)) {
		near__list_take(&list);
		n++;
	}
	return n;
}

/* The central lists may return fewer. */
static uint64_t list_of(unsigned n)
{
	static uint64_t spare = NEAR__EMPTY_LIST;
	uint64_t list = NEAR__EMPTY_LIST;

	assert_int_equal(near__sizes[CLASS].batch, BATCH);
	while (n-- > 0) {
		if (near__list_is_empty(spare))
			spare = near__central_take(CLASS, BATCH);
		near__list_put(&list, near__list_take(&spare));
	}
	return list;
}

static uint64_t spills(void)
{
	struct near__central_stats s;

	near__central_stats(CLASS, &s);
	return s.spills;
}

static uint64_t refills(void)
{
	struct near__central_stats s;

	near__central_stats(CLASS, &s);
	return s.refills;
}

static void lists_stay_in_the_shard(void **state)
{
	uint64_t list = list_of(BATCH), other = list_of(BATCH), given = spills(), taken = refills();

	near__shard_give(CLASS, list, false);
	near__shard_give(CLASS, other, false);
	assert_int_equal(near__shard_take(CLASS, BATCH), other);
	assert_int_equal(near__shard_take(CLASS, BATCH), list);
	assert_int_equal(spills(), given);
	assert_int_equal(refills(), taken);
	near__central_give(CLASS, list);
	near__central_give(CLASS, other);
}

static void parts_of_lists(void **state)
{
	unsigned n = 0;

	near__shard_give(CLASS, list_of(BATCH), false);
	assert_int_equal(length_of(near__shard_take(CLASS, 5)), 5);
	assert_int_equal(length_of(near__shard_take(CLASS, 1)), 1);
	n = length_of(near__shard_take(CLASS, BATCH));
	assert_int_equal(n, BATCH - 6);
	/* From the central lists the rest of a list goes to the shard. */
	near__central_give(CLASS, list_of(BATCH));
	assert_int_equal(length_of(near__shard_take(CLASS, 7)), 7);
	assert_int_equal(length_of(near__shard_take(CLASS, BATCH)), BATCH - 7);
}

static void short_lists_are_joined(void **state)
{
	uint64_t lists[4];

	for (unsigned i = 0; i < 4; i++)
		lists[i] = list_of(i + 1);
	for (unsigned i = 0; i < 4; i++)
		near__shard_give(CLASS, lists[i], true);
	near__shard_give(CLASS, list_of(BATCH - 9), true);
	assert_int_equal(length_of(near__shard_take(CLASS, BATCH)), BATCH - 9);
	assert_int_equal(length_of(near__shard_take(CLASS, BATCH)), 10);
}

static void damage(void *unused)
{
	uint64_t list = list_of(3);

	near__shard_give(CLASS, list_of(5), true);
	*near__list_block(near__list_rest(list)) = 1;
	near__shard_give(CLASS, list, true);
	length_of(near__shard_take(CLASS, 2));
	length_of(near__shard_take(CLASS, BATCH));
}

static void damaged_links_stay(void **state)
{
	char text[256];
	int signal = 0;

	assert_int_equal(unit_capture(damage, NULL, text, sizeof(text), &signal), -1);
	assert_int_equal(signal, SIGABRT);
	assert_non_null(strstr(text, "write to a freed block"));
}

/* Half of those that a step finds unused since the step before, rounded up. */
static void idle_lists_leave(void **state)
{
	uint64_t now = near__os_ms() + 1000, given;

	for (unsigned i = 0; i < 9; i++)
		near__shard_give(CLASS, list_of(BATCH), false);
	near__shards_decay(now);
	given = spills();
	near__shard_give(CLASS, near__shard_take(CLASS, BATCH), false);
	near__shards_decay(now + 1);
	assert_int_equal(spills(), given);
	near__shards_decay(now + 1000);
	assert_int_equal(spills(), given + 4);
	near__shards_decay(now + 2000);
	assert_int_equal(spills(), given + 7);
	near__shards_decay(now + 3000);
	near__shards_decay(now + 4000);
	assert_int_equal(spills(), given + 9);
}

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu < 0 ? 0 : cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* The thread that decays may be on a CPU whose shard is not in use. */
static void idle_lists_leave_other_shards(void **state)
{
	uint64_t now = near__os_ms() + 10000, given;
	int cpu = sched_getcpu();

	near__shard_give(CLASS, list_of(BATCH), false);
	near__shard_give(CLASS, list_of(BATCH), false);
	given = spills();
	stay_on(!cpu);
	near__shards_decay(now);
	near__shards_decay(now + 1000);
	stay_on(cpu);
	assert_int_equal(spills(), given + 1);
	near__shards_empty();
}

static void a_shard_has_a_quota(void **state)
{
	uint64_t cache = near__malloc_conf.cache, given = spills();

	near__malloc_conf.cache = 0;
	near__shard_give(CLASS, list_of(BATCH), false);
	near__malloc_conf.cache = cache;
	assert_int_equal(spills(), given + 1);
}

/* ---- threads ---- */

static pthread_barrier_t barrier;
static const size_t sizes[] = {256, 512, 1024};
#define HELD 320
#define WAITING 60u

static void use_and_wait(unsigned number)
{
	void *volatile blocks[HELD]; /* compilers remove unused calls */

	blocks[0] = malloc(sizes[0]); /* the thread counts from here on */
	free(blocks[0]);
	pthread_barrier_wait(&barrier);
	for (unsigned s = 0; s < LENGTH(sizes); s++) {
		for (unsigned i = 0; i < HELD; i++)
			CHECK((blocks[i] = malloc(sizes[s])));
		for (unsigned i = 0; i < HELD; i++)
			free(blocks[i]);
	}
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
}

static void check_child(void *unused)
{
	struct near_malloc_stats s;

	CHECK(near_malloc_stats(&s, sizeof(s)) == 0);
	CHECK(s.threads == 1);
}

/* The more threads there are, the less each keeps; in a child there is one. */
static void waiting_threads_hold_little(void **state)
{
	uint64_t cache = near__malloc_conf.cache;
	size_t each = ((size_t)4 << 20) / 64 / WAITING;
	struct team t;

	near__malloc_conf.cache = (uint64_t)4 << 20;
	pthread_barrier_init(&barrier, NULL, WAITING + 1);
	team_start(&t, WAITING, use_and_wait);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	malloc_trim(0);
	assert_true(stats().threads > WAITING);
	assert_true(stats().cached <= WAITING * LENGTH(sizes) * each);
	assert_int_equal(unit_wait(unit_fork(check_child, NULL), NULL), 0);
	pthread_barrier_wait(&barrier);
	team_join(&t);
	assert_int_equal(stats().threads, 1);
	malloc_trim(0);
	assert_int_equal(stats().cached, 0);
	near__malloc_conf.cache = cache;
}

int main(void)
{
	free(malloc(1));
	if (near__heap.caches)
		return 77;
	stay_on(sched_getcpu()); /* the shard is that of the CPU */
	/* The others leave blocks behind that are in no cache and not in use. */
	return UNIT_TESTS(waiting_threads_hold_little, lists_stay_in_the_shard, parts_of_lists,
			  short_lists_are_joined, damaged_links_stay, idle_lists_leave,
			  idle_lists_leave_other_shards, a_shard_has_a_quota);
}
