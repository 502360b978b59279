/* SPDX-License-Identifier: MIT */
/* Children of clone(CLONE_VM) without CLONE_SETTLS run on their parent's thread-local storage,
 * where they find a registration that is not theirs. They are never live; the parent is live again
 * after CLONE_VFORK, and takes the portable path for good without it. Other flags are the C
 * library's. */
#include "unit.h"

#include <nearcpu/counter.h>
#include <nearcpu/mutex.h>

#include "kernel/internal.h"

#define STACK ((size_t)256 << 10)
#define LIKE_VFORK (CLONE_VM | CLONE_VFORK)

static struct near_counter count;
static struct near_mutex mutex;

static bool is_live(void)
{
	struct near_rseq_status status;

	near_rseq_status(&status, sizeof(status));
	return status.live;
}

static char *new_stack(void)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(stack != MAP_FAILED);
	return stack;
}

/* Of a child that runs `run`: its exit status; -1: there is none, see errno. */
static int cloned(int (*run)(void *), void *arg, int flags)
{
	char *stack = new_stack();
	pid_t child = clone(run, stack + STACK, flags | SIGCHLD, arg);
	int saved = errno, status = child < 0 ? -1 : unit_wait(child, NULL);

	munmap(stack, STACK);
	if (child < 0)
		errno = saved;
	return status;
}

/* The child leaves immediately: sanitizers have work to do in _exit. */
static int end_with(int status)
{
	syscall(SYS_exit_group, status);
	return status;
}

static int write_to(void *arg)
{
	*(volatile int *)arg = 1;
	return end_with(0);
}

/* Emulators make a fork of it, or refuse. */
static bool shares_memory(int flags)
{
	volatile int written = 0;

	return cloned(write_to, (void *)(uintptr_t)&written, flags) == 0 && written;
}

/* ---- with CLONE_VFORK ---- */

static int check_child(void *parent_is_live)
{
	struct near_rseq_status st;

	near_rseq_status(&st, sizeof(st));
	if (st.live || near__self.state != NEAR__VFORKED || near__self.area != &near__dead)
		return end_with(1);
	if (near_slot() >= near_slots() || near_cpu() >= near_cpus() || near_cid() >= near_cpus())
		return end_with(2);
	if (*(bool *)parent_is_live && strcmp(st.why, "this is the child of a vfork") != 0)
		return end_with(3);
	return end_with(0);
}

static void *be_parent(void *unused)
{
	struct near__thread before;
	bool live = is_live();

	before = near__self;
	errno = UNIT_ERRNO;
	CHECK(cloned(check_child, &live, LIKE_VFORK) == 0);
	CHECK(errno == UNIT_ERRNO);
	CHECK(before.area == near__self.area && before.state == near__self.state);
	CHECK(before.index_mode == near__self.index_mode);
	CHECK(is_live() == live);
	return unused;
}

static void a_child_is_never_live_and_its_parent_is_again(void **state)
{
	be_parent(NULL);
	unit_join(unit_start(be_parent, NULL));
	for (unsigned i = 0; i < unit_scale(100); i++)
		be_parent(NULL);
}

static int add_one(void *unused)
{
	near_counter_add(&count, 1);
	return end_with(near__self.state == NEAR__VFORKED ? 0 : 1);
}

/* A thread that did nothing yet: its child decides nothing for it. */
static void *clone_first(void *live)
{
	CHECK(near__self.state == NEAR__NEW);
	CHECK(cloned(add_one, NULL, LIKE_VFORK) == 0);
	CHECK(near__self.state == NEAR__NEW);
	near_counter_add(&count, 1);
	CHECK(is_live() == *(bool *)live);
	return NULL;
}

static void a_new_thread_may_begin_with_clone(void **state)
{
	bool live = is_live();

	if (!shares_memory(LIKE_VFORK))
		skip();
	assert_int_equal(near_counter_init(&count), 0);
	unit_join(unit_start(clone_first, &live));
	assert_int_equal(near_counter_read(&count), 2);
	near_counter_destroy(&count);
}

static int add_fifty(void *unused)
{
	for (int i = 0; i < 50; i++)
		near_counter_add(&count, 1);
	return end_with(0);
}

static void sum_slots(int64_t sums[2])
{
	sums[0] = sums[1] = 0;
	for (unsigned s = 0; near_percpu_next(count.p, &s); s++)
		sums[near_percpu_is_fallback(s)] += *(int64_t *)near_percpu_at(count.p, s);
}

/* Slots are never written by a child: the sequences of the parent's threads own them. */
static void a_child_writes_fallback_slots_only(void **state)
{
	int64_t before[2], after[2];

	if (!shares_memory(LIKE_VFORK))
		skip();
	assert_int_equal(near_counter_init(&count), 0);
	near_counter_add(&count, 100);
	sum_slots(before);
	assert_int_equal(cloned(add_fifty, NULL, LIKE_VFORK), 0);
	sum_slots(after);
	assert_int_equal(after[0], before[0]);
	assert_int_equal(after[1], before[1] + 50);
	near_counter_destroy(&count);
}

static int clone_again(void *unused)
{
	if (cloned(check_child, &(bool){false}, LIKE_VFORK) != 0)
		return end_with(1);
	return end_with(near__self.state == NEAR__VFORKED ? 6 : 2);
}

static void a_child_may_clone(void **state)
{
	bool live = is_live();

	assert_int_equal(cloned(clone_again, NULL, LIKE_VFORK), 6);
	assert_int_equal(is_live(), live);
}

/* ---- without CLONE_VFORK ---- */

static bool child_ends;

static int go_on_in_child(void *unused)
{
	while (!__atomic_load_n(&child_ends, __ATOMIC_ACQUIRE)) {
		near_mutex_lock(&mutex);
		near_mutex_unlock(&mutex);
		near_counter_add(&count, 1);
	}
	return end_with(near__self.state == NEAR__CLONED && !is_live() ? 0 : 1);
}

/* Both on one storage at the same time. */
static void *share_storage(void *unused)
{
	char *stack = new_stack();
	struct near_rseq_status st;
	int64_t before[2], after[2];
	pid_t child;

	near_counter_add(&count, 1);
	sum_slots(before);
	child = clone(go_on_in_child, stack + STACK, CLONE_VM | SIGCHLD, NULL);
	CHECK(child > 0);
	for (unsigned i = 0; i < unit_scale(20000); i++) {
		near_mutex_lock(&mutex);
		CHECK(mutex.word >> 10 == (uint32_t)syscall(SYS_gettid));
		near_mutex_unlock(&mutex);
		near_counter_add(&count, 1);
	}
	near_rseq_status(&st, sizeof(st));
	CHECK(!st.live);
	__atomic_store_n(&child_ends, true, __ATOMIC_RELEASE);
	CHECK(unit_wait(child, NULL) == 0);
	CHECK(near__self.state == NEAR__CLONED && !is_live());
	sum_slots(after);
	CHECK(after[0] == before[0]);
	CHECK(after[1] >= before[1] + (int64_t)unit_scale(20000));
	munmap(stack, STACK);
	return unused;
}

static void a_thread_that_shares_its_storage_is_not_live(void **state)
{
	bool live = is_live();

	if (getenv("NEAR_CONF") && strstr(getenv("NEAR_CONF"), "lock_check"))
		skip(); /* the checker keeps its notes in that storage */
	if (unit_emulated() || UNIT_SANITIZED)
		skip(); /* which share more than we do, or refuse these flags */
	assert_int_equal(near_counter_init(&count), 0);
	unit_join(unit_start(share_storage, NULL));
	assert_int_equal(is_live(), live);
	assert_int_equal(mutex.word, 0);
	near_counter_destroy(&count);
}

/* ---- clone itself ---- */

static int return_arg(void *status)
{
	return (int)(uintptr_t)status;
}

static void fails(int (*run)(void *), char *stack, int flags, int error)
{
	struct near__thread before = near__self;

	errno = 0;
	assert_int_equal(clone(run, stack, flags, NULL), -1);
	assert_int_equal(errno, error);
	assert_ptr_equal(near__self.area, before.area);
	assert_int_equal(near__self.state, before.state);
}

static void a_clone_that_fails_changes_nothing(void **state)
{
	char *stack = new_stack();
	bool live = is_live();

#ifdef __GLIBC__ /* musl checks neither */
	fails(NULL, stack + STACK, LIKE_VFORK | SIGCHLD, EINVAL);
	fails(NULL, stack + STACK, CLONE_VM | SIGCHLD, EINVAL);
	fails(NULL, stack + STACK, SIGCHLD, EINVAL);
	fails(return_arg, NULL, LIKE_VFORK | SIGCHLD, EINVAL);
#endif
	if (!unit_emulated()) { /* flags that contradict each other */
		fails(return_arg, stack + STACK, LIKE_VFORK | CLONE_THREAD, EINVAL);
		fails(return_arg, stack + STACK, CLONE_VM | CLONE_THREAD, EINVAL);
	}
	assert_int_equal(is_live(), live);
	munmap(stack, STACK);
}

/* What fn returns is the child's status, also on a stack that is not aligned. */
static void the_result_of_fn_is_the_status(void **state)
{
	char *stack = new_stack();
	pid_t child;

	assert_int_equal(cloned(return_arg, (void *)(uintptr_t)43, 0), 43);
	assert_int_equal(cloned(return_arg, (void *)(uintptr_t)44, LIKE_VFORK), 44);
	child = clone(return_arg, stack + STACK - 24, LIKE_VFORK | SIGCHLD, (void *)(uintptr_t)45);
	assert_true(child > 0);
	assert_int_equal(unit_wait(child, NULL), 45);
	munmap(stack, STACK);
}

static int is_like_its_parent(void *before)
{
	const struct near__thread *b = before;

	return b->state != near__self.state || b->area != near__self.area;
}

/* The last three arguments arrive. The thread pointer given is the one it has anyway. */
static void the_last_arguments_are_passed_on(void **state)
{
	int flags = CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD;
	struct near__thread before;
	char *stack = new_stack();
	pid_t parent_tid = 0, child_tid = 0, child;

	if (unit_emulated())
		skip(); /* there these flags are not for processes */
	is_live();
	before = near__self;
	child = clone(is_like_its_parent, stack + STACK, flags | LIKE_VFORK | CLONE_SETTLS, &before,
		      &parent_tid, near__thread_pointer(), &child_tid);
	assert_true(child > 0);
	assert_int_equal(parent_tid, child);
	assert_int_equal(child_tid, child);
	assert_int_equal(unit_wait(child, NULL), 0);
	parent_tid = child_tid = 0;
	child = clone(return_arg, stack + STACK, flags | LIKE_VFORK, NULL, &parent_tid, NULL,
		      &child_tid);
	assert_true(child > 0);
	assert_int_equal(parent_tid, child);
	assert_int_equal(child_tid, child);
	assert_int_equal(unit_wait(child, NULL), 0);
	parent_tid = child_tid = 0;
	child = clone(is_like_its_parent, stack + STACK, flags, &before, &parent_tid, NULL,
		      &child_tid);
	assert_true(child > 0);
	assert_int_equal(parent_tid, child);
	assert_int_equal(child_tid, 0); /* it has its own copy */
	assert_int_equal(unit_wait(child, NULL), 0);
	munmap(stack, STACK);
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
	char *stack = new_stack();
	bool live = is_live();
	struct near__thread before = near__self;

	for (int i = 0; i < 2; i++) {
		pid_t child = __clone(i ? run_true : return_arg, stack + STACK,
				      LIKE_VFORK | SIGCHLD, NULL);

		assert_true(child > 0);
		assert_int_equal(unit_wait(child, NULL), 0);
		assert_ptr_equal(near__self.area, before.area);
		assert_int_equal(near__self.state, before.state);
		assert_int_equal(is_live(), live);
	}
	munmap(stack, STACK);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_is_never_live_and_its_parent_is_again),
		cmocka_unit_test(a_new_thread_may_begin_with_clone),
		cmocka_unit_test(a_child_writes_fallback_slots_only),
		cmocka_unit_test(a_child_may_clone),
		cmocka_unit_test(a_thread_that_shares_its_storage_is_not_live),
		cmocka_unit_test(a_clone_that_fails_changes_nothing),
		cmocka_unit_test(the_result_of_fn_is_the_status),
		cmocka_unit_test(the_last_arguments_are_passed_on),
#ifdef __GLIBC__
		cmocka_unit_test(raw_children_may_execute_programs),
#endif
	};

	if (!NEAR__HAS_SEQ)
		return 77; /* clone is the C library's: there is nothing to protect */
	if (UNIT_THREAD_SANITIZER) {
		fputs("skipped: ThreadSanitizer's clone takes every child for one of fork\n",
		      stderr);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
