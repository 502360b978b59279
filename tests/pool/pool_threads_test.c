/* SPDX-License-Identifier: MIT */
/* near_pool among threads: no object is lost, none is got twice, each is got as it was put; while
 * others drain, with signal handlers, in forked children, in threads that end or move. */
#include "things.h"

#include "live.h"
#include "mover.h"
#include "pool/pool.h"
#include "team.h"

static struct things all;
static struct near_pool pool; /* a new one in each test */

static void make(size_t cap)
{
	const struct near_pool_options o = {THINGS(&all), .max_idle = cap,
					    .max_objects = THINGS_MOST};

	memset(&all, 0, sizeof(all));
	assert_int_equal(near_pool_init(&pool, sizeof(struct thing), &o), 0);
}

static int make_pool(void **state)
{
	make(0);
	return 0;
}

/* Each object that was constructed is idle, or was destructed. */
static void expect_all_idle(void)
{
	struct near_pool_stats s = pool_now(&pool);

	assert_int_equal(all.made - all.ended, s.objects);
	assert_int_equal(s.constructed, all.made);
	assert_int_equal(s.destructed, all.ended);
	assert_int_equal(s.idle, s.objects);
	assert_in_range(s.idle, 0, s.max_idle);
}

static int destroy_pool(void **state)
{
	expect_all_idle();
	near_pool_destroy(&pool);
	assert_int_equal(all.made, all.ended);
	return 0;
}

/* ---- threads ---- */

#define HELD 300

static unsigned get_some(struct thing **held, unsigned want)
{
	unsigned n;

	if (want == 1) {
		held[0] = near_pool_try_get(&pool);
		n = held[0] != NULL;
	} else {
		n = (unsigned)near_pool_get_many(&pool, (void **)held, want);
		CHECK(n == want);
	}
	for (unsigned i = 0; i < n; i++)
		thing_took(held[i]);
	return n;
}

static void put_some(struct thing **held, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		thing_gives(held[i]);
	near_pool_put_many(&pool, (void *const *)held, n);
}

static void get_and_put(unsigned number, unsigned rounds)
{
	uint64_t seed = number;
	struct thing *held[HELD];
	unsigned n = 0;

	for (unsigned i = 0; i < rounds; i++) {
		unsigned what = unit_random(&seed) % 64, some = 1 + unit_random(&seed) % 40;

		if (what < 2 && n + some <= HELD) {
			n += get_some(held + n, some);
		} else if (what < 4) {
			some = some < n ? some : n;
			put_some(held + (n -= some), some);
		} else if (what % 2 && n < HELD) {
			held[n++] = thing_get(&pool);
		} else if (n) {
			thing_put(&pool, held[--n]);
		}
		if (unit_random(&seed) % 512 == 0)
			sched_yield();
	}
	put_some(held, n);
}

/* Two of them use fallback slots, since they are not live. */
static void work(unsigned number)
{
	if (number >= 4)
		play_dead();
	get_and_put(number, unit_scale(60000));
}

static void drain(unsigned number)
{
	while (team_continues()) {
		if (number == 0)
			near__pool_gather(pool.rest);
		else if (number == 1)
			near_pool_drain(&pool);
		else
			near_pool_trim(&pool);
		usleep(200);
	}
}

static void threads_lose_nothing(void **state)
{
	team_run(6, work);
}

static void others_drain(void **state)
{
	struct team drainers;

	team_start(&drainers, 3, drain);
	team_run(6, work);
	team_stop(&drainers);
}

static void a_cap_of_few(void **state)
{
	destroy_pool(NULL);
	make(5);
	team_run(6, work);
}

/* ---- one side gets, the other puts ---- */

#define RING 256
static struct thing *ring[RING];
static uint64_t passed;

static void producer(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		struct thing **place = &ring[i % RING];

		while (__atomic_load_n(place, __ATOMIC_RELAXED))
			sched_yield();
		__atomic_store_n(place, thing_get(&pool), __ATOMIC_RELEASE);
	}
}

static void consumer(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		struct thing *t;

		while (!(t = __atomic_load_n(&ring[i % RING], __ATOMIC_ACQUIRE)))
			sched_yield();
		thing_put(&pool, t);
		__atomic_store_n(&ring[i % RING], NULL, __ATOMIC_RELEASE);
		passed++;
	}
}

static void pass(unsigned number)
{
	unsigned rounds = unit_scale(300000);

	if (number)
		consumer(rounds);
	else
		producer(rounds);
}

static void one_way_flow_is_bounded(void **state)
{
	passed = 0;
	team_run(2, pass);
	assert_int_equal(passed, unit_scale(300000));
	assert_in_range(pool_now(&pool).objects, 1, pool_now(&pool).max_idle);
}

/* ---- threads that end, and that move ---- */

static void be_short(unsigned number)
{
	get_and_put(number, 100);
}

static void threads_that_end_leave_nothing_behind(void **state)
{
	for (unsigned i = 0; i < unit_scale(1000); i += 20)
		team_run(20, be_short);
	assert_in_range(pool_now(&pool).idle, 0, pool_now(&pool).max_idle);
}

static pid_t tids[4];

static void move_about(unsigned number)
{
	__atomic_store_n(&tids[number], (pid_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
	get_and_put(number, unit_scale(60000));
	__atomic_store_n(&tids[number], 0, __ATOMIC_RELAXED);
}

static void move_others(unsigned number)
{
	struct mover m;

	mover_begin(&m, 7);
	for (unsigned i = 0; team_continues(); i++) {
		mover_bind(&m, __atomic_load_n(&tids[i % LENGTH(tids)], __ATOMIC_RELAXED));
		usleep(50);
	}
}

static void threads_that_move(void **state)
{
	struct team mover;

	team_start(&mover, 1, move_others);
	team_run(LENGTH(tids), move_about);
	team_stop(&mover);
}

/* The process moves from one cpuset to another; what the first one's slots had does not stay for
 * ever beside what the second one's have. */
static void a_process_that_changes_its_cpus(void **state)
{
	for (unsigned turn = 0; turn < 6; turn++) {
		unit_pin(turn % 2, NULL);
		team_run(2, be_short);
		assert_in_range(pool_now(&pool).idle, 0, pool_now(&pool).max_idle);
	}
	unit_unpin();
}

/* ---- signal handlers ---- */

static unsigned handled;

static void use_in_handler(int signal)
{
	static __thread struct thing *kept[40];
	static __thread unsigned n;
	struct thing *t = n < LENGTH(kept) ? near_pool_try_get(&pool) : NULL;

	if (t) {
		kept[n++] = thing_took(t);
	} else {
		while (n)
			thing_put(&pool, kept[--n]);
	}
	__atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
}

/* What the handler keeps is put when it gets no more. */
static void put_what_handlers_have(void)
{
	struct thing *t;

	near_lock_lock(pool.rest->lock);
	near_lock_unlock(pool.rest->lock);
	near_pool_drain(&pool);
	raise(SIGALRM);
	for (unsigned i = 0; i < 100 && pool_now(&pool).idle != pool_now(&pool).objects; i++)
		raise(SIGALRM);
	t = thing_get(&pool);
	thing_put(&pool, t);
}

static void signal_handlers_get_and_put(void **state)
{
	unit_timer(150, use_in_handler);
	while (__atomic_load_n(&handled, __ATOMIC_RELAXED) < unit_scale(400))
		get_and_put(3, 2000);
	unit_timer(0, NULL);
	unit_on_signal(SIGALRM, use_in_handler);
	put_what_handlers_have();
}

/* ---- fork ---- */

static void go_on(void *unused)
{
	get_and_put(1, 20000);
	CHECK(near_pool_drain(&pool) > 0);
	near_pool_get(&pool);
}

static void children_go_on(void **state)
{
	struct team team;

	team_start(&team, 2, work);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(unit_wait(unit_fork(go_on, NULL), NULL), 0);
	team_join(&team);
}

UNIT_MAIN_EACH(make_pool, destroy_pool, threads_lose_nothing, others_drain, a_cap_of_few,
	       one_way_flow_is_bounded, threads_that_end_leave_nothing_behind, threads_that_move,
	       a_process_that_changes_its_cpus, signal_handlers_get_and_put, children_go_on)
