/* SPDX-License-Identifier: MIT */
/* near_rwlock in the children of fork and vfork. */
#include "rwlocks.h"

static struct near_rwlock l;

/* ---- another thread of the parent ---- */

static struct waiter holder;
static unsigned holder_is_in, holder_release;

static void start_holder(bool writes)
{
	holder_is_in = holder_release = 0;
	holder = (struct waiter){.order = &holder_is_in, .release = &holder_release};
	start(&holder, &l, writes);
}

static void wait_for_holder(void)
{
	UNTIL(__atomic_load_n(&holder_is_in, __ATOMIC_ACQUIRE));
}

static void end_holder(void)
{
	__atomic_store_n(&holder_release, 1, __ATOMIC_RELEASE);
	expect(&holder, 0);
}

/* ---- uses ---- */

static void read_it(void)
{
	near_rwlock_read_lock(&l);
	near_rwlock_read_unlock(&l);
}

static void write_it(void)
{
	near_rwlock_write_lock(&l);
	near_rwlock_write_unlock(&l);
}

static void *read_and_write(void *lock)
{
	near_rwlock_read_lock(lock);
	near_rwlock_read_unlock(lock);
	near_rwlock_write_lock(lock);
	near_rwlock_write_unlock(lock);
	return NULL;
}

static void write_in_child(void)
{
	IN_CHILD()
		write_it();
}

/* ---- readers and writers of the parent ---- */

static void a_child_does_not_wait_for_readers_of_the_parent(void **state)
{
	static const char lost_reader[] =
		"near_rwlock_write_lock: a reader is a thread of the parent process, "
		"which the fork did not copy";

	EACH_RWLOCK(&l) {
		start_holder(false);
		wait_for_holder();
		IN_CHILD()
			read_it();
		DIES(lost_reader)
			write_it();
		IN_CHILD() {
			read_it();
			CHECK(!near_rwlock_try_write_lock(&l));
			read_it();
			near_rwlock_destroy(&l);
		}
		/* This thread reads, too: once and nested. */
		near_rwlock_read_lock(&l);
		DIES(lost_reader) {
			near_rwlock_read_unlock(&l);
			write_it();
		}
		near_rwlock_read_unlock(&l);
		end_holder();
		write_in_child();
	}
}

static void a_child_does_not_wait_for_a_writer_of_the_parent(void **state)
{
	static const char no_writer[] = "near_rwlock: the writer is a thread of the parent "
					"process, which the fork did not copy";

	EACH_RWLOCK(&l) {
		start_holder(true);
		wait_for_holder();
		DIES(no_writer)
			write_it();
		DIES(no_writer)
			read_it();
		end_holder();
		write_in_child();
	}
}

/* ---- what the thread that forks holds ---- */

static void fork_again(void)
{
	IN_CHILD() {
		near_rwlock_read_unlock(&l);
		write_it();
	}
	read_it();
	near_rwlock_read_unlock(&l);
	CHECK(!has_readers(&l));
	if (!UNIT_SANITIZED) /* their locks may be held for ever in it */
		unit_join(unit_start(read_and_write, &l));
	write_it();
}

static void the_child_unlocks_what_its_thread_read(void **state)
{
	EACH_RWLOCK(&l) {
		near_rwlock_read_lock(&l);
		IN_CHILD()
			fork_again();
		near_rwlock_read_lock(&l);
		near_rwlock_read_lock(&l);
		IN_CHILD() {
			for (int i = 0; i < 3; i++)
				near_rwlock_read_unlock(&l);
			read_and_write(&l);
			read_it();
		}
		for (int i = 0; i < 3; i++)
			near_rwlock_read_unlock(&l);
		write_in_child();
	}
}

static void unlock_writing(void)
{
	CHECK(near_rwlock_is_mine(&l));
	near_rwlock_write_unlock(&l);
	CHECK(state_of(&l) == 0);
	read_and_write(&l);
}

static void the_child_unlocks_what_its_thread_wrote(void **state)
{
	EACH_RWLOCK(&l) {
		near_rwlock_write_lock(&l);
		start_holder(false);
		wait_for_sleepers(&l, 1);
		IN_CHILD()
			unlock_writing();
		IN_CHILD() {
			near_rwlock_downgrade(&l);
			near_rwlock_read_unlock(&l);
			read_and_write(&l);
		}
		near_rwlock_write_unlock(&l);
		end_holder();
	}
}

static void a_writer_that_only_waited_is_not_in_the_child(void **state)
{
	EACH_RWLOCK(&l) {
		near_rwlock_read_lock(&l);
		start_holder(true);
		wait_for_sleepers(&l, 1);
		IN_CHILD() {
			near_rwlock_read_unlock(&l);
			CHECK(!(state_of(&l) & ~BIASED));
			read_and_write(&l);
		}
		near_rwlock_read_unlock(&l);
		end_holder();
	}
}

static void *read_beside(void *unused)
{
	read_it();
	CHECK(!(state_of(&l) & LOST_READERS));
	return unused;
}

/* A lock is made where this thread of the child knew another one: it need not search again. */
static void make_and_use(bool with_slots)
{
	rwlock_init(&l, with_slots);
	near_rwlock_read_lock(&l);
	CHECK(l.forks == near__lot.forks);
	if (!UNIT_SANITIZED)
		unit_join(unit_start(read_beside, NULL));
	near_rwlock_read_unlock(&l);
	write_it();
	near_rwlock_destroy(&l);
}

static void a_child_makes_locks_of_its_own(void **state)
{
	IN_CHILD()
		for (unsigned i = 0; i < 6; i++)
			make_and_use(i / 2 % 2);
}

static void unlock_in_child_too(void)
{
	IN_CHILD()
		unlock_writing();
	unlock_writing();
}

static void a_child_of_the_child_unlocks_what_its_thread_wrote(void **state)
{
	rwlock_init(&l, true);
	near_rwlock_write_lock(&l);
	IN_CHILD()
		unlock_in_child_too();
	near_rwlock_write_unlock(&l);
	near_rwlock_destroy(&l);
}

/* A thread of the child waits for each lock that the thread which forked holds. */
static void unlock_next_to_a_waiter(struct near_rwlock *held)
{
	pthread_t t;

	if (!UNIT_SANITIZED) {
		t = unit_start(read_and_write, held);
		wait_for_sleepers(held, 1);
	}
	near_rwlock_read_unlock(held);
	if (!UNIT_SANITIZED)
		unit_join(t);
}

/* Held beyond what is known by name: then no reader is taken for a lost one. */
static void the_child_unlocks_many_locks(void **state)
{
	struct near_rwlock many[NEAR__HOLDS + 3];

	for (unsigned i = 0; i < LENGTH(many); i++) {
		rwlock_init(&many[i], i % 2);
		near_rwlock_read_lock(&many[i]);
	}
	IN_CHILD() {
		for (unsigned i = 0; i < LENGTH(many); i++)
			unlock_next_to_a_waiter(&many[i]);
		for (unsigned i = 0; i < LENGTH(many); i++)
			read_and_write(&many[i]);
	}
	for (unsigned i = 0; i < LENGTH(many); i++) {
		near_rwlock_read_unlock(&many[i]);
		near_rwlock_destroy(&many[i]);
	}
}

static void a_vfork_child_uses_the_word(void **state)
{
	pid_t child;

	rwlock_init(&l, true);
	read_it();
	child = vfork();
	if (child == 0) {
		read_it();
		write_it();
		read_it();
		_exit(0);
	}
	assert_int_equal(unit_wait(child, NULL), 0);
	assert_int_equal(state_of(&l), 0);
	read_and_write(&l);
	near_rwlock_destroy(&l);
}

UNIT_MAIN(a_child_does_not_wait_for_readers_of_the_parent,
	  a_child_does_not_wait_for_a_writer_of_the_parent, the_child_unlocks_what_its_thread_read,
	  the_child_unlocks_what_its_thread_wrote, a_writer_that_only_waited_is_not_in_the_child,
	  a_child_makes_locks_of_its_own, a_child_of_the_child_unlocks_what_its_thread_wrote,
	  the_child_unlocks_many_locks, a_vfork_child_uses_the_word)
