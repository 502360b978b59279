/* SPDX-License-Identifier: MIT */
/* near_rwlock in the children of fork and vfork. */
#include "rwlocks.h"

struct held {
	struct near_rwlock l;
	unsigned release, in;
	bool writes;
};

static void *hold(void *arg)
{
	struct held *h = arg;

	if (h->writes)
		near_rwlock_write_lock(&h->l);
	else
		near_rwlock_read_lock(&h->l);
	__atomic_store_n(&h->in, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&h->release, __ATOMIC_ACQUIRE))
		usleep(100);
	if (h->writes)
		near_rwlock_write_unlock(&h->l);
	else
		near_rwlock_read_unlock(&h->l);
	return NULL;
}

static pthread_t start_holder(struct held *h, bool writes)
{
	h->writes = writes;
	h->in = h->release = 0;
	return unit_start(hold, h);
}

static void wait_for_holder(struct held *h)
{
	while (!__atomic_load_n(&h->in, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void end_holder(struct held *h, pthread_t t)
{
	__atomic_store_n(&h->release, 1, __ATOMIC_RELEASE);
	unit_join(t);
}

static void read_it(void *l)
{
	near_rwlock_read_lock(l);
	near_rwlock_read_unlock(l);
}

static void write_it(void *l)
{
	near_rwlock_write_lock(l);
	near_rwlock_write_unlock(l);
}

static void *run_read_and_write(void *l)
{
	read_it(l);
	write_it(l);
	return NULL;
}

static void try_to_write_and_destroy(void *l)
{
	read_it(l);
	CHECK(!near_rwlock_try_write_lock(l));
	read_it(l);
	near_rwlock_destroy(l);
}

static const char lost_reader[] =
	"near_rwlock_write_lock: a reader is a thread of the parent process, "
	"which the fork did not copy";
static const char no_writer[] =
	"near_rwlock: the writer is a thread of the parent process, which the fork did not copy";

static void write_it_beside_own_read(void *l)
{
	near_rwlock_read_unlock(l);
	write_it(l);
}

static void a_child_does_not_wait_for_readers_of_the_parent(void **state)
{
	struct held h;

	for (unsigned i = 0; i < 2; i++) {
		pthread_t t;

		rwlock_init(&h.l, i);
		t = start_holder(&h, false);
		wait_for_holder(&h);
		unit_in_child(read_it, &h.l);
		unit_dies(write_it, &h.l, lost_reader);
		unit_in_child(try_to_write_and_destroy, &h.l);
		/* This thread reads, too: once and nested. */
		near_rwlock_read_lock(&h.l);
		unit_dies(write_it_beside_own_read, &h.l, lost_reader);
		near_rwlock_read_unlock(&h.l);
		end_holder(&h, t);
		unit_in_child(write_it, &h.l);
		near_rwlock_destroy(&h.l);
	}
}

static void a_child_does_not_wait_for_a_writer_of_the_parent(void **state)
{
	struct held h;

	for (unsigned i = 0; i < 2; i++) {
		pthread_t t;

		rwlock_init(&h.l, i);
		t = start_holder(&h, true);
		wait_for_holder(&h);
		unit_dies(write_it, &h.l, no_writer);
		unit_dies(read_it, &h.l, no_writer);
		end_holder(&h, t);
		unit_in_child(write_it, &h.l);
		near_rwlock_destroy(&h.l);
	}
}

static void fork_again(void *l)
{
	pid_t child = unit_fork(write_it_beside_own_read, l);

	CHECK(child > 0 && unit_wait(child, NULL) == 0);
	near_rwlock_read_lock(l);
	near_rwlock_read_unlock(l);
	near_rwlock_read_unlock(l);
	CHECK(!has_readers(l));
	if (!UNIT_SANITIZED) /* their locks may be held for ever in it */
		unit_join(unit_start(run_read_and_write, l));
	write_it(l);
}

static void unlock_nested(void *l)
{
	for (int i = 0; i < 3; i++)
		near_rwlock_read_unlock(l);
	run_read_and_write(l);
	read_it(l);
}

static void the_child_unlocks_what_its_thread_read(void **state)
{
	struct near_rwlock l;

	for (unsigned i = 0; i < 2; i++) {
		rwlock_init(&l, i);
		near_rwlock_read_lock(&l);
		unit_in_child(fork_again, &l);
		near_rwlock_read_lock(&l);
		near_rwlock_read_lock(&l);
		unit_in_child(unlock_nested, &l);
		near_rwlock_read_unlock(&l);
		near_rwlock_read_unlock(&l);
		near_rwlock_read_unlock(&l);
		unit_in_child(write_it, &l);
		near_rwlock_destroy(&l);
	}
}

static void unlock_writing(void *l)
{
	CHECK(near_rwlock_is_mine(l));
	near_rwlock_write_unlock(l);
	CHECK(state_of(l) == 0);
	run_read_and_write(l);
}

static void downgrade_and_unlock(void *l)
{
	near_rwlock_downgrade(l);
	near_rwlock_read_unlock(l);
	run_read_and_write(l);
}

static void the_child_unlocks_what_its_thread_wrote(void **state)
{
	struct held h;

	for (unsigned i = 0; i < 2; i++) {
		pthread_t t;

		rwlock_init(&h.l, i);
		near_rwlock_write_lock(&h.l);
		t = start_holder(&h, false);
		wait_for_waits(&h.l, NEAR__SPACE_RWLOCK, 1);
		unit_in_child(unlock_writing, &h.l);
		unit_in_child(downgrade_and_unlock, &h.l);
		near_rwlock_write_unlock(&h.l);
		end_holder(&h, t);
		near_rwlock_destroy(&h.l);
	}
}

static void unlock_and_write(void *l)
{
	near_rwlock_read_unlock(l);
	CHECK(!(state_of(l) & ~BIASED));
	run_read_and_write(l);
}

static void a_writer_that_only_waited_is_not_in_the_child(void **state)
{
	struct held h;

	for (unsigned i = 0; i < 2; i++) {
		pthread_t t;

		rwlock_init(&h.l, i);
		near_rwlock_read_lock(&h.l);
		t = start_holder(&h, true);
		wait_for_waits(&h.l, NEAR__SPACE_RWLOCK, 1);
		unit_in_child(unlock_and_write, &h.l);
		near_rwlock_read_unlock(&h.l);
		end_holder(&h, t);
		near_rwlock_destroy(&h.l);
	}
}

static void *read_beside(void *l)
{
	read_it(l);
	CHECK(!(state_of(l) & LOST_READERS));
	return NULL;
}

/* A lock is made where this thread of the child knew another one: it need not search again. */
static void make_and_use(void *arg)
{
	struct near_rwlock *l = arg;

	for (unsigned i = 0; i < 6; i++) {
		rwlock_init(l, i / 2 % 2);
		near_rwlock_read_lock(l);
		CHECK(l->forks == near__lot.forks);
		if (!UNIT_SANITIZED)
			unit_join(unit_start(read_beside, l));
		near_rwlock_read_unlock(l);
		write_it(l);
		near_rwlock_destroy(l);
	}
}

static void a_child_makes_locks_of_its_own(void **state)
{
	struct near_rwlock l;

	unit_in_child(make_and_use, &l);
}

static void unlock_writing_in_child(void *l)
{
	pid_t child = unit_fork(unlock_writing, l);

	CHECK(child > 0 && unit_wait(child, NULL) == 0);
	unlock_writing(l);
}

static void a_child_of_the_child_unlocks_what_its_thread_wrote(void **state)
{
	struct near_rwlock l;

	rwlock_init(&l, true);
	near_rwlock_write_lock(&l);
	unit_in_child(unlock_writing_in_child, &l);
	near_rwlock_write_unlock(&l);
	near_rwlock_destroy(&l);
}

/* Held beyond what is known by name: then nobody is taken for an lost_reader. */
static void read_many(void *arg)
{
	struct near_rwlock *l = arg;

	for (unsigned i = 0; i < NEAR__HOLDS + 3; i++) {
		pthread_t t;

		if (!UNIT_SANITIZED) {
			t = unit_start(run_read_and_write, &l[i]);
			wait_for_waits(&l[i], NEAR__SPACE_RWLOCK, 1);
		}
		near_rwlock_read_unlock(&l[i]);
		if (!UNIT_SANITIZED)
			unit_join(t);
	}
	for (unsigned i = 0; i < NEAR__HOLDS + 3; i++)
		run_read_and_write(&l[i]);
}

static void the_child_unlocks_many_locks(void **state)
{
	struct near_rwlock l[NEAR__HOLDS + 3];

	for (unsigned i = 0; i < LENGTH(l); i++) {
		rwlock_init(&l[i], i % 2);
		near_rwlock_read_lock(&l[i]);
	}
	unit_in_child(read_many, l);
	for (unsigned i = 0; i < LENGTH(l); i++) {
		near_rwlock_read_unlock(&l[i]);
		near_rwlock_destroy(&l[i]);
	}
}

static void a_vfork_child_uses_the_word(void **state)
{
	struct near_rwlock l;
	pid_t child;

	near_rwlock_init(&l);
	read_it(&l);
	child = vfork();
	if (child == 0) {
		read_it(&l);
		write_it(&l);
		read_it(&l);
		_exit(0);
	}
	assert_int_equal(unit_wait(child, NULL), 0);
	assert_int_equal(state_of(&l), 0);
	run_read_and_write(&l);
	near_rwlock_destroy(&l);
}

UNIT_MAIN(a_child_does_not_wait_for_readers_of_the_parent,
	  a_child_does_not_wait_for_a_writer_of_the_parent, the_child_unlocks_what_its_thread_read,
	  the_child_unlocks_what_its_thread_wrote, a_writer_that_only_waited_is_not_in_the_child,
	  a_child_makes_locks_of_its_own, a_child_of_the_child_unlocks_what_its_thread_wrote,
	  the_child_unlocks_many_locks, a_vfork_child_uses_the_word)
