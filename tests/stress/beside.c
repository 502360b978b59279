/* SPDX-License-Identifier: MIT */
/* Threads that run concurrently with the workers: movers, closers, readers, forks. */

#include "stress.h"

#include "mover.h"

#include <time.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define SIGNALLED 6 /* workers with a timer */
#define PERIOD_NS 100000
#define SLOW_PERIOD_NS 2000000 /* handlers of an emulated machine take longer than the other */
#define TIMER_SIGNAL SIGUSR1
#define REST_NS 300000
#define CHURN_STEPS 60
#define SLOW_CHURN_STEPS 8

static __thread struct stress_thread *volatile current;

static void note(unsigned *number)
{
	__atomic_fetch_add(number, 1, __ATOMIC_RELAXED);
}

/* ---- workers ---- */

static void on_signal(int signal)
{
	if (current)
		stress_signal(current);
}

void stress_catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	sigemptyset(&action.sa_mask);
	CHECK(sigaction(TIMER_SIGNAL, &action, NULL) == 0);
}

static timer_t start_timer(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TIMER_SIGNAL};
	long period = getenv("NEAR_TEST_SLOW") ? SLOW_PERIOD_NS : PERIOD_NS;
	struct itimerspec every = {{0, period}, {0, period}};
	timer_t timer;

	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &every, NULL) == 0);
	return timer;
}

void *stress_worker(void *self)
{
	struct stress_thread *t = self;
	bool signalled = t->number < SIGNALLED;
	timer_t timer = NULL;

	current = t;
	__atomic_store_n(&t->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
	if (signalled)
		timer = start_timer();
	while (!stress_is_over())
		stress_step(t);
	if (signalled)
		timer_delete(timer);
	current = NULL;
	stress_put_all(t);
	return NULL;
}

static void take_some_steps(struct stress_thread *self)
{
	int steps = getenv("NEAR_TEST_SLOW") ? SLOW_CHURN_STEPS : CHURN_STEPS;

	for (int i = 0; i < steps; i++)
		stress_step(self);
	stress_put_all(self);
}

static void *short_lived(void *self)
{
	take_some_steps(self);
	return NULL;
}

void *stress_churner(void *unused)
{
	struct stress_thread *first = &stress.threads[STRESS_WORKERS];

	while (!stress_is_over()) {
		for (unsigned i = 0; i < STRESS_CHURN; i++)
			first[i].thread = unit_start(short_lived, &first[i]);
		for (unsigned i = 0; i < STRESS_CHURN; i++)
			unit_join(first[i].thread);
		__atomic_fetch_add(&stress.churned, STRESS_CHURN, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* ---- children ---- */

/* In the child: on this thread's memory and in its name, but never live. */
static int be_vforked(struct stress_thread *self)
{
	struct near_rseq_status st;

	take_some_steps(self);
	near_rseq_status(&st, sizeof(st));
	return st.live;
}

__attribute__((noinline)) static pid_t start_vforked(struct stress_thread *self)
{
	pid_t child = vfork();

	/* Not _exit: ThreadSanitizer would search for the threads of its parent. */
	if (child == 0)
		syscall(SYS_exit_group, be_vforked(self));
	return child;
}

void *stress_vforker(void *self)
{
	struct stress_thread *t = self;
	struct near_rseq_status before, after;

	near_rseq_status(&before, sizeof(before));
	while (!stress_is_over()) {
		CHECK(unit_wait(start_vforked(t), NULL) == 0);
		near_rseq_status(&after, sizeof(after));
		CHECK(before.live == after.live);
		note(&stress.vforked);
		/* Not at full speed: that would use up the machine's process numbers in seconds. */
		stress_step(t);
		stress_rest(&t->random, REST_NS);
	}
	stress_put_all(t);
	return NULL;
}

static void be_forked(void *unused)
{
	stress_check_child();
}

void *stress_forker(void *unused)
{
	uint64_t random = 1;

	while (!stress_is_over()) {
		CHECK(unit_wait(unit_fork(be_forked, unused), NULL) == 0);
		note(&stress.forked);
		stress_rest(&random, REST_NS);
	}
	return NULL;
}

/* ---- others ---- */

static pid_t any_worker(uint64_t *random)
{
	const pid_t *tid = &stress.threads[unit_random(random) % stress.workers].tid;

	return __atomic_load_n(tid, __ATOMIC_RELAXED);
}

void *stress_mover(void *unused)
{
	struct mover m;
	pid_t tid;

	mover_begin(&m, 2);
	while (!stress_is_over()) {
		tid = any_worker(&m.random);
		if (mover_bind(&m, tid))
			note(&stress.moved);
		if (unit_random(&m.random) % 4 == 0)
			stress_rest(&m.random, REST_NS);
		mover_release(&m, tid, 8);
	}
	return unused;
}

static void drain(void)
{
	struct near_stack_node *list = near_stack_drain(&stress.stack), *next;

	for (; list; list = next) {
		next = list->next;
		CHECK(stress_claim(stress_item_of(list), STRESS_THREADS));
		stress_push(stress_item_of(list));
	}
	note(&stress.drained);
}

/* A reference is held throughout, so that the count stays above zero and can be revived. */
static void kill_and_revive(uint64_t *random)
{
	near_refcount_get(&stress.refs);
	near_refcount_kill(&stress.refs);
	stress_rest(random, REST_NS);
	near_refcount_revive(&stress.refs);
	near_refcount_put(&stress.refs);
	note(&stress.killed);
}

static void reset_histogram(void)
{
	struct near_histogram_snapshot s;

	CHECK(near_histogram_reset(&stress.histogram, &s) == 0);
	stress.taken_values += s.count;
	stress.taken_sum += s.exact_sum;
	near_histogram_snapshot_free(&s);
}

void *stress_closer(void *unused)
{
	uint64_t random = 3;

	while (!stress_is_over()) {
		switch (unit_random(&random) % 4) {
		case 0:
			drain();
			break;
		case 1:
			kill_and_revive(&random);
			break;
		case 2:
			stress.taken += near_counter_reset(&stress.reset);
			reset_histogram();
			break;
		default:
			stress_rest(&random, REST_NS);
		}
	}
	return unused;
}

/* A sum of adds of 1 never falls, whichever thread moves. A cached one is old, but not from the
 * future. */
void *stress_reader(void *unused)
{
	int64_t before = 0, now, cached;
	uint64_t random = 4;

	while (!stress_is_over()) {
		cached = near_counter_read_cached(&stress.count, 10000000);
		now = near_counter_read(&stress.count);
		CHECK(before <= now && cached <= now);
		before = now;
		if (unit_random(&random) % 8 == 0)
			stress_rest(&random, REST_NS);
	}
	return unused;
}
