/* SPDX-License-Identifier: MIT */
/* Threads that begin and end: destructors, detached threads, handlers, forked children. */
#include <nearcpu/counter.h>
#include <nearcpu/stack.h>

#include "live.h"

static struct {
	struct near_counter count;
	struct near_stack stack;
	pthread_key_t early, late; /* their destructors run before and after the library's */
	int destroyed;
} leaving;

/* Runs in each round of destructors, on each side of the library's. */
static void use_in_destructor(void *value)
{
	struct near_stack_node node;
	uintptr_t rounds = (uintptr_t)value >> 1;
	pthread_key_t key = (uintptr_t)value & 1 ? leaving.late : leaving.early;
	void *p;

	errno = UNIT_ERRNO;
	near_counter_add(&leaving.count, 1);
	CHECK(near_cpu() < near_cpus() && near_slot() < near_slots());
	CHECK(near_percpu_alloc(48, 8, &p) == 0);
	near_percpu_free(p);
	near_stack_push(&leaving.stack, &node);
	CHECK(near_stack_steal(&leaving.stack) == &node);
	CHECK(errno == UNIT_ERRNO);
	status_now();
	__atomic_add_fetch(&leaving.destroyed, 1, __ATOMIC_RELAXED);
	if (rounds > 1)
		pthread_setspecific(key, (void *)((rounds - 1) << 1 | ((uintptr_t)value & 1)));
}

static void *leave(void *unused)
{
	near_counter_add(&leaving.count, 1);
	pthread_setspecific(leaving.early, (void *)(uintptr_t)(3 << 1));
	pthread_setspecific(leaving.late, (void *)(uintptr_t)(3 << 1 | 1));
	return NULL;
}

/* The early key exists before the library's: it is made in a constructor. */
__attribute__((constructor(101))) static void make_early_key(void)
{
	if (pthread_key_create(&leaving.early, use_in_destructor))
		abort();
}

static void destructors_of_a_leaving_thread_may_use_all(void **state)
{
	assert_int_equal(near_counter_init(&leaving.count), 0);
	assert_int_equal(near_stack_init(&leaving.stack), 0);
	assert_int_equal(pthread_key_create(&leaving.late, use_in_destructor), 0);
	for (int i = 0; i < 50; i++)
		unit_join(unit_start(leave, NULL));
	assert_int_equal(leaving.destroyed, 50 * 6);
	assert_int_equal(near_counter_read(&leaving.count), 50 * 7);
	pthread_key_delete(leaving.late);
	near_stack_destroy(&leaving.stack);
	near_counter_destroy(&leaving.count);
}

struct passers {
	struct near_counter count;
	unsigned left; /* threads that have not ended their work */
};

static void *pass(void *arg)
{
	struct passers *p = arg;

	for (int i = 0; i < 100; i++)
		near_counter_add(&p->count, 1);
	__atomic_sub_fetch(&p->left, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Their storage goes while the kernel may still write to it, unless the registration ends
 * before. */
static void detached_threads_come_and_go(void **state)
{
	unsigned n = unit_scale(2000);
	struct passers passers;
	pthread_attr_t attr;
	pthread_t thread;

	assert_int_equal(near_counter_init(&passers.count), 0);
	passers.left = n;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 << 10);
	for (unsigned i = 0; i < n; i++) {
		while (pthread_create(&thread, &attr, pass, &passers))
			usleep(1000); /* as many as may run concurrently */
		while (__atomic_load_n(&passers.left, __ATOMIC_ACQUIRE) + i > n + 16)
			sched_yield();
	}
	while (__atomic_load_n(&passers.left, __ATOMIC_ACQUIRE))
		sched_yield();
	assert_int_equal(near_counter_read(&passers.count), n * 100);
	pthread_attr_destroy(&attr);
	near_counter_destroy(&passers.count);
}

static struct near_counter signalled;

static void add_in_handler(int signal)
{
	near_counter_add(&signalled, 1);
}

static void *start_with_a_signal(void *arg)
{
	raise(SIGUSR1);
	near_counter_add(&signalled, 1);
	*(bool *)arg = is_live();
	return NULL;
}

static void a_threads_first_use_may_be_in_a_handler(void **state)
{
	bool live[8] = {false};

	assert_int_equal(near_counter_init(&signalled), 0);
	unit_on_signal(SIGUSR1, add_in_handler);
	unit_run(start_with_a_signal, live, sizeof(live[0]), LENGTH(live));
	for (size_t i = 0; i < LENGTH(live); i++)
		assert_int_equal(live[i], is_live());
	assert_int_equal(near_counter_read(&signalled), 2 * LENGTH(live));
	unit_on_signal(SIGUSR1, SIG_DFL);
	near_counter_destroy(&signalled);
}

static void a_forked_child_is_like_its_parent(void **state)
{
	bool live = is_live();

	IN_CHILD() {
		is_live();
		CHECK(near_slot() < near_slots());
		CHECK(near_counter_init(&signalled) == 0);
		near_counter_add(&signalled, 5);
		CHECK(near_counter_read(&signalled) == 5);
		unit_join(unit_start(pass, &(struct passers){.count = signalled, .left = 1}));
		CHECK(near_counter_read(&signalled) == 105);
	}
	IN_CHILD()
		CHECK(is_live() == live);
}

/* Not pthread_join: ThreadSanitizer does not know the main thread as one to join. */
static bool main_thread_is_gone(void)
{
	char path[64], state = 'Z';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d %*s %c", &state) != 1)
		state = 'Z';
	if (f)
		fclose(f);
	return state == 'Z';
}

static void *outlive_the_main_thread(void *unused)
{
	while (!main_thread_is_gone())
		usleep(1000);
	for (int i = 0; i < 1000; i++)
		near_counter_add(&signalled, 1);
	unit_join(unit_start(start_with_a_signal, &(bool){false}));
	_exit(near_counter_read(&signalled) == 2003 ? 0 : 1);
}

static void end_main_thread(void *unused)
{
	signal(SIGUSR1, add_in_handler);
	CHECK(near_counter_init(&signalled) == 0);
	for (int i = 0; i < 1001; i++)
		near_counter_add(&signalled, 1);
	unit_start(outlive_the_main_thread, NULL);
	pthread_exit(NULL);
}

static void the_main_thread_may_end_first(void **state)
{
#ifndef __GLIBC__
	/* musl's fork forgets to have the kernel unlock the list of threads when the child's main
	 * thread ends: a thread that then starts or joins another waits forever. */
	skip();
#endif
	if (unit_emulated())
		skip(); /* valgrind misses what the main stack pointed to */
	unit_in_child(end_main_thread, NULL);
}

UNIT_MAIN(destructors_of_a_leaving_thread_may_use_all, detached_threads_come_and_go,
	  a_threads_first_use_may_be_in_a_handler, a_forked_child_is_like_its_parent,
	  the_main_thread_may_end_first)
