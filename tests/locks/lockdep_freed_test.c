/* SPDX-License-Identifier: MIT */
/* The lock-order checker and memory of our malloc: the locks in a block that is freed are
 * forgotten, as if they were destroyed. */
#include "lockdep_scenarios.h"

#include <nearcpu/malloc.h>

#include "locks/locks_state.h"

/* ---- blocks ---- */

/* Locks of which the graph knows. */
static uint32_t known(void)
{
	const struct near__lockdep *d = near__locks.lockdep;
	uint32_t n = 0;

	for (uint32_t i = 1; d && i <= d->nodes_used; i++)
		n += d->nodes[i].lock != NULL;
	return n;
}

static struct near_mutex *lock_at(void *block, size_t offset)
{
	return (struct near_mutex *)(void *)((char *)block + offset);
}

/* The first and the last of a block, which another allocation may have left anything in. */
static void use_ends(void *block, size_t size)
{
	struct near_mutex *first = lock_at(block, 0), *last = lock_at(block, size - sizeof(*last));

	memset(first, 0, sizeof(*first));
	memset(last, 0, sizeof(*last));
	in_order(first, last);
	CHECK(known() >= 2);
}

static const size_t sizes[] = {8, 16, 100, 256, 1000, 5000, 65536, 65544, 300000, 5 << 20};

/* A lock next to the block stays, which is at the beginning or the end of a larger one. */
static void free_each(void)
{
	for (unsigned i = 0; i < LENGTH(sizes); i++)
		for (size_t align = 8; align <= 65536; align *= 16) {
			void *p = align == 8 ? near_malloc(sizes[i])
					     : near_aligned_alloc(align, sizes[i]);

			CHECK(p);
			use_ends(p, sizes[i]);
			CHECK(known() == 2);
			near_free(p);
			CHECK(known() == 0);
		}
}

static const char *const modes[] = {
	"lock_check:1",
	"lock_check:1,malloc_check:1",
	"lock_check:1,heap_profile:/nonexistent/x,heap_sample:1",
	"lock_check:1,heap_profile:/nonexistent/x,heap_sample:1000000000",
};

static void in_each_mode(void (*run)(void))
{
	for (unsigned i = 0; i < LENGTH(modes); i++) {
		conf = modes[i];
		CHECKED()
			run();
		expect_cycles(0);
	}
	conf = modes[0];
}

static void a_block_that_is_freed_has_no_locks(void **state)
{
	in_each_mode(free_each);
}

/* A block that stays where it is keeps the locks in what is left of it. */
static void resize_each(void)
{
	static const struct {
		size_t from, to;
	} steps[] = {
		{112, 90},      {112, 16},        {16, 5000},       {200000, 100000},
		{70000, 69000}, {100000, 1000},   {1000, 100000},   {200000, 2000000},
		{112, 112},     {200000, 200000}, {300000, 300001}, {1 << 20, 64 << 20},
	};

	for (unsigned i = 0; i < LENGTH(steps); i++) {
		char *p = near_malloc(steps[i].from), *behind, *q;

		use_ends(p, steps[i].from);
		behind = near_malloc(steps[i].from); /* it cannot grow in place */
		q = near_realloc(p, steps[i].to);
		CHECK(q && behind);
		if (q != p)
			CHECK(known() == 0);
		else
			CHECK(known() == (steps[i].to < steps[i].from ? 1 : 2));
		near_free(q);
		CHECK(known() == 0);
		near_free(behind);
	}
}

static void a_block_that_is_resized_has_no_locks_in_what_it_leaves(void **state)
{
	in_each_mode(resize_each);
}

static void calls_on_nothing(void)
{
	in_order(&a, &b);
	near_free(NULL);
	near_free(near_malloc(0));
	near_free(near_realloc(NULL, 10));
	CHECK(!near_realloc(near_malloc(10), 0));
	CHECK(known() == 2);
}

static void other_locks_stay(void **state)
{
	in_each_mode(calls_on_nothing);
	CHECKED() {
		struct near_mutex *m = near_calloc(100, sizeof(*m));
		struct near_mutex *other = near_calloc(100, sizeof(*m));
		uintptr_t at = (uintptr_t)m;

		by_thread(&m[0], &m[1]);
		by_thread(&other[0], &other[99]);
		m = near_realloc(m, 90 * sizeof(*m));
		if ((uintptr_t)m != at) /* with malloc_check */
			by_thread(&m[0], &m[1]);
		near_free(other);
		by_thread(&m[1], &m[0]);
	}
	expect_cycles(1);
	assert_int_equal(count("2" IN_DEADLOCK), 1);
}

/* ---- addresses that are used again ---- */

static void use_again(unsigned n)
{
	while (n--) {
		struct near_mutex *x = near_calloc(1, 64), *y = near_calloc(1, 64);

		by_thread(n % 2 ? x : y, n % 2 ? y : x);
		in_order(n % 2 ? x : y, n % 2 ? y : x);
		near_free(n % 4 < 2 ? x : y);
		near_free(n % 4 < 2 ? y : x);
	}
}

static void new_objects_at_old_addresses(void **state)
{
	CHECKED()
		use_again(unit_scale(400));
	expect_cycles(0);
}

/* More locks come and go than there is room for. */
static void there_is_room_for_new_ones(void **state)
{
	CHECKED() {
		in_order(&a, &b);
		for (unsigned n = unit_scale(3 * NEAR__LOCKDEP_NODES); n--;) {
			struct near_mutex *m = near_calloc(2, sizeof(*m));

			in_order(&m[0], &m[1]);
			near_free(m);
		}
		in_order(&b, &a);
	}
	expect_cycles(1);
}

static void *pass_around(void *slots)
{
	struct near_mutex **all = slots;

	for (unsigned i = 0; i < unit_scale(5000); i++) {
		struct near_mutex *m = near_calloc(1, i % 100 ? 64 : 100000);
		unsigned first = (unsigned)((uintptr_t)m >> 6) % 2;

		in_order(&m[first], &m[!first]);
		/* Release and acquire: the other thread's locks come before this one frees them. */
		near_free(__atomic_exchange_n(&all[i % 64], m, __ATOMIC_ACQ_REL));
	}
	return NULL;
}

static void blocks_are_freed_by_other_threads(void **state)
{
	CHECKED() {
		static struct near_mutex *slots[64];
		pthread_t t[4];

		for (unsigned i = 0; i < LENGTH(t); i++)
			t[i] = unit_start(pass_around, slots);
		for (unsigned i = 0; i < LENGTH(t); i++)
			unit_join(t[i]);
		for (unsigned i = 0; i < LENGTH(slots); i++)
			near_free(slots[i]);
		CHECK(known() == 0);
	}
	expect_cycles(0);
}

/* ---- held locks ---- */

static void free_held(void)
{
	struct near_mutex *m = near_calloc(1, 64);

	near_mutex_lock(&a);
	near_mutex_lock(m);
	near_mutex_lock(&b);
	errno = 5;
	near_free(m);
	CHECK(errno == 5);
	near_mutex_unlock(&b);
	near_mutex_lock(&c); /* a alone is held */
	near_mutex_unlock(&c);
	near_mutex_unlock(&a);
	CHECK(near__locks_thread_peek()->lockdep->count == 0);
	in_order(&c, &b);
}

static void a_held_lock_that_is_freed_is_reported(void **state)
{
	CHECKED()
		free_held();
	assert_int_equal(status, 0);
	assert_int_equal(count("nearcpu: lock order: lock 0x"), 1);
	assert_int_equal(count(" is freed while this thread holds it\n"), 1);
	assert_int_equal(count("nearcpu:     held:   addr2line -e "), 1);
	assert_int_equal(count("nearcpu: "), 2);
	conf = "lock_check:2";
	CHECKED()
		free_held();
	assert_int_equal(status, -1);
	assert_int_equal(ended_by, SIGABRT);
	assert_int_equal(count("nearcpu: lock order: stopped, because of NEAR_CONF=lock_check:2\n"),
			 1);
	conf = "lock_check:1";
}

/* ---- forks ---- */

static struct near_sem is_held, may_end;

static void *hold_the_graph(void *unused)
{
	near_lock_lock(&near__locks.lockdep->lock);
	near_sem_post(&is_held);
	near_sem_wait(&may_end);
	near_lock_unlock(&near__locks.lockdep->lock);
	return unused;
}

/* A handler that was registered before the checker's, and so runs before it in a child. */
static bool drops_in_child;

static void drop_in_child(void)
{
	if (drops_in_child)
		near__lockdep_drop(&a, sizeof(a));
}

__attribute__((constructor(101))) static void register_early(void)
{
	pthread_atfork(NULL, NULL, drop_in_child);
}

static void children_of_forks_do_not_wait(void **state)
{
	CHECKED() {
		pthread_t t;

		in_order(&a, &b);
		t = unit_start(hold_the_graph, NULL);
		near_sem_wait(&is_held);
		drops_in_child = true;
		IN_CHILD()
			CHECK(known() == 0);
		near_sem_post(&may_end);
		unit_join(t);
		CHECK(known() == 2);
	}
	expect_cycles(0);
}

UNIT_MAIN(a_block_that_is_freed_has_no_locks,
	  a_block_that_is_resized_has_no_locks_in_what_it_leaves, other_locks_stay,
	  new_objects_at_old_addresses, there_is_room_for_new_ones,
	  blocks_are_freed_by_other_threads, a_held_lock_that_is_freed_is_reported,
	  children_of_forks_do_not_wait)
