/* SPDX-License-Identifier: MIT */
/* Children of vfork run on their parent's memory without a registration: they are never live, and
 * the parent is live afterwards. They may use locks and all structures while other threads of the
 * parent run. */
#include "children.h"

#include <nearcpu/mutex.h>
#include <spawn.h>

#include "counters.h"
#include "team.h"
#include "use_all.h"
#include "waits.h"

extern char **environ;

/* Returns what vfork does. A frame of its own: the child writes to it. */
static __attribute__((noinline)) pid_t start_vforked(int (*run)(void *), void *arg)
{
	pid_t child = vfork();

	if (child == 0)
		syscall(SYS_exit_group, run(arg));
	return child;
}

static int in_child(int (*run)(void *), void *arg)
{
	pid_t child = start_vforked(run, arg);

	CHECK(child > 0);
	return unit_wait(child, NULL);
}

/* The C library's second name, by which programs called it that are older than the first one. */
pid_t __vfork(void) __attribute__((weak));

static __attribute__((noinline)) int child_of_second_name(int (*run)(void *), void *arg)
{
	pid_t child = __vfork();

	if (child == 0)
		syscall(SYS_exit_group, run(arg));
	CHECK(child > 0);
	return unit_wait(child, NULL);
}

static void the_second_name_is_the_same(void **state)
{
	bool live = is_live();

	if (!&__vfork)
		skip();
	assert_int_equal(child_of_second_name(check_child, &live), 0);
	assert_int_equal(is_live(), live);
}

/* Where vfork is the C library's, there is nothing to protect. */
static inline const char *no_vfork(void)
{
	return NEAR__HAS_SEQ ? NULL : "this CPU has no sequences";
}

UNIT_CHILD(a_failed_vfork_sets_errno, unit_emulated())
{
	struct rlimit one = {1, 1};
	bool live = is_live();
	pid_t child;

	if (setgid(65534) || setuid(65534) || setrlimit(RLIMIT_NPROC, &one))
		_exit(77);
	errno = 0;
	child = start_vforked(return_arg, NULL);
	if (child > 0)
		_exit(77); /* the limit does not hold here */
	CHECK(child == -1 && errno == EAGAIN);
	CHECK(near__self.state != NEAR__VFORKED);
	CHECK(is_live() == live);
}

static void vfork_leaves_errno_and_registers(void **state)
{
	uintptr_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;

	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
	__asm__ volatile("" : "+r"(e), "+r"(f), "+r"(g), "+r"(h));
	errno = UNIT_ERRNO;
	assert_int_equal(in_child(return_arg, (void *)(uintptr_t)43), 43);
	assert_int_equal(errno, UNIT_ERRNO);
	assert_int_equal(a + b * 10 + c * 100 + d * 1000, 4321);
	assert_int_equal(e + f * 10 + g * 100 + h * 1000, 8765);
}

static volatile int in_handler;

static void vfork_in_handler(int signal)
{
	int saved = errno;

	CHECK(in_child(add_one, NULL) == 0);
	in_handler++;
	errno = saved;
}

static int raise_in_child(void *unused)
{
	kill(getpid(), SIGUSR1);
	return near__self.state == NEAR__VFORKED ? 8 : 1;
}

/* A handler of the parent, and one in the child, on the parent's memory. */
static void handlers_may_vfork(void **state)
{
	bool live = is_live();

	if (!shares_memory())
		skip();
	assert_int_equal(near_counter_init(&counted), 0);
	unit_on_signal(SIGUSR1, vfork_in_handler);
	raise(SIGUSR1);
	assert_int_equal(is_live(), live);
	assert_int_equal(in_child(raise_in_child, NULL), 8);
	assert_int_equal(in_handler, 2);
	assert_int_equal(near_counter_read(&counted), 2);
	assert_int_equal(is_live(), live);
	unit_on_signal(SIGUSR1, SIG_DFL);
	near_counter_destroy(&counted);
}

static int run_true(void *unused)
{
	execl("/bin/true", "true", NULL);
	return 127;
}

static void programs_start_as_without_the_library(void **state)
{
	char *const arguments[] = {(char *)"true", NULL};
	bool live = is_live();
	char word[16] = "";
	pid_t child;
	FILE *f;

	assert_int_equal(in_child(run_true, NULL), 0);
	assert_int_equal(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ), 0);
	assert_int_equal(unit_wait(child, NULL), 0);
	assert_int_equal(system("exit 9"), 9 << 8);
	f = popen("echo word", "r");
	assert_non_null(f);
	assert_non_null(fgets(word, sizeof(word), f));
	assert_int_equal(pclose(f), 0);
	assert_string_equal(word, "word\n");
	assert_int_equal(is_live(), live);
}

/* ---- locks and structures ---- */

static struct {
	struct near_counter count;
	struct near_stack stack;
	struct near_refcount ref;
	struct near_shared_counters shared;
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
	CHECK(in_child(lock_first, NULL) == 0);
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

struct user {
	struct near_stack_node node;
	struct near_stack_node *mine; /* given back at the end, one for each that was brought */
};

#define SIBLINGS 4
#define PARENTS 3
static struct user users[SIBLINGS + PARENTS];

/* Pushes the user's node, and pops one that may be another. */
static int use_once(void *arg)
{
	struct user *u = arg;
	void *p;

	near_counter_add(&all.count, 1);
	near_shared_counters_add(&all.shared, 0, 1);
	near_refcount_get(&all.ref);
	near_stack_push(&all.stack, u->mine);
	do
		u->mine = near_stack_pop(&all.stack);
	while (!u->mine && !(u->mine = near_stack_steal(&all.stack)));
	if (near_percpu_alloc(24, 8, &p) == 0)
		near_percpu_free(p);
	near_refcount_put(&all.ref);
	return 0;
}

static void go_on(unsigned number)
{
	struct user *u = &users[number];

	u->mine = &u->node;
	while (team_continues())
		use_once(u);
	near_stack_push(&all.stack, u->mine);
}

static void go_on_in_children(unsigned number)
{
	struct user *u = &users[SIBLINGS + number];
	unsigned rounds = unit_scale(400);

	u->mine = &u->node;
	for (unsigned i = 0; i < rounds; i++) {
		CHECK(in_child(use_once, u) == 0);
		use_once(u);
	}
	near_stack_push(&all.stack, u->mine);
}

/* The holder is a thread of the process that the child shares its memory with. */
static int wait_for_held(void *unused)
{
	struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, 10);

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
	CHECK(in_child(wait_for_held, NULL) == 0);
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
	struct team siblings;

	if (!shares_memory())
		skip();
	assert_int_equal(near_counter_init(&all.count), 0);
	assert_int_equal(near_stack_init(&all.stack), 0);
	assert_int_equal(near_refcount_init(&all.ref, NULL), 0);
	assert_int_equal(counters_open(&all.shared, 1), 0);
	team_start(&siblings, SIBLINGS, go_on);
	team_run(PARENTS, go_on_in_children);
	team_stop(&siblings);
	assert_true(near_counter_read(&all.count) >= (int64_t)(2 * PARENTS * unit_scale(400)));
	assert_int_equal(near_counter_read(&all.count), near_shared_counters_read(&all.shared, 0));
	assert_int_equal(list_length(near_stack_drain(&all.stack)), SIBLINGS + PARENTS);
	near_refcount_kill(&all.ref);
	assert_true(near_refcount_is_zero(&all.ref));
	near_refcount_destroy(&all.ref);
	near_stack_destroy(&all.stack);
	near_counter_destroy(&all.count);
	counters_close(&all.shared);
}

UNIT_MAIN_UNLESS(no_vfork(), a_child_is_never_live_and_its_parent_is_again,
		 a_new_thread_may_begin_with_a_child, a_child_writes_fallback_slots_only,
		 a_failed_vfork_sets_errno, the_second_name_is_the_same,
		 vfork_leaves_errno_and_registers, a_child_may_have_a_child, handlers_may_vfork,
		 programs_start_as_without_the_library, the_first_lock_may_be_a_childs,
		 a_child_waits_for_a_thread_of_its_parent, children_use_all_while_others_run)
