/* SPDX-License-Identifier: MIT */
/* near_rwlock: its word and its slots, step by step; who waits for whom. */
#define _GNU_SOURCE
#include "waits.h"

#include <nearcpu/rwlock.h>

#include "fences.h"
#include "gate.h"
#include "rwlock.h"
#include "slots.h"

/* If not 0, so many ns pass between two looks at CLOCK_MONOTONIC. */
static long tick_ns;
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	static long now;

	if (!tick_ns || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, t);
	now += tick_ns;
	*t = (struct timespec){1000 + now / 1000000000, now % 1000000000};
	return 0;
}

static uint64_t word_of(const struct near_rwlock *l)
{
	return __atomic_load_n(&l->word, __ATOMIC_ACQUIRE);
}

/* Without the reads in peace. */
static uint64_t state_of(const struct near_rwlock *l)
{
	return word_of(l) & ~(PEACE_MAX * PEACE);
}

static bool has_slots(void)
{
	return near__process.usable;
}

static int64_t count_in(const struct near_rwlock *l, unsigned slot)
{
	return *(int64_t *)near_percpu_at(l->copies, slot);
}

static unsigned sleepers_of(const struct near_rwlock *l)
{
	return waits_on(l, NEAR__SPACE_RWLOCK);
}

static void wait_for_sleepers(const struct near_rwlock *l, unsigned n)
{
	wait_for_waits(l, NEAR__SPACE_RWLOCK, n);
}

static void wait_for_writers(const struct near_rwlock *l, unsigned n)
{
	wait_for_waits(&l->writers, NEAR__SPACE_MUTEX, n);
}

/* Other threads, whose results say what they found. */
static void *try_to_read(void *l)
{
	bool got = near_rwlock_try_read_lock(l);

	if (got)
		near_rwlock_read_unlock(l);
	return got ? l : NULL;
}

static void *try_to_write(void *l)
{
	bool got = near_rwlock_try_write_lock(l);

	CHECK(near_rwlock_is_mine(l) == got);
	if (got)
		near_rwlock_write_unlock(l);
	return got ? l : NULL;
}

static bool another_can(void *(*what)(void *), struct near_rwlock *l)
{
	void *result;

	assert_int_equal(pthread_join(unit_start(what, l), &result), 0);
	return result != NULL;
}

/* ---- states ---- */

static void zero_is_a_free_lock(void **state)
{
	struct near_rwlock l = NEAR_RWLOCK_INIT;

	(void)state;
	assert_int_equal(word_of(&l), 0);
	for (unsigned i = 0; i < 3; i++) {
		near_rwlock_read_lock(&l);
		assert_int_equal(word_of(&l), READER);
		assert_true(near_rwlock_try_read_lock(&l));
		assert_int_equal(word_of(&l), 2 * READER);
		assert_true(another_can(try_to_read, &l));
		assert_false(another_can(try_to_write, &l));
		assert_false(near_rwlock_try_write_lock(&l));
		near_rwlock_read_unlock(&l);
		near_rwlock_read_unlock(&l);
		assert_int_equal(word_of(&l), 0);
		near_rwlock_write_lock(&l);
		assert_int_equal(word_of(&l), WRITER);
		assert_true(near_rwlock_is_mine(&l));
		assert_false(near_rwlock_try_read_lock(&l));
		assert_false(near_rwlock_try_write_lock(&l));
		assert_false(another_can(try_to_read, &l));
		assert_false(another_can(try_to_write, &l));
		near_rwlock_write_unlock(&l);
		assert_int_equal(word_of(&l), 0);
		assert_false(near_rwlock_is_mine(&l));
		assert_true(another_can(try_to_write, &l));
	}
	assert_int_equal(fences_made(), 0);
	near_rwlock_destroy(&l);
}

static void readers_count_on_their_slots(void **state)
{
	struct near_rwlock l;

	(void)state;
	if (!has_slots())
		skip();
	assert_int_equal(near_rwlock_init(&l), 0);
	slots_enter(3);
	near_rwlock_read_lock(&l);
	assert_int_equal(count_in(&l, 3), 1);
	near_rwlock_read_lock(&l);
	assert_true(near_rwlock_try_read_lock(&l));
	assert_int_equal(count_in(&l, 3), 3);
	/* Elsewhere it leaves there, even where nobody was before. */
	slots_enter(100);
	near_rwlock_read_unlock(&l);
	near_rwlock_read_unlock(&l);
	assert_int_equal(count_in(&l, 3), 3);
	assert_int_equal(count_in(&l, 100), -2);
	assert_int_equal(word_of(&l), BIASED);
	assert_false(another_can(try_to_write, &l));
	near_rwlock_read_unlock(&l);
	slots_leave();
	assert_int_equal(word_of(&l), BIASED);
	assert_int_equal(fences_made(), 0);
	assert_true(another_can(try_to_write, &l));
	near_rwlock_destroy(&l);
}

static void a_writer_adds_the_slots_up(void **state)
{
	struct near_rwlock l;

	(void)state;
	if (!has_slots())
		skip();
	near_rwlock_init(&l);
	fences_made();
	for (unsigned s = 0; s < SLOTS_CPUS; s += 9) {
		slots_enter(s);
		near_rwlock_read_lock(&l);
	}
	slots_leave();
	/* As another thread would: this one may not. */
	near_mutex_lock(&l.writers);
	assert_int_equal(near__rwlock_claim(&l), WRITER | BIASED);
	near__rwlock_revoke(&l);
	assert_int_equal(word_of(&l), WRITER + 15 * READER);
	near__rwlock_revoke(&l);
	assert_int_equal(fences_made(), 1);
	for (unsigned s = 0; s < SLOTS_CPUS; s += 9) {
		assert_int_equal(count_in(&l, s), 0);
		slots_enter(s);
		near_rwlock_read_unlock(&l);
		assert_int_equal(count_in(&l, s), 0);
	}
	slots_leave();
	assert_int_equal(word_of(&l), WRITER);
	assert_false(another_can(try_to_read, &l));
	near_rwlock_write_unlock(&l);
	assert_int_equal(word_of(&l), 0);
	near_rwlock_destroy(&l);
}

/* ---- bias ---- */

static void read_n_times(struct near_rwlock *l, unsigned n)
{
	while (n--) {
		near_rwlock_read_lock(l);
		near_rwlock_read_unlock(l);
	}
}

static void bias_comes_back_after_calm_reads(void **state)
{
	struct near_rwlock l;

	(void)state;
	if (!has_slots())
		skip();
	near_rwlock_init(&l);
	fences_made();
	read_n_times(&l, 10);
	for (unsigned i = 0; i < 3; i++) {
		near_rwlock_write_lock(&l);
		assert_int_equal(fences_made(), 1);
		near_rwlock_write_unlock(&l);
		l.calm = 50;
		read_n_times(&l, 30);
		assert_int_equal(word_of(&l), 30 * PEACE);
		/* Another writer: no fence, and the count begins anew. */
		near_rwlock_write_lock(&l);
		assert_int_equal(word_of(&l), WRITER);
		near_rwlock_write_unlock(&l);
		assert_true(near_rwlock_try_write_lock(&l));
		near_rwlock_write_unlock(&l);
		read_n_times(&l, 49);
		assert_int_equal(word_of(&l), 49 * PEACE);
		assert_int_equal(fences_made(), 0);
		near_rwlock_read_lock(&l);
		assert_int_equal(fences_made(), 1);
		/* It came in by the word, and leaves by a slot. */
		assert_int_equal(word_of(&l), BIASED + READER);
		near_rwlock_read_unlock(&l);
		assert_int_equal(word_of(&l), BIASED + READER);
		read_n_times(&l, 10);
		assert_int_equal(word_of(&l), BIASED + READER);
		assert_true(another_can(try_to_read, &l));
	}
	assert_true(another_can(try_to_write, &l));
	near_rwlock_destroy(&l);
}

static void bias_does_not_come_back_beside_a_writer(void **state)
{
	struct near_rwlock l;

	(void)state;
	if (!has_slots())
		skip();
	near_rwlock_init(&l);
	near_rwlock_write_lock(&l);
	near_rwlock_downgrade(&l);
	l.calm = 2;
	near_mutex_lock(&l.writers);
	near__rwlock_claim(&l);
	fences_made();
	read_n_times(&l, 10); /* nested */
	assert_int_equal(state_of(&l), WRITER + READER);
	near__rwlock_restore_bias(&l);
	near_mutex_unlock(&l.writers);
	near__rwlock_leave(&l, 0);
	/* Nor while somebody changes gates; but right after. */
	near__gates_lock();
	read_n_times(&l, 10);
	assert_int_equal(fences_made(), 0);
	near__gates_unlock();
	read_n_times(&l, 1);
	assert_int_equal(fences_made(), 1);
	assert_true(word_of(&l) & BIASED);
	near_rwlock_read_unlock(&l);
	near_rwlock_destroy(&l);
}

static uint32_t calm_after(long ns)
{
	struct near_rwlock l;
	uint32_t calm;

	near_rwlock_init(&l);
	tick_ns = ns;
	near_rwlock_write_lock(&l);
	tick_ns = 0;
	near_rwlock_write_unlock(&l);
	calm = l.calm;
	near_rwlock_destroy(&l);
	return calm;
}

static void calm_goes_by_cpus_and_the_cost_of_fences(void **state)
{
	(void)state;
	if (!has_slots())
		skip();
	assert_int_equal(calm_after(2000), 1000 * near_cpus());
	assert_int_equal(calm_after(4000), 2000 * near_cpus());
	assert_int_equal(calm_after(1), 1000);
	assert_int_equal(calm_after(900000000), PEACE_MAX);
}

/* A slot that nobody used, while its gate must not be opened: the word takes the count. */
static void who_cannot_open_a_gate_uses_the_word(void **state)
{
	struct near_rwlock l;

	(void)state;
	if (!has_slots())
		skip();
	near_rwlock_init(&l);
	near__gates_lock();
	near_rwlock_read_lock(&l);
	assert_int_equal(word_of(&l), BIASED + READER);
	near__gates_unlock();
	near_rwlock_read_unlock(&l);
	assert_int_equal(near__rwlock_sum(&l, false), -1);
	assert_true(another_can(try_to_write, &l));
	/* Fresh gates stay closed while there is no bias. */
	slots_enter(77);
	near_rwlock_read_lock(&l);
	assert_int_equal(((struct copy *)near_percpu_at(l.copies, 77))->gate, NEAR__UNOPENED);
	near_rwlock_read_unlock(&l);
	slots_leave();
	assert_int_equal(state_of(&l), 0);
	near_rwlock_destroy(&l);
}

static void try_write_fences_only_if_it_may_succeed(void **state)
{
	struct near_rwlock l;

	(void)state;
	near_rwlock_init(&l);
	near_rwlock_read_lock(&l);
	fences_made();
	for (unsigned i = 0; i < 5; i++)
		assert_false(another_can(try_to_write, &l));
	assert_int_equal(fences_made(), 0);
	near_rwlock_read_unlock(&l);
	assert_true(near_rwlock_try_write_lock(&l));
	assert_int_equal(fences_made(), has_slots());
	near_rwlock_write_unlock(&l);
	assert_int_equal(word_of(&l), 0);
	near_rwlock_destroy(&l);
}

static struct near_rwlock *surprised;

static void read_by_surprise(void)
{
	near_rwlock_read_lock(surprised);
}

/* Beside this one's: it reads as another thread would. */
static void try_write_lets_go_if_a_reader_came(void **state)
{
	struct near_rwlock l;

	(void)state;
	if (!has_slots())
		skip();
	near_rwlock_init(&l);
	surprised = &l;
	slots_enter(1);
	read_n_times(&l, 1);
	near_rwlock_read_lock(&l); /* nested ones pass the claim */
	near_rwlock_read_unlock(&l);
	near__held_add(&l);
	fence_hook = read_by_surprise;
	assert_false(near_rwlock_try_write_lock(&l));
	assert_int_equal(state_of(&l), READER);
	assert_false(near_mutex_is_mine(&l.writers));
	near_rwlock_read_unlock(&l);
	near__held_remove(&l);
	slots_leave();
	assert_true(near_rwlock_try_write_lock(&l));
	near_rwlock_write_unlock(&l);
	near_rwlock_destroy(&l);
}

/* ---- nested ---- */

struct reader {
	struct near_rwlock *l;
	const struct timespec *deadline;
	struct near_cancel *cancel;
	clockid_t clock;
	bool writes;
	unsigned *order, turn, *release;
	int result;
	pthread_t thread;
};

static void *lock_for_a_while(void *arg)
{
	struct reader *r = arg;

	errno = UNIT_ERRNO;
	r->result = (r->writes ? near_rwlock_write_lock_until : near_rwlock_read_lock_until)(
		r->l, r->clock, r->deadline, r->cancel);
	if (r->result == 0) {
		if (r->order)
			r->turn = __atomic_add_fetch(r->order, 1, __ATOMIC_SEQ_CST);
		while (r->release && !__atomic_load_n(r->release, __ATOMIC_ACQUIRE))
			usleep(100);
		if (r->writes)
			near_rwlock_write_unlock(r->l);
		else
			near_rwlock_read_unlock(r->l);
	}
	CHECK(errno == UNIT_ERRNO);
	return NULL;
}

static void start(struct reader *r, struct near_rwlock *l, bool writes)
{
	r->l = l;
	r->writes = writes;
	r->thread = unit_start(lock_for_a_while, r);
}

static void nested_readers_pass_a_waiting_writer(void **state)
{
	struct near_rwlock locks[2] = {NEAR_RWLOCK_INIT};

	(void)state;
	near_rwlock_init(&locks[1]);
	for (unsigned i = 0; i < 2; i++) {
		struct near_rwlock *l = &locks[i];
		struct reader w = {0};

		near_rwlock_read_lock(l);
		start(&w, l, true);
		wait_for_sleepers(l, 1);
		assert_false(another_can(try_to_read, l));
		near_rwlock_read_lock(l);
		assert_true(near_rwlock_try_read_lock(l));
		near_rwlock_read_unlock(l);
		near_rwlock_read_unlock(l);
		assert_int_equal(word_of(l), WRITER + READER + DRAINER);
		near_rwlock_read_unlock(l);
		unit_join(w.thread);
		assert_int_equal(w.result, 0);
		assert_int_equal(word_of(l), 0);
		near_rwlock_destroy(l);
	}
}

#define MANY 7

static void a_thread_reads_more_locks_than_it_knows_by_name(void **state)
{
	struct near_rwlock l[MANY];
	struct reader w[MANY];

	(void)state;
	memset(w, 0, sizeof(w));
	for (unsigned i = 0; i < MANY; i++) {
		near_rwlock_init(&l[i]);
		near_rwlock_read_lock(&l[i]);
	}
	assert_int_equal(near__reads.others, MANY - NEAR__HOLDS);
	for (unsigned i = 0; i < MANY; i++) {
		start(&w[i], &l[i], true);
		wait_for_sleepers(&l[i], 1);
		near_rwlock_read_lock(&l[i]);
	}
	for (unsigned i = 0; i < MANY; i++) {
		near_rwlock_read_unlock(&l[i]);
		assert_int_equal(readers_of(word_of(&l[i])), 1);
		near_rwlock_read_unlock(&l[i]);
		unit_join(w[i].thread);
		assert_int_equal(word_of(&l[i]), 0);
		near_rwlock_destroy(&l[i]);
	}
	assert_int_equal(near__reads.others, 0);
}

/* A writer that has claimed and closed a gate, and does not run: the nested reader revokes in its
 * place. */
static void who_may_be_nested_does_not_wait_for_the_revocation(void **state)
{
	struct near_rwlock l[NEAR__HOLDS + 1];

	(void)state;
	slots_enter(9);
	for (unsigned i = 0; i <= NEAR__HOLDS; i++) {
		near_rwlock_init(&l[i]);
		near_rwlock_read_lock(&l[i]);
	}
	fences_made();
	near__rwlock_claim(&l[NEAR__HOLDS]);
	if (has_slots())
		((struct copy *)near_percpu_at(l[NEAR__HOLDS].copies, 9))->gate = NEAR__CLOSED;
	near_rwlock_read_lock(&l[NEAR__HOLDS]);
	assert_int_equal(fences_made(), has_slots());
	assert_int_equal(word_of(&l[NEAR__HOLDS]), WRITER + 2 * READER);
	near__rwlock_leave(&l[NEAR__HOLDS], 0);
	near_rwlock_read_unlock(&l[NEAR__HOLDS]);
	slots_leave();
	for (unsigned i = 0; i <= NEAR__HOLDS; i++) {
		near_rwlock_read_unlock(&l[i]);
		near_rwlock_destroy(&l[i]);
	}
}

/* It reads others, but not this one: no writer may be passed. */
static void who_is_not_nested_waits_in_any_case(void **state)
{
	static const struct timespec past = {1, 0};
	struct near_rwlock l[NEAR__HOLDS + 1], other;
	unsigned release = 0;
	struct reader w = {.release = &release};

	(void)state;
	near_rwlock_init(&other);
	for (unsigned i = 0; i <= NEAR__HOLDS; i++) {
		near_rwlock_init(&l[i]);
		near_rwlock_read_lock(&l[i]);
	}
	start(&w, &other, true);
	while (state_of(&other) != WRITER)
		usleep(100);
	assert_false(near_rwlock_try_read_lock(&other));
	assert_int_equal(near_rwlock_read_lock_until(&other, CLOCK_REALTIME, &past, NULL),
			 -ETIMEDOUT);
	__atomic_store_n(&release, 1, __ATOMIC_RELEASE);
	unit_join(w.thread);
	for (unsigned i = 0; i <= NEAR__HOLDS; i++) {
		near_rwlock_read_unlock(&l[i]);
		near_rwlock_destroy(&l[i]);
	}
	near_rwlock_destroy(&other);
}

/* ---- who waits for whom ---- */

static void a_writer_that_leaves_lets_all_sleeping_readers_in(void **state)
{
	struct near_rwlock l;
	unsigned order = 0, release = 0;
	struct reader r[6], w = {.order = &order};

	(void)state;
	near_rwlock_init(&l);
	near_rwlock_write_lock(&l);
	for (unsigned i = 0; i < 6; i++) {
		r[i] = (struct reader){.order = &order, .release = &release};
		start(&r[i], &l, false);
	}
	wait_for_sleepers(&l, 6);
	assert_int_equal(word_of(&l), WRITER + PARKED);
	start(&w, &l, true);
	wait_for_writers(&l, 1);
	near_rwlock_write_unlock(&l);
	/* All are in at once, and the writer comes behind them. */
	while (__atomic_load_n(&order, __ATOMIC_ACQUIRE) < 6)
		usleep(100);
	wait_for_sleepers(&l, 1);
	assert_int_equal(state_of(&l), WRITER + 6 * READER + DRAINER);
	__atomic_store_n(&release, 1, __ATOMIC_RELEASE);
	unit_join(w.thread);
	assert_int_equal(w.turn, 7);
	for (unsigned i = 0; i < 6; i++)
		unit_join(r[i].thread);
	assert_int_equal(state_of(&l), 0);
	near_rwlock_destroy(&l);
}

/* The one before has let go of the mutex, but not yet left. */
static void the_next_writer_waits_until_the_one_before_has_left(void **state)
{
	struct near_rwlock l = NEAR_RWLOCK_INIT;
	unsigned order = 0;
	struct reader w = {.order = &order}, r = {.order = &order};

	(void)state;
	near_rwlock_write_lock(&l);
	near_mutex_unlock(&l.writers);
	start(&w, &l, true);
	wait_for_sleepers(&l, 1);
	assert_int_equal(word_of(&l), 2 * WRITER + DRAINER);
	start(&r, &l, false);
	wait_for_sleepers(&l, 2);
	assert_int_equal(order, 0);
	near__rwlock_leave(&l, 0);
	unit_join(r.thread);
	unit_join(w.thread);
	assert_int_equal(r.turn, 1);
	assert_int_equal(word_of(&l), 0);
	/* The same without readers. */
	near_rwlock_write_lock(&l);
	near_mutex_unlock(&l.writers);
	start(&w, &l, true);
	wait_for_sleepers(&l, 1);
	near__rwlock_leave(&l, 0);
	unit_join(w.thread);
	assert_int_equal(w.turn, 3);
	assert_int_equal(word_of(&l), 0);
}

static void downgrade_lets_readers_in_and_no_writer(void **state)
{
	struct near_rwlock l;
	unsigned order = 0;
	struct reader w = {.order = &order}, r = {.order = &order};

	(void)state;
	near_rwlock_init(&l);
	near_rwlock_write_lock(&l);
	start(&w, &l, true);
	wait_for_writers(&l, 1);
	start(&r, &l, false);
	wait_for_sleepers(&l, 1);
	near_rwlock_downgrade(&l);
	assert_false(near_rwlock_is_mine(&l));
	unit_join(r.thread);
	wait_for_sleepers(&l, 1);
	assert_int_equal(r.turn, 1);
	assert_int_equal(state_of(&l), WRITER + READER + DRAINER);
	near_rwlock_read_lock(&l);
	near_rwlock_read_unlock(&l);
	assert_int_equal(order, 1);
	near_rwlock_read_unlock(&l);
	unit_join(w.thread);
	assert_int_equal(w.turn, 2);
	near_rwlock_destroy(&l);
}

/* ---- waits that end ---- */

static void deadlines_end_waits(void **state)
{
	static const struct timespec past = {0, 0}, before = {-1, 0};
	struct near_rwlock l;
	unsigned release;

	(void)state;
	near_rwlock_init(&l);
	for (unsigned i = 0; i < 2 * LENGTH(wait_clocks); i++) {
		struct reader holder = {.release = &release}, other = {0};
		clockid_t clock = wait_clocks[i / 2];
		struct timespec soon = wait_in_ms(clock, 20);
		bool writes = i % 2;
		int (*until)(struct near_rwlock *, int, const struct timespec *,
			     struct near_cancel *) = writes ? near_rwlock_write_lock_until
							    : near_rwlock_read_lock_until;

		release = 0;
		start(&holder, &l, !writes);
		while (writes ? !(readers_of(word_of(&l)) + near__rwlock_sum(&l, false))
			      : state_of(&l) != WRITER)
			usleep(100);
		assert_int_equal(until(&l, clock, &soon, NULL), -ETIMEDOUT);
		assert_true(wait_is_past(clock, soon));
		assert_int_equal(until(&l, clock, &past, NULL), -ETIMEDOUT);
		assert_int_equal(until(&l, clock, &before, NULL), -ETIMEDOUT);
		assert_int_equal(sleepers_of(&l), 0);
		assert_int_equal(writers_of(word_of(&l)), !writes);
		assert_false(near_rwlock_is_mine(&l));
		__atomic_store_n(&release, 1, __ATOMIC_RELEASE);
		unit_join(holder.thread);
		/* A free one is taken in any case. */
		assert_int_equal(until(&l, clock, &past, NULL), 0);
		start(&other, &l, false);
		if (writes)
			near_rwlock_write_unlock(&l);
		else
			near_rwlock_read_unlock(&l);
		unit_join(other.thread);
	}
	near_rwlock_destroy(&l);
}

static void a_wrong_deadline_is_an_error(void **state)
{
	static const struct timespec wrong = {1, 1000000000}, negative = {1, -1}, right = {1, 0};
	struct near_rwlock l = NEAR_RWLOCK_INIT;

	(void)state;
	assert_int_equal(near_rwlock_read_lock_until(&l, CLOCK_MONOTONIC, &wrong, NULL), -EINVAL);
	assert_int_equal(near_rwlock_read_lock_until(&l, 4711, &right, NULL), -EINVAL);
	assert_int_equal(near_rwlock_write_lock_until(&l, CLOCK_REALTIME, &negative, NULL),
			 -EINVAL);
	assert_int_equal(near_rwlock_write_lock_until(&l, 4711, &right, NULL), -EINVAL);
	assert_int_equal(word_of(&l), 0);
	assert_int_equal(near_rwlock_read_lock_until(&l, 4711, NULL, NULL), 0);
	near_rwlock_read_unlock(&l);
	assert_int_equal(word_of(&l), 0);
}

/* A writer that gives up lets those in whom it kept out. */
static void a_token_ends_waits(void **state)
{
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct near_rwlock l;
	unsigned order = 0;
	struct reader w = {.cancel = &token}, r = {.order = &order}, q = {.cancel = &token};

	(void)state;
	near_rwlock_init(&l);
	near_rwlock_read_lock(&l);
	start(&w, &l, true);
	wait_for_sleepers(&l, 1);
	start(&r, &l, false);
	wait_for_sleepers(&l, 2);
	near_cancel_set(&token);
	unit_join(w.thread);
	unit_join(r.thread);
	assert_int_equal(w.result, -ECANCELED);
	assert_int_equal(r.turn, 1);
	assert_int_equal(state_of(&l), READER);
	near_rwlock_read_unlock(&l);
	near_rwlock_write_lock(&l);
	start(&q, &l, false);
	unit_join(q.thread);
	assert_int_equal(q.result, -ECANCELED);
	near_rwlock_write_unlock(&l);
	assert_int_equal(state_of(&l), 0);
	near_rwlock_destroy(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zero_is_a_free_lock),
		cmocka_unit_test(readers_count_on_their_slots),
		cmocka_unit_test(a_writer_adds_the_slots_up),
		cmocka_unit_test(bias_comes_back_after_calm_reads),
		cmocka_unit_test(bias_does_not_come_back_beside_a_writer),
		cmocka_unit_test(calm_goes_by_cpus_and_the_cost_of_fences),
		cmocka_unit_test(who_cannot_open_a_gate_uses_the_word),
		cmocka_unit_test(try_write_fences_only_if_it_may_succeed),
		cmocka_unit_test(try_write_lets_go_if_a_reader_came),
		cmocka_unit_test(nested_readers_pass_a_waiting_writer),
		cmocka_unit_test(a_thread_reads_more_locks_than_it_knows_by_name),
		cmocka_unit_test(who_may_be_nested_does_not_wait_for_the_revocation),
		cmocka_unit_test(who_is_not_nested_waits_in_any_case),
		cmocka_unit_test(a_writer_that_leaves_lets_all_sleeping_readers_in),
		cmocka_unit_test(the_next_writer_waits_until_the_one_before_has_left),
		cmocka_unit_test(downgrade_lets_readers_in_and_no_writer),
		cmocka_unit_test(deadlines_end_waits),
		cmocka_unit_test(a_wrong_deadline_is_an_error),
		cmocka_unit_test(a_token_ends_waits),
	};

	near_slots();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
