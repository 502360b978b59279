/* SPDX-License-Identifier: MIT */
/* Children of vfork run on their parent's memory without a registration: they are never live, and
 * the parent is live afterwards. vfork_use_test.c uses all structures in them. */
#include "vforks.h"

#include <spawn.h>

extern char **environ;

static struct near_counter count;

/* ---- liveness ---- */

static int check_child(void *parent_is_live)
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

	CHECK(vforked(check_child, &live) == 0);
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
	near_counter_add(&count, 1);
	return near__self.state == NEAR__VFORKED && near_slot() < near_slots() ? 0 : 1;
}

/* A thread that did nothing yet: its child decides nothing for it. */
static void *fork_first(void *live)
{
	CHECK(near__self.state == NEAR__NEW);
	CHECK(vforked(add_one, NULL) == 0);
	CHECK(near__self.state == NEAR__NEW);
	near_counter_add(&count, 1);
	CHECK(status_now().live == *(bool *)live);
	return NULL;
}

static void a_new_thread_may_begin_with_vfork(void **state)
{
	bool live = status_now().live;

	if (!shares_memory())
		skip();
	assert_int_equal(near_counter_init(&count), 0);
	for (unsigned i = 0; i < unit_scale(100); i++)
		unit_join(unit_start(fork_first, &live));
	assert_int_equal(near_counter_read(&count), 2 * unit_scale(100));
	near_counter_destroy(&count);
}

static int add_fifty(void *unused)
{
	for (int i = 0; i < 50; i++)
		near_counter_add(&count, 1);
	return 0;
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

	if (!shares_memory())
		skip();
	assert_int_equal(near_counter_init(&count), 0);
	near_counter_add(&count, 100);
	sum_slots(before);
	assert_int_equal(vforked(add_fifty, NULL), 0);
	sum_slots(after);
	assert_int_equal(after[0], before[0]);
	assert_int_equal(after[1], before[1] + 50);
	near_counter_destroy(&count);
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
	assert_int_equal(near_counter_init(&count), 0);
	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	raise(SIGUSR1);
	assert_int_equal(status_now().live, live);
	assert_int_equal(vforked(raise_in_child, NULL), 8);
	assert_int_equal(in_handler, 2);
	assert_int_equal(near_counter_read(&count), 2);
	assert_int_equal(status_now().live, live);
	sigaction(SIGUSR1, &old, NULL);
	near_counter_destroy(&count);
}

static int run_true(void *unused)
{
	execl("/bin/true", "true", NULL);
	return 127;
}

static void programs_start_as_without_the_library(void **state)
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
			  a_new_thread_may_begin_with_vfork, a_child_writes_fallback_slots_only,
			  a_failed_vfork_sets_errno, vfork_leaves_errno_and_registers,
			  a_child_may_vfork, handlers_may_vfork,
			  programs_start_as_without_the_library);
}
