/* SPDX-License-Identifier: MIT */
/* The fork handlers of the core, of malloc and of libatomic, and the C library's list of streams; a
 * fork within a fork; a vfork child that is killed. */
#include "forks.h"

#include <nearcpu/lock.h>
#include <nearcpu/refcount.h>

#include "atfork.h"
#include "sleeps.h"

/* ---- while the C library's list of streams is held ---- */

static struct {
	FILE *stream;
	void (*use)(void); /* takes a lock of the part under test */
	pid_t flushes, forks;
	bool holds;
} all;

/* As getline() does: it holds the stream, and uses the library. */
static void *hold_stream(void *unused)
{
	flockfile(all.stream);
	__atomic_store_n(&all.holds, true, __ATOMIC_RELEASE);
	wait_until_asleep(&all.forks);
	all.use();
	funlockfile(all.stream);
	return unused;
}

/* It holds the list, and waits for the stream. */
static void *flush_all(void *unused)
{
	note_sleeper(&all.flushes);
	fflush(NULL);
	return unused;
}

UNIT_CALLS(end_at_once, NULL)

static void fork_while_flushing(void *unused)
{
	pthread_t holder, flusher;
	pid_t child;

	all.stream = fopen("/dev/null", "w");
	CHECK(all.stream);
	all.use();
	holder = unit_start(hold_stream, NULL);
	unit_await(&all.holds);
	flusher = unit_start(flush_all, NULL);
	wait_until_asleep(&all.flushes);
	note_sleeper(&all.forks);
	child = fork();
	if (child == 0) {
		fflush(NULL);
		unit_join(unit_start(flush_all, NULL)); /* the list is free for all */
		all.use();
		_exit(7);
	}
	CHECK(unit_wait(child, NULL) == 7);
	unit_join(holder);
	unit_join(flusher);
	unit_in_child(end_at_once, NULL);
	unit_join(unit_start(flush_all, NULL));
	fclose(all.stream);
}

/* musl's list has no name that we could use: near_malloc(3). */
#ifdef __GLIBC__
#define HAS_LIST 1
#else
#define HAS_LIST 0
#endif

static void with_list_held(void (*use)(void))
{
	if (!HAS_LIST)
		skip();
	skip_if_emulated();
	all.use = use;
	unit_in_child(fork_while_flushing, NULL);
}

static void allocate(void)
{
	use_some(MB);
}

static void kill_a_reference(void)
{
	struct near_refcount r;

	CHECK(near_refcount_init(&r, NULL) == 0);
	near_refcount_kill(&r);
	near_refcount_destroy(&r);
}

UNIT_TEST(malloc_forks_while_flushing, with_list_held(allocate))
UNIT_TEST(core_forks_while_flushing, with_list_held(kill_a_reference))
UNIT_TEST(libatomic_forks_while_flushing, with_list_held(exchange_an_object))

/* ---- within a fork ---- */

static void use_all(void *unused)
{
	allocate();
	kill_a_reference();
	exchange_an_object();
	fflush(NULL);
}

static void *use_all_as_thread(void *unused)
{
	use_all(unused);
	return unused;
}

static void prepare(void)
{
	for (unsigned i = atfork_n; i-- > 0;)
		atfork[i].prepare();
}

static void in_parent(void)
{
	for (unsigned i = 0; i < atfork_n; i++)
		atfork[i].parent();
}

/* As a signal handler that forks between two handlers of the outer fork. */
static void fork_within(void *unused)
{
	bool end = false;
	pthread_t other = unit_start(unit_await_in_thread, &end);

	CHECK(atfork_n >= 3);
	prepare();
	prepare();
	in_parent();
	in_parent();
	use_all(NULL);
	unit_join(unit_start(use_all_as_thread, NULL));
	unit_in_child(use_all, NULL);
	__atomic_store_n(&end, true, __ATOMIC_RELEASE);
	unit_join(other);
}

UNIT_TEST(a_fork_within_a_fork_leaves_locks_alone, unit_in_child(fork_within, NULL))

/* ---- a vfork child that is killed while it waits ---- */

static struct near_lock waited;
static struct {
	bool held;    /* atomic */
	pid_t waiter; /* atomic; 0: not yet */
} killed;

__attribute__((noinline)) static pid_t wait_in_vfork(void)
{
	pid_t child = vfork();

	if (child == 0) {
		__atomic_store_n(&killed.waiter, (pid_t)syscall(SYS_getpid), __ATOMIC_RELEASE);
		near_lock_lock(&waited);
		_exit(1);
	}
	return child;
}

static void *hold_until_it_waits(void *unused)
{
	near_lock_lock(&waited);
	__atomic_store_n(&killed.held, true, __ATOMIC_RELEASE);
	while (__atomic_load_n(&waited.word, __ATOMIC_RELAXED) < 2 * NEAR__LOCK_ONE)
		usleep(100);
	kill(__atomic_load_n(&killed.waiter, __ATOMIC_ACQUIRE), SIGKILL);
	return unused;
}

/* Over what the child left there. */
__attribute__((noinline)) static void overwrite_stack(void)
{
	volatile char room[8192];

	for (size_t i = 0; i < sizeof(room); i++)
		room[i] = 'A';
}

static void reset_in_child(void *unused)
{
	near_lock_reset_in_child(&waited);
	CHECK(waited.word == 0);
}

/* The note of a waiter is on its stack, which here is the parent's. */
static void a_vfork_child_that_waits_leaves_no_note(void **state)
{
	pthread_t holder;
	pid_t child;
	int signal = 0;

	skip_if_emulated();
	if (UNIT_SANITIZED || !NEAR__HAS_SEQ)
		skip(); /* where there are no sequences the library has no vfork of its own */
	holder = unit_start(hold_until_it_waits, NULL);
	unit_await(&killed.held);
	child = wait_in_vfork();
	assert_int_equal(unit_wait(child, &signal), -1);
	assert_int_equal(signal, SIGKILL);
	overwrite_stack();
	unit_join(holder);
	unit_in_child(reset_in_child, NULL);
}

UNIT_MAIN(malloc_forks_while_flushing, core_forks_while_flushing, libatomic_forks_while_flushing,
	  a_fork_within_a_fork_leaves_locks_alone, a_vfork_child_that_waits_leaves_no_note)
