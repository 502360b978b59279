/* SPDX-License-Identifier: MIT */
/* near_rwlock: misuse, freeing, and everything at once. */
#include "rwlocks.h"

#include <sys/mman.h>

#include <nearcpu/counter.h>

#include "mover.h"

/* ---- misuse ---- */

static struct near_rwlock misused;

static void unlock_free(void *unused)
{
	near_rwlock_read_unlock(&misused);
}

static void unlock_twice(void *unused)
{
	near_rwlock_read_lock(&misused);
	near_rwlock_read_unlock(&misused);
	unlock_free(unused);
}

static void *run_unlock(void *unused)
{
	unlock_free(unused);
	return NULL;
}

static void unlock_of_another(void *unused)
{
	near_rwlock_read_lock(&misused);
	unit_join(unit_start(run_unlock, unused));
}

static void write_unlock_free(void *unused)
{
	near_rwlock_write_unlock(&misused);
}

static void write_unlock_by_reader(void *unused)
{
	near_rwlock_read_lock(&misused);
	write_unlock_free(unused);
}

static void *run_write_unlock(void *unused)
{
	write_unlock_free(unused);
	return NULL;
}

static void write_unlock_of_another(void *unused)
{
	near_rwlock_write_lock(&misused);
	unit_join(unit_start(run_write_unlock, unused));
}

static void downgrade_free(void *unused)
{
	near_rwlock_downgrade(&misused);
}

static void read_then_write(void *unused)
{
	near_rwlock_read_lock(&misused);
	near_rwlock_write_lock(&misused);
}

static void read_then_write_until(void *unused)
{
	near_rwlock_read_lock(&misused);
	near_rwlock_write_lock_until(&misused, 0, NULL, NULL);
}

static void write_twice(void *unused)
{
	near_rwlock_write_lock(&misused);
	near_rwlock_write_lock(&misused);
}

static void write_then_read(void *unused)
{
	near_rwlock_write_lock(&misused);
	near_rwlock_read_lock(&misused);
}

static void destroy_read(void *unused)
{
	near_rwlock_read_lock(&misused);
	near_rwlock_destroy(&misused);
}

static void destroy_written(void *unused)
{
	near_rwlock_write_lock(&misused);
	near_rwlock_destroy(&misused);
}

static void read_destroyed(void *unused)
{
	near_rwlock_read_lock(&misused);
	near_rwlock_read_unlock(&misused);
	near_rwlock_destroy(&misused);
	near_rwlock_read_lock(&misused);
}

static void read_destroyed_whose_slots_are_used(void *unused)
{
	struct near_rwlock next;

	near_rwlock_read_lock(&misused);
	near_rwlock_read_unlock(&misused);
	near_rwlock_destroy(&misused);
	near_rwlock_init(&next);
	near__rwlock_count_on_slot(&next, 1);
	near_rwlock_read_lock(&misused);
}

static void write_destroyed(void *unused)
{
	near_rwlock_destroy(&misused);
	near_rwlock_write_lock(&misused);
}

static void unlock_destroyed(void *unused)
{
	near_rwlock_destroy(&misused);
	near_rwlock_read_unlock(&misused);
}

static const struct {
	void (*what)(void *);
	const char *line;
} misuses[] = {
	{unlock_free, "near_rwlock_read_unlock: this thread does not hold the lock for reading"},
	{unlock_twice, "near_rwlock_read_unlock: this thread does not hold the lock for reading"},
	{unlock_of_another,
	 "near_rwlock_read_unlock: this thread does not hold the lock for reading"},
	{write_unlock_free,
	 "near_rwlock_write_unlock: this thread does not hold the lock for writing"},
	{write_unlock_by_reader,
	 "near_rwlock_write_unlock: this thread does not hold the lock for writing"},
	{write_unlock_of_another,
	 "near_rwlock_write_unlock: this thread does not hold the lock for writing"},
	{downgrade_free, "near_rwlock_downgrade: this thread does not hold the lock for writing"},
	{read_then_write, "near_rwlock_write_lock: this thread holds the lock for reading"},
	{read_then_write_until, "near_rwlock_write_lock: this thread holds the lock for reading"},
	{write_twice, "near_rwlock_write_lock: this thread holds the lock already"},
	{write_then_read, "near_rwlock_read_lock: this thread holds the lock for writing"},
	{destroy_read, "near_rwlock_destroy: the lock is held, or waited for"},
	{destroy_written, "near_rwlock_destroy: the lock is held, or waited for"},
	{read_destroyed, "near_rwlock: the lock was destroyed"},
	{read_destroyed_whose_slots_are_used, "near_rwlock: the lock was destroyed"},
	{write_destroyed, "near_rwlock: the lock was destroyed"},
	{unlock_destroyed, "near_rwlock: the lock was destroyed"},
};

static void misuse_stops_with_one_line(void **state)
{
	for (unsigned zero = 0; zero < 2; zero++)
		for (size_t i = 0; i < LENGTH(misuses); i++) {
			rwlock_init(&misused, !zero);
			unit_dies(misuses[i].what, NULL, misuses[i].line);
			near_rwlock_destroy(&misused);
		}
}

/* What stood there before is forgotten, whatever this thread remembers of it. */
static void a_lock_may_stand_where_another_one_stood(void **state)
{
	struct near_rwlock l;

	for (unsigned i = 0; i < 3; i++) {
		near_rwlock_init(&l);
		near_rwlock_read_lock(&l);
		near_rwlock_read_unlock(&l);
		near_rwlock_destroy(&l);
		l = (struct near_rwlock)NEAR_RWLOCK_INIT;
		near_rwlock_read_lock(&l);
		assert_int_equal(state_of(&l), READER);
		near_rwlock_read_unlock(&l);
		assert_int_equal(state_of(&l), 0);
	}
}

/* ---- storms ---- */

struct storm {
	struct near_rwlock l, inner;
	struct near_cancel token;
	unsigned steps, percent, threads;
	unsigned long a, b; /* guarded, not atomic: equal */
	int readers, writers, wrong;
	uint64_t seed;
	unsigned long written, read;
};

struct stormer {
	struct storm *storm;
	uint64_t random;
	pid_t tid;
};

static void look_inside(struct storm *s)
{
	__atomic_fetch_add(&s->readers, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&s->writers, __ATOMIC_RELAXED) || s->a != s->b)
		__atomic_fetch_add(&s->wrong, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&s->readers, 1, __ATOMIC_RELAXED);
}

static void change_inside(struct storm *s, uint32_t r)
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

static bool lock_somehow(struct storm *s, uint32_t r, bool writes)
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

static void read_inside(struct storm *s, uint32_t r)
{
	look_inside(s);
	if (r % 4 == 0) {
		near_rwlock_read_lock(&s->l);
		look_inside(s);
		if (r % 8 == 0)
			sched_yield();
		near_rwlock_read_unlock(&s->l);
	}
	if (r % 4 == 1) {
		near_rwlock_read_lock(&s->inner);
		near_rwlock_read_unlock(&s->inner);
	}
	look_inside(s);
	near_rwlock_read_unlock(&s->l);
}

static void write_inside(struct storm *s, uint32_t r)
{
	change_inside(s, r);
	if (r % 512 == 1)
		near_cancel_set(&s->token);
	if (r % 4 == 0) {
		near_rwlock_downgrade(&s->l);
		look_inside(s);
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

static void *rage(void *arg)
{
	struct stormer *me = arg;
	struct storm *s = me->storm;
	unsigned long written = 0;

	__atomic_store_n(&me->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
	for (unsigned i = 0; i < s->steps; i++) {
		uint32_t r = unit_random(&me->random);
		bool writes = unit_random(&me->random) % 100 < s->percent;

		/* The bias comes and goes all the time. */
		if (__atomic_load_n(&s->l.calm, __ATOMIC_RELAXED) > 100)
			__atomic_store_n(&s->l.calm, 20 + r % 16, __ATOMIC_RELAXED);
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
	struct stormer *stormers;
	unsigned n, stop;
};

static void *move_them(void *arg)
{
	struct moves *moves = arg;
	struct mover m;

	mover_begin(&m, 7);
	while (!__atomic_load_n(&moves->stop, __ATOMIC_ACQUIRE)) {
		for (unsigned i = 0; i < moves->n; i++) {
			pid_t tid = __atomic_load_n(&moves->stormers[i].tid, __ATOMIC_RELAXED);

			if (tid && mover_bind(&m, tid))
				mover_release(&m, tid, 4);
		}
		usleep(200);
	}
	return NULL;
}

static void storm_of(unsigned threads, unsigned percent, bool zero, enum near_rwlock_policy policy)
{
	struct storm s = {
		.steps = unit_scale(120000) / threads, .percent = percent, .threads = threads};
	struct stormer stormers[32] = {0};
	struct moves moves = {stormers, threads, 0};
	pthread_t mover;

	rwlock_init_with(&s.l, !zero, policy);
	rwlock_init(&s.inner, true);
	for (unsigned t = 0; t < threads; t++)
		stormers[t] = (struct stormer){&s, t * 977 + percent, 0};
	/* ThreadSanitizer waits for itself for ever where a signal meets a join. */
	unit_timer(UNIT_THREAD_SANITIZER ? 0 : 300, on_signal);
	mover = unit_start(move_them, &moves);
	unit_run(rage, stormers, sizeof(stormers[0]), threads);
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

static void storms_of_2_to_32_threads(void **state)
{
	static const unsigned threads[] = {2, 3, 8, 32}, percents[] = {1, 30};

	assert_int_equal(near_counter_init(&signals), 0);
	for (size_t i = 0; i < LENGTH(threads); i++)
		for (size_t k = 0; k < LENGTH(percents); k++)
			storm_of(threads[i], percents[k], false,
				 (i + k) % 2 ? NEAR_RWLOCK_WRITERS_FIRST
					     : NEAR_RWLOCK_READERS_FIRST);
	storm_of(4, 10, true, NEAR_RWLOCK_READERS_FIRST);
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

/* The last is a writer: it was alone, and all others have let go. */
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

UNIT_MAIN(misuse_stops_with_one_line, a_lock_may_stand_where_another_one_stood,
	  storms_of_2_to_32_threads, the_last_user_frees_right_after_unlock)
