/* SPDX-License-Identifier: MIT */
/* Children of clone(CLONE_VM) without CLONE_SETTLS run on their parent's thread-local storage,
 * where they find a registration that is not theirs. They are never live; the parent is live again
 * after CLONE_VFORK, and takes the portable path for good without it. Other flags are the C
 * library's. */
#include "children.h"
#include "locks/mutex.h"

#include <nearcpu/mutex.h>

#define STACK ((size_t)256 << 10)
#define LIKE_VFORK (CLONE_VM | CLONE_VFORK)

static struct near_mutex mutex;
static char *stack; /* of the child that a test makes without in_child */

static char *new_stack(void)
{
	return unit_map(STACK, MAP_PRIVATE);
}

struct start {
	int (*run)(void *);
	void *arg;
};

static int leave_with_status(void *start)
{
	struct start *s = start;
	int status = s->run(s->arg);

	syscall(SYS_exit_group, status);
	return status;
}

static int in_child(int (*run)(void *), void *arg)
{
	struct start start = {run, arg};
	char *own = new_stack();
	pid_t child = clone(leave_with_status, own + STACK, LIKE_VFORK | SIGCHLD, &start);
	int status = child < 0 ? -1 : unit_wait(child, NULL);

	munmap(own, STACK);
	return status;
}

static int set_up(void **state)
{
	stack = new_stack();
	return 0;
}

static int tear_down(void **state)
{
	return munmap(stack, STACK);
}

/* ---- without CLONE_VFORK ---- */

static bool child_ends;

static int go_on_in_child(void *unused)
{
	while (!__atomic_load_n(&child_ends, __ATOMIC_ACQUIRE)) {
		near_mutex_lock(&mutex);
		near_mutex_unlock(&mutex);
		near_counter_add(&counted, 1);
	}
	return near__self.state == NEAR__CLONED && !is_live() ? 0 : 1;
}

/* Both on one storage at the same time. */
static void *share_storage(void *unused)
{
	struct start start = {go_on_in_child, NULL};
	int64_t before[2], after[2];
	pid_t child;

	near_counter_add(&counted, 1);
	sum_slots(before);
	child = clone(leave_with_status, stack + STACK, CLONE_VM | SIGCHLD, &start);
	CHECK(child > 0);
	for (unsigned i = 0; i < unit_scale(20000); i++) {
		near_mutex_lock(&mutex);
		CHECK(mutex.word >> 10 == (uint32_t)syscall(SYS_gettid));
		near_mutex_unlock(&mutex);
		near_counter_add(&counted, 1);
	}
	CHECK(!is_live());
	__atomic_store_n(&child_ends, true, __ATOMIC_RELEASE);
	CHECK(unit_wait(child, NULL) == 0);
	CHECK(near__self.state == NEAR__CLONED && !is_live());
	sum_slots(after);
	CHECK(after[0] == before[0]);
	CHECK(after[1] >= before[1] + (int64_t)unit_scale(20000));
	return unused;
}

static void a_thread_that_shares_its_storage_is_not_live(void **state)
{
	bool live = is_live();

	if (getenv("NEAR_CONF") && strstr(getenv("NEAR_CONF"), "lock_check"))
		skip(); /* the checker keeps its notes in that storage */
	if (unit_emulated() || UNIT_SANITIZED)
		skip(); /* which share more than we do, or refuse these flags */
	assert_int_equal(near_counter_init(&counted), 0);
	unit_join(unit_start(share_storage, NULL));
	assert_int_equal(is_live(), live);
	assert_int_equal(mutex.word & ~ATOMIC_UNLOCK, 0); /* which stays with many CPUs */
	near_counter_destroy(&counted);
}

/* ---- clone itself ---- */

static void fails(int (*run)(void *), char *top, int flags)
{
	struct near__thread before = near__self;

	errno = 0;
	assert_int_equal(clone(run, top, flags, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_ptr_equal(near__self.area, before.area);
	assert_int_equal(near__self.state, before.state);
}

static void a_clone_that_fails_changes_nothing(void **state)
{
	bool live = is_live();

#ifdef __GLIBC__ /* musl checks neither */
	fails(NULL, stack + STACK, LIKE_VFORK | SIGCHLD);
	fails(NULL, stack + STACK, CLONE_VM | SIGCHLD);
	fails(NULL, stack + STACK, SIGCHLD);
	fails(return_arg, NULL, LIKE_VFORK | SIGCHLD);
#endif
	if (!unit_emulated()) { /* flags that contradict each other */
		fails(return_arg, stack + STACK, LIKE_VFORK | CLONE_THREAD);
		fails(return_arg, stack + STACK, CLONE_VM | CLONE_THREAD);
	}
	assert_int_equal(is_live(), live);
}

/* By near_mutex_lock, which must not be a sequence any more. */
static void a_thread_that_libc_does_not_know_is_noticed(void **state)
{
#if NEAR__LOCKS_BY_SEQ && defined __GLIBC__
	char before = __libc_single_threaded;

	__libc_single_threaded = 1;
	fails(return_arg, NULL, SIGCHLD);
	fails(return_arg, NULL, LIKE_VFORK | SIGCHLD);
	assert_true(__libc_single_threaded);
	fails(return_arg, NULL, CLONE_VM | SIGCHLD);
	assert_false(__libc_single_threaded);
	__libc_single_threaded = before;
#else
	skip();
#endif
}

static void ends_with(pid_t child, int status)
{
	assert_true(child > 0);
	assert_int_equal(unit_wait(child, NULL), status);
}

/* What fn returns is the child's status, also on a stack that is not aligned. */
static void the_result_of_fn_is_the_status(void **state)
{
	char *top = stack + STACK;

	ends_with(clone(return_arg, top, SIGCHLD, (void *)43), 43);
	ends_with(clone(return_arg, top, LIKE_VFORK | SIGCHLD, (void *)44), 44);
	ends_with(clone(return_arg, top - 24, LIKE_VFORK | SIGCHLD, (void *)45), 45);
}

static int is_like_its_parent(void *before)
{
	const struct near__thread *b = before;

	return b->state != near__self.state || b->area != near__self.area;
}

/* Without CLONE_VM the child has its own copy of child_tid. */
static void pass_on(int (*run)(void *), int flags)
{
	struct near__thread before = near__self;
	pid_t parent_tid = 0, child_tid = 0, child;

	flags |= CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD;
	child = clone(run, stack + STACK, flags, run == return_arg ? NULL : &before, &parent_tid,
		      flags & CLONE_SETTLS ? near__thread_pointer() : NULL, &child_tid);
	assert_int_equal(parent_tid, child);
	assert_int_equal(child_tid, flags & CLONE_VM ? child : 0);
	ends_with(child, 0);
}

/* The last three arguments arrive. The thread pointer given is the one it has anyway. */
static void the_last_arguments_are_passed_on(void **state)
{
	if (unit_emulated())
		skip(); /* there these flags are not for processes */
	is_live();
	pass_on(is_like_its_parent, LIKE_VFORK | CLONE_SETTLS);
	pass_on(return_arg, LIKE_VFORK);
	pass_on(is_like_its_parent, 0);
}

#ifdef __GLIBC__
/* The system call without the library's clone. */
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);

static int run_true(void *unused)
{
	execl("/bin/true", "true", NULL);
	return 127;
}

static void raw_children_may_execute_programs(void **state)
{
	bool live = is_live();
	struct near__thread before = near__self;

	for (int i = 0; i < 2; i++) {
		ends_with(__clone(i ? run_true : return_arg, stack + STACK, LIKE_VFORK | SIGCHLD,
				  NULL),
			  0);
		assert_ptr_equal(near__self.area, before.area);
		assert_int_equal(near__self.state, before.state);
		assert_int_equal(is_live(), live);
	}
}
#else
static void raw_children_may_execute_programs(void **state)
{
	skip();
}
#endif

int main(void)
{
	if (!NEAR__HAS_SEQ)
		return 77; /* clone is the C library's: there is nothing to protect */
	if (UNIT_THREAD_SANITIZER) {
		fputs("skipped: ThreadSanitizer's clone takes every child for one of fork\n",
		      stderr);
		return 77;
	}
	return UNIT_GROUP(set_up, NULL, tear_down, a_child_is_never_live_and_its_parent_is_again,
			  a_new_thread_may_begin_with_a_child, a_child_writes_fallback_slots_only,
			  a_child_may_have_a_child, a_thread_that_shares_its_storage_is_not_live,
			  a_clone_that_fails_changes_nothing,
			  a_thread_that_libc_does_not_know_is_noticed,
			  the_result_of_fn_is_the_status, the_last_arguments_are_passed_on,
			  raw_children_may_execute_programs);
}
