/* SPDX-License-Identifier: MIT */
/* Children of vfork run on their parent's memory without a registration: they are never live, all
 * structures work in them while other threads of the parent go on, and the parent is live
 * afterwards. */
#include "unit.h"

#include <spawn.h>

#include <nearcpu/counter.h>
#include <nearcpu/mutex.h>
#include <nearcpu/refcount.h>
#include <nearcpu/shared.h>
#include <nearcpu/stack.h>

#include "kernel/internal.h"

extern char **environ;

static struct {
	struct near_counter count;
	struct near_stack stack;
	struct near_refcount ref;
	struct near_shared shared;
} all;

static struct near_rseq_status status_now(void)
{
	struct near_rseq_status status;

	near_rseq_status(&status, sizeof(status));
	return status;
}

/* The exit status of a child of vfork that runs `run`. A frame of its own: the child writes to
 * it. */
static __attribute__((noinline)) pid_t start_vforked(int (*run)(void *), void *arg)
{
	pid_t child = vfork();

	if (child == 0)
		syscall(SYS_exit_group,
			run(arg)); /* sanitizers have an _exit that takes a second */
	return child;
}

static int vforked(int (*run)(void *), void *arg)
{
	pid_t child = start_vforked(run, arg);

	CHECK(child > 0);
	return unit_wait(child, NULL);
}

static int write_to(void *arg)
{
	*(int *)arg = 1;
	return 0;
}

/* Emulators make vfork a fork. */
static bool shares_memory(void)
{
	volatile int written = 0;

	CHECK(vforked(write_to, (void *)(uintptr_t)&written) == 0);
	return written;
}

/* ---- liveness ---- */

static int look_around(void *parent_is_live)
{
	struct near_rseq_status st = status_now();

	if (st.live || near__self.state != NEAR__VFORKED || near__self.area != &near__dead)
		return 1;
	if (near_slot() >= near_slots() || near_cpu() >= near_cpus() || near_cid() >= near_cpus())
		return 2;
	if (*(bool *)parent_is_live && strcmp(st.why, "this is the child of a vfork") != 0)
		return 3;
	return 0;
}

static void *be_parent(void *unused)
{
	bool live = status_now().live;
	struct near__thread before = near__self;

	CHECK(vforked(look_around, &live) == 0);
	CHECK(before.area == near__self.area && before.state == near__self.state);
	CHECK(before.index_mode == near__self.index_mode);
	CHECK(status_now().live == live);
	return NULL;
}

static void a_child_is_never_live_and_its_parent_is_again(void **state)
{
	be_parent(NULL);
	unit_join(unit_start(be_parent, NULL));
	for (unsigned i = 0; i < unit_scale(200); i++)
		be_parent(NULL);
}

static int add_one(void *unused)
{
	near_counter_add(&all.count, 1);
	return near__self.state == NEAR__VFORKED && near_slot() < near_slots() ? 0 : 1;
}

/* A thread that did nothing yet: its child decides nothing for it. */
static void *fork_first(void *live)
{
	CHECK(near__self.state == NEAR__NEW);
	CHECK(vforked(add_one, NULL) == 0);
	CHECK(near__self.state == NEAR__NEW);
	near_counter_add(&all.count, 1);
	CHECK(status_now().live == *(bool *)live);
	return NULL;
}

static void a_new_thread_may_begin_with_vfork(void **state)
{
	bool live = status_now().live;

	if (!shares_memory())
		skip();
	assert_int_equal(near_counter_init(&all.count), 0);
	for (unsigned i = 0; i < unit_scale(100); i++)
		unit_join(unit_start(fork_first, &live));
	assert_int_equal(near_counter_read(&all.count), 2 * unit_scale(100));
	near_counter_destroy(&all.count);
}

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

/* ---- everything at once ---- */

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

static void *hold_until_told(void *holds)
{
	near_mutex_lock(&mutex);
	__atomic_store_n((bool *)holds, true, __ATOMIC_RELEASE);
	while (__atomic_load_n((bool *)holds, __ATOMIC_ACQUIRE))
		usleep(100);
	near_mutex_unlock(&mutex);
	return NULL;
}

static void vfork_beside_a_holder(void *unused)
{
	bool holds = false;
	pthread_t t = unit_start(hold_until_told, &holds);

	while (!__atomic_load_n(&holds, __ATOMIC_ACQUIRE))
		usleep(100);
	CHECK(vforked(wait_for_held, NULL) == 0);
	__atomic_store_n(&holds, false, __ATOMIC_RELEASE);
	unit_join(t);
}

static void a_child_waits_for_a_thread_of_its_parent(void **state)
{
	vfork_beside_a_holder(NULL);
	unit_in_child(vfork_beside_a_holder, NULL);
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

static int add_fifty(void *unused)
{
	for (int i = 0; i < 50; i++)
		near_counter_add(&all.count, 1);
	return 0;
}

static void sum_slots(int64_t sums[2])
{
	sums[0] = sums[1] = 0;
	for (unsigned s = 0; near_percpu_next(all.count.p, &s); s++)
		sums[near_percpu_is_fallback(s)] += *(int64_t *)near_percpu_at(all.count.p, s);
}

/* Slots are never written by a child: the sequences of the parent's threads own them. */
static void a_child_writes_fallback_slots_only(void **state)
{
	int64_t before[2], after[2];

	if (!shares_memory())
		skip();
	assert_int_equal(near_counter_init(&all.count), 0);
	near_counter_add(&all.count, 100);
	sum_slots(before);
	assert_int_equal(vforked(add_fifty, NULL), 0);
	sum_slots(after);
	assert_int_equal(after[0], before[0]);
	assert_int_equal(after[1], before[1] + 50);
	near_counter_destroy(&all.count);
}

/* ---- vfork itself ---- */

static int return_arg(void *status)
{
	return (int)(uintptr_t)status;
}

static void vfork_without_processes(void *unused)
{
	struct rlimit one = {1, 1};
	bool live = status_now().live;
	pid_t child;

	if (setgid(65534) || setuid(65534) || setrlimit(RLIMIT_NPROC, &one))
		_exit(77);
	errno = 0;
	child = start_vforked(return_arg, NULL);
	if (child > 0)
		_exit(77); /* the limit does not hold here */
	CHECK(child == -1 && errno == EAGAIN);
	CHECK(near__self.state != NEAR__VFORKED);
	CHECK(status_now().live == live);
}

static void a_failed_vfork_sets_errno(void **state)
{
	int status;

	if (unit_emulated())
		skip();
	status = unit_wait(unit_fork(vfork_without_processes, NULL), NULL);
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

static void vfork_leaves_errno_and_registers(void **state)
{
	uintptr_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;

	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
	__asm__ volatile("" : "+r"(e), "+r"(f), "+r"(g), "+r"(h));
	errno = UNIT_ERRNO;
	assert_int_equal(vforked(return_arg, (void *)(uintptr_t)43), 43);
	assert_int_equal(errno, UNIT_ERRNO);
	assert_int_equal(a + b * 10 + c * 100 + d * 1000, 4321);
	assert_int_equal(e + f * 10 + g * 100 + h * 1000, 8765);
}

static int vfork_again(void *unused)
{
	if (vforked(return_arg, (void *)(uintptr_t)5) != 5)
		return 1;
	return near__self.state == NEAR__VFORKED && near__self.area == &near__dead ? 6 : 2;
}

static void a_child_may_vfork(void **state)
{
	bool live = status_now().live;

	assert_int_equal(vforked(vfork_again, NULL), 6);
	assert_int_equal(status_now().live, live);
}

static volatile int in_handler;

static void vfork_in_handler(int signal)
{
	int saved = errno;

	CHECK(vforked(add_one, NULL) == 0);
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
	struct sigaction action = {.sa_handler = vfork_in_handler}, old;
	bool live = status_now().live;

	if (!shares_memory())
		skip();
	assert_int_equal(near_counter_init(&all.count), 0);
	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	raise(SIGUSR1);
	assert_int_equal(status_now().live, live);
	assert_int_equal(vforked(raise_in_child, NULL), 8);
	assert_int_equal(in_handler, 2);
	assert_int_equal(near_counter_read(&all.count), 2);
	assert_int_equal(status_now().live, live);
	sigaction(SIGUSR1, &old, NULL);
	near_counter_destroy(&all.count);
}

static int run_true(void *unused)
{
	execl("/bin/true", "true", NULL);
	return 127;
}

static void programs_are_started_as_ever(void **state)
{
	char *const arguments[] = {(char *)"true", NULL};
	bool live = status_now().live;
	char word[16] = "";
	pid_t child;
	FILE *f;

	assert_int_equal(vforked(run_true, NULL), 0);
	assert_int_equal(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ), 0);
	assert_int_equal(unit_wait(child, NULL), 0);
	assert_int_equal(system("exit 9"), 9 << 8);
	f = popen("echo word", "r");
	assert_non_null(f);
	assert_non_null(fgets(word, sizeof(word), f));
	assert_int_equal(pclose(f), 0);
	assert_string_equal(word, "word\n");
	assert_int_equal(status_now().live, live);
}

int main(void)
{
	if (!NEAR__HAS_SEQ)
		return 77; /* vfork is the C library's: there is nothing to protect */
	return UNIT_TESTS(a_child_is_never_live_and_its_parent_is_again,
			  a_new_thread_may_begin_with_vfork, the_first_lock_may_be_a_childs,
			  a_child_waits_for_a_thread_of_its_parent,
			  children_use_all_while_others_run, a_child_writes_fallback_slots_only,
			  a_failed_vfork_sets_errno, vfork_leaves_errno_and_registers,
			  a_child_may_vfork, handlers_may_vfork, programs_are_started_as_ever);
}
