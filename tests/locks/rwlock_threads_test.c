/* SPDX-License-Identifier: MIT */
/* near_rwlock with many threads: stress tests, the last user frees the lock. */
#include "rwlocks.h"

#include <nearcpu/counter.h>

#include "mover.h"

/* ---- stress ---- */

struct stress {
	struct near_rwlock l, inner;
	struct near_cancel token;
	unsigned steps, percent, threads;
	unsigned long a, b; /* guarded, not atomic: equal */
	int readers, writers, wrong;
	uint64_t seed;
	unsigned long written, read;
};

struct visitor {
	struct stress *stress;
	uint64_t random;
	pid_t tid;
};

static void check_inside(struct stress *s)
{
	__atomic_fetch_add(&s->readers, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&s->writers, __ATOMIC_RELAXED) || s->a != s->b)
		__atomic_fetch_add(&s->wrong, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&s->readers, 1, __ATOMIC_RELAXED);
}

static void change_inside(struct stress *s, uint32_t r)
{
	if (__atomic_fetch_add(&s->writers, 1, __ATOMIC_RELAXED) ||
	    __atomic_load_n(&s->readers, __ATOMIC_RELAXED) || s->a != s->b)
		__atomic_fetch_add(&s->wrong, 1, __ATOMIC_RELAXED);
	s->a++;
	if (r % 64 == 0)
		sched_yield();
	s->b++;
	__atomic_fetch_sub(&s->writers, 1, __ATOMIC_RELAXED);
}

static bool lock_somehow(struct stress *s, uint32_t r, bool writes)
{
	struct timespec soon;

	switch (r % 8) {
	case 0:
		return (writes ? near_rwlock_try_write_lock : near_rwlock_try_read_lock)(&s->l);
	case 1:
		soon = wait_in_ns(r >> 8 & 0xffff);
		return (writes ? near_rwlock_write_lock_until : near_rwlock_read_lock_until)(
			       &s->l, CLOCK_MONOTONIC, &soon, &s->token) == 0;
	default:
		(writes ? near_rwlock_write_lock : near_rwlock_read_lock)(&s->l);
		return true;
	}
}

static void read_inside(struct stress *s, uint32_t r)
{
	check_inside(s);
	if (r % 4 == 0) {
		near_rwlock_read_lock(&s->l);
		check_inside(s);
		if (r % 8 == 0)
			sched_yield();
		near_rwlock_read_unlock(&s->l);
	}
	if (r % 4 == 1) {
		near_rwlock_read_lock(&s->inner);
		near_rwlock_read_unlock(&s->inner);
	}
	check_inside(s);
	near_rwlock_read_unlock(&s->l);
}

static void write_inside(struct stress *s, uint32_t r)
{
	change_inside(s, r);
	if (r % 512 == 1)
		near_cancel_set(&s->token);
	if (r % 4 == 0) {
		near_rwlock_downgrade(&s->l);
		check_inside(s);
		near_rwlock_read_unlock(&s->l);
	} else {
		near_rwlock_write_unlock(&s->l);
	}
}

static struct near_counter signals;

static void on_signal(int signal)
{
	near_counter_add(&signals, 1);
}

static void *visit_often(void *arg)
{
	struct visitor *me = arg;
	struct stress *s = me->stress;
	unsigned long written = 0;

	__atomic_store_n(&me->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
	for (unsigned i = 0; i < s->steps; i++) {
		uint32_t r = unit_random(&me->random);
		bool writes = unit_random(&me->random) % 100 < s->percent;

		/* The bias is set and revoked all the time. */
		if (__atomic_load_n(&s->l.rebias_after, __ATOMIC_RELAXED) > 100)
			__atomic_store_n(&s->l.rebias_after, 20 + r % 16, __ATOMIC_RELAXED);
		if (!lock_somehow(s, r, writes))
			continue;
		if (writes) {
			write_inside(s, r >> 4);
			written++;
		} else {
			read_inside(s, r >> 4);
		}
	}
	__atomic_fetch_add(&s->written, written, __ATOMIC_RELAXED);
	__atomic_store_n(&me->tid, 0, __ATOMIC_RELAXED);
	return NULL;
}

struct moves {
	struct visitor *visitors;
	unsigned n, stop;
};

static void *move_them(void *arg)
{
	struct moves *moves = arg;
	struct mover m;

	mover_begin(&m, 7);
	while (!__atomic_load_n(&moves->stop, __ATOMIC_ACQUIRE)) {
		for (unsigned i = 0; i < moves->n; i++) {
			pid_t tid = __atomic_load_n(&moves->visitors[i].tid, __ATOMIC_RELAXED);

			if (tid && mover_bind(&m, tid))
				mover_release(&m, tid, 4);
		}
		usleep(200);
	}
	return NULL;
}

static void stress_with(unsigned threads, unsigned percent, bool zero,
			enum near_rwlock_policy policy)
{
	struct stress s = {
		.steps = unit_scale(120000) / threads, .percent = percent, .threads = threads};
	struct visitor visitors[32] = {0};
	struct moves moves = {visitors, threads, 0};
	pthread_t mover;

	rwlock_init_with(&s.l, !zero, policy);
	rwlock_init(&s.inner, true);
	for (unsigned t = 0; t < threads; t++)
		visitors[t] = (struct visitor){&s, t * 977 + percent, 0};
	/* ThreadSanitizer deadlocks if a signal arrives during a join. */
	unit_timer(UNIT_THREAD_SANITIZER ? 0 : 300, on_signal);
	mover = unit_start(move_them, &moves);
	unit_run(visit_often, visitors, sizeof(visitors[0]), threads);
	__atomic_store_n(&moves.stop, 1, __ATOMIC_RELEASE);
	unit_join(mover);
	unit_timer(0, NULL);
	assert_int_equal(s.wrong, 0);
	assert_int_equal(s.a, s.written);
	assert_int_equal(s.b, s.written);
	assert_false(has_readers(&s.l));
	assert_int_equal(writers_of(state_of(&s.l)), 0);
	assert_int_equal(waits_on(&s.l, NEAR__SPACE_RWLOCK), 0);
	assert_true(near_rwlock_try_write_lock(&s.l));
	near_rwlock_write_unlock(&s.l);
	near_rwlock_destroy(&s.l);
	near_rwlock_destroy(&s.inner);
}

static void stress_of_2_to_32_threads(void **state)
{
	static const unsigned threads[] = {2, 3, 8, 32}, percents[] = {1, 30};

	assert_int_equal(near_counter_init(&signals), 0);
	for (size_t i = 0; i < LENGTH(threads); i++)
		for (size_t k = 0; k < LENGTH(percents); k++)
			stress_with(threads[i], percents[k], false,
				    (i + k) % 2 ? NEAR_RWLOCK_WRITERS_FIRST
						: NEAR_RWLOCK_READERS_FIRST);
	stress_with(4, 10, true, NEAR_RWLOCK_READERS_FIRST);
	near_counter_destroy(&signals);
}

/* ---- freeing ---- */

struct object {
	struct near_rwlock l;
	int users; /* atomic */
};

struct users {
	pthread_barrier_t barrier;
	struct object *object;
	unsigned rounds, number;
};

static bool be_user(struct object *o, bool writes)
{
	bool last;

	(writes ? near_rwlock_write_lock : near_rwlock_read_lock)(&o->l);
	last = __atomic_sub_fetch(&o->users, 1, __ATOMIC_ACQ_REL) == 0;
	(writes ? near_rwlock_write_unlock : near_rwlock_read_unlock)(&o->l);
	return last;
}

/* The last one is a writer: it was alone, and all others have released the lock. */
static void *use_objects(void *arg)
{
	struct users *users = *(struct users **)arg;
	unsigned number = __atomic_fetch_add(&users->number, 1, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < users->rounds; i++) {
		struct object *o;

		if (pthread_barrier_wait(&users->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
			o = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
			CHECK(o != MAP_FAILED);
			o->users = 4;
			users->object = o;
		}
		pthread_barrier_wait(&users->barrier);
		o = users->object;
		if (be_user(o, (number + i) % 4 > 1)) {
			near_rwlock_write_lock(&o->l);
			near_rwlock_write_unlock(&o->l);
			munmap(o, 4096);
		}
		pthread_barrier_wait(&users->barrier);
	}
	return NULL;
}

static void the_last_user_frees_right_after_unlock(void **state)
{
	struct users users = {.rounds = unit_scale(3000)},
		     *all[4] = {&users, &users, &users, &users};

	pthread_barrier_init(&users.barrier, NULL, 4);
	unit_run(use_objects, all, sizeof(all[0]), 4);
	pthread_barrier_destroy(&users.barrier);
}

UNIT_MAIN(stress_of_2_to_32_threads, the_last_user_frees_right_after_unlock)
