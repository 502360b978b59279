/* SPDX-License-Identifier: MIT */
/* Children of vfork use locks and all structures while other threads of the parent run. */
#include "vforks.h"

#include <nearcpu/mutex.h>
#include <nearcpu/refcount.h>
#include <nearcpu/shared.h>
#include <nearcpu/stack.h>

static struct {
	struct near_counter count;
	struct near_stack stack;
	struct near_refcount ref;
	struct near_shared shared;
} all;

static struct near_mutex mutex;

static int lock_first(void *unused)
{
	near_mutex_lock(&mutex);
	if (!near_mutex_is_mine(&mutex) || near_mutex_try_lock(&mutex))
		return 1;
	near_mutex_unlock(&mutex);
	return mutex.word != 0;
}

static void *lock_after_child(void *unused)
{
	CHECK(vforked(lock_first, NULL) == 0);
	near_mutex_lock(&mutex);
	CHECK(mutex.word >> 10 == (uint32_t)syscall(SYS_gettid));
	near_mutex_unlock(&mutex);
	CHECK(mutex.word == 0);
	return unused;
}

/* A holder is known by its thread's number: the child leaves none of its own to its parent. */
static void the_first_lock_may_be_a_childs(void **state)
{
	if (!shares_memory())
		skip();
	unit_join(unit_start(lock_after_child, NULL));
	lock_after_child(NULL);
}

/* ---- all structures ---- */

static bool stop;

/* Pushes the node, and comes back with one that may be another. */
static struct near_stack_node *use_all(struct near_stack_node *node)
{
	void *p;

	near_counter_add(&all.count, 1);
	near_shared_add(&all.shared, 0, 1);
	near_refcount_get(&all.ref);
	near_stack_push(&all.stack, node);
	do
		node = near_stack_pop(&all.stack);
	while (!node && !(node = near_stack_steal(&all.stack)));
	if (near_percpu_alloc(&p, 24, 8) == 0)
		near_percpu_free(p);
	near_refcount_put(&all.ref);
	return node;
}

struct user {
	unsigned rounds;
	struct near_stack_node node;
	struct near_stack_node *mine; /* given back at the end, one for each that was brought */
};

static void *go_on(void *arg)
{
	struct user *u = arg;

	u->mine = &u->node;
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		u->mine = use_all(u->mine);
	near_stack_push(&all.stack, u->mine);
	return NULL;
}

static int use_all_once(void *arg)
{
	struct user *u = arg;

	u->mine = use_all(u->mine);
	return 0;
}

static void *go_on_in_children(void *arg)
{
	struct user *u = arg;

	u->mine = &u->node;
	for (unsigned i = 0; i < u->rounds; i++) {
		CHECK(vforked(use_all_once, u) == 0);
		use_all_once(u);
	}
	near_stack_push(&all.stack, u->mine);
	return NULL;
}

static unsigned length(const struct near_stack_node *list)
{
	unsigned n = 0;

	for (; list; list = list->next)
		n++;
	return n;
}

/* The holder is a thread of the process that the child shares its memory with. */
static int wait_for_held(void *unused)
{
	struct timespec soon;

	clock_gettime(CLOCK_MONOTONIC, &soon);
	soon.tv_sec += soon.tv_nsec >= 990000000;
	soon.tv_nsec = (soon.tv_nsec + 10000000) % 1000000000;
	return near_mutex_lock_until(&mutex, CLOCK_MONOTONIC, &soon, NULL) != -ETIMEDOUT;
}

static void *hold_until_released(void *holds)
{
	near_mutex_lock(&mutex);
	__atomic_store_n((bool *)holds, true, __ATOMIC_RELEASE);
	while (__atomic_load_n((bool *)holds, __ATOMIC_ACQUIRE))
		usleep(100);
	near_mutex_unlock(&mutex);
	return NULL;
}

static void vfork_next_to_a_holder(void *unused)
{
	bool holds = false;
	pthread_t t = unit_start(hold_until_released, &holds);

	while (!__atomic_load_n(&holds, __ATOMIC_ACQUIRE))
		usleep(100);
	CHECK(vforked(wait_for_held, NULL) == 0);
	__atomic_store_n(&holds, false, __ATOMIC_RELEASE);
	unit_join(t);
}

static void a_child_waits_for_a_thread_of_its_parent(void **state)
{
	vfork_next_to_a_holder(NULL);
	unit_in_child(vfork_next_to_a_holder, NULL);
}

static void children_use_all_while_others_run(void **state)
{
	unsigned rounds = unit_scale(400);
	struct user siblings[4], parents[3];
	pthread_t running[LENGTH(siblings)];

	if (!shares_memory())
		skip();
	assert_int_equal(near_counter_init(&all.count), 0);
	assert_int_equal(near_stack_init(&all.stack), 0);
	assert_int_equal(near_refcount_init(&all.ref, NULL), 0);
	assert_int_equal(near_shared_create(&all.shared, 8), 0);
	for (unsigned i = 0; i < LENGTH(siblings); i++)
		running[i] = unit_start(go_on, &siblings[i]);
	for (unsigned i = 0; i < LENGTH(parents); i++)
		parents[i].rounds = rounds;
	unit_run(go_on_in_children, parents, sizeof(parents[0]), LENGTH(parents));
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < LENGTH(siblings); i++)
		unit_join(running[i]);
	assert_true(near_counter_read(&all.count) >= (int64_t)(2 * LENGTH(parents) * rounds));
	assert_int_equal(near_counter_read(&all.count), near_shared_read(&all.shared, 0));
	assert_int_equal(length(near_stack_drain(&all.stack)), LENGTH(siblings) + LENGTH(parents));
	near_refcount_kill(&all.ref);
	assert_true(near_refcount_is_zero(&all.ref));
	near_refcount_destroy(&all.ref);
	near_stack_destroy(&all.stack);
	near_counter_destroy(&all.count);
	near_shared_close(&all.shared);
}

int main(void)
{
	if (!NEAR__HAS_SEQ)
		return 77; /* vfork is the C library's: there is nothing to protect */
	return UNIT_TESTS(the_first_lock_may_be_a_childs, a_child_waits_for_a_thread_of_its_parent,
			  children_use_all_while_others_run);
}
