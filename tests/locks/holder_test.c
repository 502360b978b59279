/* SPDX-License-Identifier: MIT */
/* Waiting for a thread that does not exist: one line on standard error, and never by mistake. */
#include "mutex_waiters.h"

#include "filter.h"
#include "locks/owner.h"
#include "namespaces.h"

/* A thread's number, though not in practice. */
#define GARBAGE 0x3ffff7

static struct {
	struct near_mutex m;
	struct near_cond c;
	struct near_rwlock l;
	struct near_once o;
	unsigned release, in;
	uint32_t thread;
} all;

static void begin(void)
{
	memset(&all, 0, sizeof(all));
}

/* ---- threads that end ---- */

static void note_thread(void)
{
	__atomic_store_n(&all.thread, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

/* pthread_join returns when the thread has left user space, which is some time before the kernel
 * forgets its number. */
static void wait_until_gone(void)
{
	uint32_t thread = __atomic_load_n(&all.thread, __ATOMIC_ACQUIRE);

	while (syscall(SYS_tgkill, getpid(), thread, 0) == 0)
		usleep(100);
}

static void run_to_its_end(void *(*run)(void *))
{
	unit_join(unit_start(run, NULL));
	wait_until_gone();
}

static void *lock_and_end(void *unused)
{
	note_thread();
	near_mutex_lock(&all.m);
	return NULL;
}

static void *write_and_end(void *unused)
{
	note_thread();
	near_rwlock_write_lock(&all.l);
	return NULL;
}

/* Without the handlers by which near_once_call notices that its function was left. */
static int end_at_once(void *unused)
{
	note_thread();
	syscall(SYS_exit, 0);
	return 0;
}

static void *call_and_end(void *unused)
{
	near_once_call(&all.o, end_at_once, NULL);
	return NULL;
}

/* ---- threads that wait for them ---- */

static void lock(void)
{
	near_mutex_lock(&all.m);
}

/* The waiter sleeps when the holder ends. */
static void *end_while_another_waits(void *unused)
{
	lock_and_end(NULL);
	wait_for_waits(&all.m, NEAR__SPACE_MUTEX, 1);
	return NULL;
}

static void lock_before_it_ends(void)
{
	pthread_t holder = unit_start(end_while_another_waits, NULL);

	UNTIL(word_of(&all.m) & OWNER);
	lock();
	unit_join(holder);
}

static void *signal_and_end(void *unused)
{
	lock_and_end(NULL);
	near_cond_signal(&all.c);
	wait_for_waits(&all.m, NEAR__SPACE_MUTEX, 1);
	return NULL;
}

/* It has the signal, and waits for the mutex. */
static void wait_for_a_signal(void)
{
	near_mutex_lock(&all.m);
	unit_start(signal_and_end, NULL);
	near_cond_wait(&all.c, &all.m);
}

static void lock_with_a_token(void)
{
	struct near_cancel token = NEAR_CANCEL_INIT;

	near_mutex_lock_until(&all.m, 0, NULL, &token);
}

static void lock_garbage(void)
{
	all.m.word = (uint32_t)GARBAGE << NEAR__OWNER_SHIFT;
	lock();
}

static void read_it(void)
{
	near_rwlock_read_lock(&all.l);
}

static void write_it(void)
{
	near_rwlock_write_lock(&all.l);
}

static void call_once(void)
{
	unit_start(call_and_end, NULL); /* never joined: the C library does not know its end */
	UNTIL(__atomic_load_n(&all.thread, __ATOMIC_ACQUIRE));
	near_once_call(&all.o, end_at_once, NULL);
}

#define MUTEX "near_mutex or near_rwlock: the holder, thread "

static const struct lost_wait {
	void *(*hold_and_end)(void *unused); /* NULL: `wait` sees to it */
	void (*wait)(void);
	const char *whose;
} waits[] = {
	{lock_and_end, lock, MUTEX},
	{NULL, lock_before_it_ends, MUTEX},
	{NULL, wait_for_a_signal, MUTEX},
	{lock_and_end, lock_with_a_token, MUTEX},
	{NULL, lock_garbage, MUTEX},
	{write_and_end, read_it, "near_rwlock: the writer, thread "},
	{write_and_end, write_it, MUTEX},
	{NULL, call_once, "near_once_call: the caller of the function, thread "},
};

static void run_wait(void *wait)
{
	const struct lost_wait *w = wait;

	if (w->hold_and_end)
		run_to_its_end(w->hold_and_end);
	w->wait();
}

/* Whether the text is the line, with any number. */
static bool is_line(const char *text, const char *whose)
{
	static const char end[] = ", does not exist: it has ended, or the word was overwritten\n";
	size_t n = strlen("nearcpu: ") + strlen(whose);
	char begins[200];

	snprintf(begins, sizeof(begins), "nearcpu: %s", whose);
	return strncmp(text, begins, n) == 0 &&
	       strncmp(text + n + strspn(text + n, "0123456789"), end, strlen(end)) == 0;
}

static void run_again(void *wait)
{
	char number[32];

	snprintf(number, sizeof(number), "%td", (const struct lost_wait *)wait - waits);
	execl("/proc/self/exe", "holder_test", number, (char *)NULL);
	CHECK(!"execl");
}

static void stops(void (*run)(void *), const struct lost_wait *wait)
{
	static const char left_behind[] = "which the fork did not copy\n";
	char text[4096];
	int signal = 0;

	assert_int_equal(unit_capture(run, (void *)(uintptr_t)wait, text, sizeof(text), &signal),
			 -1);
	text[strcspn(text, "\n") + 1] = '\0'; /* qemu-user adds a line of its own */
	if (!is_line(text, wait->whose) && (run == run_again || !strstr(text, left_behind)))
		assert_string_equal(text, wait->whose);
	assert_int_equal(signal, SIGABRT);
}

/* A garbage number is near the largest: where that many threads exist, nothing is known. */
static bool is_given(uint32_t thread)
{
	return syscall(SYS_tkill, thread, 0) == 0 || errno != ESRCH;
}

static bool can_run(const struct lost_wait *wait)
{
	return wait->wait != lock_garbage || !is_given(GARBAGE);
}

/* In processes that did not fork. */
static void a_wait_for_a_thread_that_has_ended_stops(void **state)
{
	if (unit_emulated())
		skip(); /* the new program would not be emulated */
	for (size_t i = 0; i < LENGTH(waits); i++)
		if (can_run(&waits[i]))
			stops(run_again, &waits[i]);
}

/* In the children of a fork, where a thread that has ended before the wait is taken for one of the
 * parent; and the call of a function then is for another thread to do. */
static void so_does_one_in_a_forked_child(void **state)
{
	begin();
	for (size_t i = 0; i < LENGTH(waits); i++)
		if (waits[i].wait != call_once && can_run(&waits[i]))
			stops(run_wait, &waits[i]);
}

/* ---- threads that do not end ---- */

static void *hold_for_long(void *unused)
{
	note_thread();
	near_mutex_lock(&all.m);
	__atomic_store_n(&all.in, 1, __ATOMIC_RELEASE);
	UNTIL(__atomic_load_n(&all.release, __ATOMIC_ACQUIRE));
	near_mutex_unlock(&all.m);
	return NULL;
}

static pthread_t start_holder(void)
{
	pthread_t holder;

	begin();
	holder = unit_start(hold_for_long, NULL);
	UNTIL(__atomic_load_n(&all.in, __ATOMIC_ACQUIRE));
	return holder;
}

static void end_holder(pthread_t holder)
{
	__atomic_store_n(&all.release, 1, __ATOMIC_RELEASE);
	unit_join(holder);
}

/* Checks come after 100 and 300 ms. */
static void a_wait_for_a_thread_that_exists_goes_on(void **state)
{
	pthread_t holder = start_holder();
	struct waiter w = {.kind = &wait_mutex, .on = &all.m};

	start_waiter(&w);
	usleep(400000);
	assert_int_equal(waits_of(&w), 1);
	assert_false(near__owner_has_ended(&all.m.word));
	end_holder(holder);
	expect(&w, 0);
	assert_true(is_at_rest(&all.m));
	assert_false(near__owner_has_ended(&all.m.word));
}

/* ---- processes that cannot know ---- */

static uint32_t word_of_one_that_has_ended(void)
{
	begin();
	run_to_its_end(lock_and_end);
	return all.m.word;
}

static void a_filter_is_not_believed(void **state)
{
	static const int errors[] = {EPERM, ENOSYS, ESRCH};

	for (size_t i = 0; i < LENGTH(errors); i++)
		IN_CHILD() {
			uint32_t word = word_of_one_that_has_ended();

			CHECK(near__owner_has_ended(&word));
			if (!filter_out(SYS_tgkill, errors[i]))
				_exit(77);
			CHECK(!near__owner_has_ended(&word));
		}
}

/* Its threads are its parent's; getpid() is its own. */
static void a_vfork_child_waits_for_threads_of_its_parent(void **state)
{
	pthread_t holder = start_holder();
	uint32_t ended = 1023u << NEAR__OWNER_SHIFT;
	volatile bool thinks_so = true, of_no_thread = true;
	pid_t child;

	child = vfork();
	if (child == 0) {
		thinks_so = near__owner_has_ended(&all.m.word);
		of_no_thread = near__owner_has_ended(&ended);
		_exit(0);
	}
	assert_int_equal(unit_wait(child, NULL), 0);
	if (!unit_emulated()) { /* which make it a fork */
		assert_false(thinks_so);
		assert_false(of_no_thread);
	}
	end_holder(holder);
}

static int hold_in_clone(void *unused)
{
	hold_for_long(unused);
	syscall(SYS_exit_group, 0);
	return 0;
}

/* Its number is that of a thread of another process. */
static void the_holder_may_be_a_clone_that_shares_memory(void **state)
{
	static char stack[256 << 10] __attribute__((aligned(16)));
	bool has_ended;
	pid_t child;

	if (unit_emulated() || UNIT_SANITIZED)
		skip();
	begin();
	child = clone(hold_in_clone, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	assert_true(child > 0);
	UNTIL(__atomic_load_n(&all.in, __ATOMIC_ACQUIRE));
	has_ended = near__owner_has_ended(&all.m.word);
	__atomic_store_n(&all.release, 1, __ATOMIC_RELEASE);
	assert_int_equal(unit_wait(child, NULL), 0);
	assert_false(has_ended);
	assert_true(is_at_rest(&all.m));
}

static uint32_t ended;

static int thinks_it_has_ended(void)
{
	return near__owner_has_ended(&ended);
}

static void copy_after_an_end(void)
{
	ended = word_of_one_that_has_ended();
	CHECK(near__owner_has_ended(&ended) && in_copy(thinks_it_has_ended) == 0);
}

/* A fork that nobody noticed. */
static void nor_is_anything_known_in_the_child_of_a_bare_clone(void **state)
{
	if (unit_emulated() || UNIT_SANITIZED)
		skip();
	copy_after_an_end();
	IN_CHILD()
		be_first_process(copy_after_an_end);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		unit_run_child(run_wait, (void *)(uintptr_t)&waits[atoi(argv[1])]);
	return UNIT_TESTS(a_wait_for_a_thread_that_has_ended_stops, so_does_one_in_a_forked_child,
			  a_wait_for_a_thread_that_exists_goes_on, a_filter_is_not_believed,
			  a_vfork_child_waits_for_threads_of_its_parent,
			  the_holder_may_be_a_clone_that_shares_memory,
			  nor_is_anything_known_in_the_child_of_a_bare_clone);
}
