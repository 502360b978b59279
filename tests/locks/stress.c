/* SPDX-License-Identifier: MIT */
/* Runs the scenarios of the stress test, the threads that disturb them, and the watch. */
#include "stress.h"

#include "mover.h"

struct stress stress;

/* ---- limits ---- */

void limit_draw(struct limit *l, struct role *r)
{
	uint32_t random = unit_random(&r->random);

	*l = (struct limit){.role = r, .clock = wait_clocks[random / 64 % 3]};
	if (random % 8 == 0) {
		/* From what is past to what is longer than most waits. */
		l->time = wait_in_ms(l->clock, (long)(random / 512 % 4));
		l->time.tv_sec -= random / 2048 % 4 == 0;
		l->deadline = &l->time;
	}
	if (random / 8 % 8 == 0)
		l->cancel = &r->cancel;
}

static void renew(struct role *r)
{
	near_lock_lock(&r->guard);
	near_cancel_reset(&r->cancel);
	near_lock_unlock(&r->guard);
	__atomic_fetch_add(&stress.cancelled, 1, __ATOMIC_RELAXED);
}

void limit_check(struct limit *l, int result)
{
	if (result == -ETIMEDOUT)
		CHECK(l->deadline && wait_is_past(l->clock, l->time));
	else if (result == -ECANCELED)
		CHECK(l->cancel && near_cancel_is_set(l->cancel));
	else
		CHECK(result >= 0);
	if (l->cancel && near_cancel_is_set(l->cancel))
		renew(l->role);
}

/* ---- the threads of a role, one after the other ---- */

static void *play(void *arg)
{
	struct role *r = arg;
	unsigned steps = 20 + unit_random(&r->random) % unit_scale(2000);
	bool goes_on = true;

	__atomic_store_n(&r->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
	while (goes_on && steps--)
		goes_on = r->scenario->step(r);
	__atomic_store_n(&r->tid, 0, __ATOMIC_RELAXED);
	return goes_on ? r : NULL;
}

static void *keep(void *arg)
{
	struct role *r = arg;
	void *goes_on;

	do {
		CHECK(pthread_join(unit_start(play, r), &goes_on) == 0);
		__atomic_fetch_add(&stress.came, 1, __ATOMIC_RELAXED);
	} while (goes_on);
	return NULL;
}

/* ---- disturbances ---- */

static struct role *any_role(uint64_t *random)
{
	return &stress.roles[unit_random(random) % stress.n_roles];
}

static pid_t any_thread(uint64_t *random)
{
	return __atomic_load_n(&any_role(random)->tid, __ATOMIC_RELAXED);
}

static void *move(void *unused)
{
	struct mover m;

	mover_begin(&m, 71);
	while (!stress_is_over()) {
		pid_t tid = any_thread(&m.random);

		stress.moved += mover_bind(&m, tid);
		mover_release(&m, tid, 2);
		usleep(300);
	}
	/* The last binding must not decide how the scenarios end. */
	for (unsigned i = 0; i < stress.n_roles; i++)
		mover_release(&m, __atomic_load_n(&stress.roles[i].tid, __ATOMIC_RELAXED), 1);
	return unused;
}

static void on_signal(int signal)
{
	__atomic_fetch_add(&stress.signals, 1, __ATOMIC_RELAXED);
}

static void *send_signals(void *unused)
{
	uint64_t random = 73;

	while (!stress_is_over()) {
		pid_t tid = any_thread(&random);

		if (tid)
			syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
		usleep(400);
	}
	return unused;
}

static void *cancel(void *unused)
{
	uint64_t random = 79;

	while (!stress_is_over()) {
		struct role *r = any_role(&random);

		near_lock_lock(&r->guard);
		near_cancel_set(&r->cancel);
		near_lock_unlock(&r->guard);
		usleep(200);
	}
	return unused;
}

/* ---- the watch ----
 *
 * It finds waits that last too long. It counts its own checks, not the time: on a busy machine the
 * watch is late, too. */

#define CHECKS_PER_S 10

static struct {
	pthread_t thread;
	bool stop; /* atomic */
	struct {
		uint64_t steps;
		unsigned checks; /* with the same wait */
	} seen[STRESS_ROLES];
} watch;

static unsigned check_role(unsigned i)
{
	struct role *r = &stress.roles[i];
	uint64_t steps = __atomic_load_n(&r->steps, __ATOMIC_RELAXED);

	if (steps != watch.seen[i].steps || !__atomic_load_n(&r->doing, __ATOMIC_RELAXED))
		watch.seen[i].checks = 0;
	watch.seen[i].steps = steps;
	return watch.seen[i].checks++;
}

static void tell(unsigned i)
{
	const struct role *r = &stress.roles[i];
	const uint32_t *on = __atomic_load_n(&r->on, __ATOMIC_RELAXED);
	const char *doing = __atomic_load_n(&r->doing, __ATOMIC_RELAXED);

	if (doing)
		fprintf(stderr, "  thread %d (%s, %u): %s on %p, which is %#x, for %u s\n",
			(int)__atomic_load_n(&r->tid, __ATOMIC_RELAXED), r->scenario->name,
			r->index, doing, (const void *)on, __atomic_load_n(on, __ATOMIC_RELAXED),
			watch.seen[i].checks / CHECKS_PER_S);
	else
		fprintf(stderr, "  thread %d (%s, %u) does not wait\n",
			(int)__atomic_load_n(&r->tid, __ATOMIC_RELAXED), r->scenario->name,
			r->index);
}

/* All roles of the scenario: another one may be the cause. */
static void stop(unsigned hung)
{
	fprintf(stderr, "locks_stress: a wait does not end: thread %d of the scenario %s\n",
		(int)stress.roles[hung].tid, stress.roles[hung].scenario->name);
	for (unsigned i = 0; i < stress.n_roles; i++)
		if (stress.roles[i].scenario == stress.roles[hung].scenario)
			tell(i);
	_exit(1);
}

static void *watch_waits(void *unused)
{
	while (!__atomic_load_n(&watch.stop, __ATOMIC_RELAXED)) {
		usleep(1000000 / CHECKS_PER_S);
		for (unsigned i = 0; i < stress.n_roles; i++)
			if (check_role(i) >= stress.patience * CHECKS_PER_S)
				stop(i);
	}
	return unused;
}

static void watch_begin(void)
{
	memset(&watch, 0, sizeof(watch));
	watch.thread = unit_start(watch_waits, NULL);
}

static void watch_end(void)
{
	__atomic_store_n(&watch.stop, true, __ATOMIC_RELAXED);
	unit_join(watch.thread);
}

/* ---- a round ---- */

static void cast(const struct scenario *scenario, uint64_t seed)
{
	memset(scenario->state, 0, scenario->size);
	if (scenario->begin)
		scenario->begin(scenario->roles);
	for (unsigned i = 0; i < scenario->roles; i++) {
		struct role *r = &stress.roles[stress.n_roles++];

		CHECK(stress.n_roles <= STRESS_ROLES);
		*r = (struct role){
			.scenario = scenario, .index = i, .random = seed * 1000 + stress.n_roles};
	}
}

static void report(unsigned n)
{
	uint64_t steps = 0;

	for (unsigned i = 0; i < stress.n_roles; i++)
		steps += stress.roles[i].steps;
	print_message(
		"%u scenarios: %llu waits, %lu threads, %lu moved, %lu signals, %lu cancelled\n", n,
		(unsigned long long)steps, stress.came, stress.moved, stress.signals,
		stress.cancelled);
}

static void check_accounts(const struct scenario *const *scenarios, unsigned n)
{
	const struct role *roles = stress.roles;

	for (unsigned i = 0; i < n; roles += scenarios[i++]->roles)
		scenarios[i]->check(roles);
}

static void sleep_on(unsigned ms)
{
	struct timespec end = wait_in_ms(CLOCK_MONOTONIC, (long)ms);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

/* Also on the slowest machine. */
static void wait_until_all_have_played(void)
{
	for (unsigned i = 0; i < stress.n_roles; i++)
		while (!__atomic_load_n(&stress.roles[i].steps, __ATOMIC_RELAXED))
			usleep(1000);
}

void stress_run(const struct scenario *const *scenarios, unsigned n, unsigned ms)
{
	static void *(*const disturb[])(void *) = {move, send_signals, cancel};
	struct sigaction action = {.sa_handler = on_signal};
	pthread_t threads[LENGTH(disturb)];
	unsigned patience = stress.patience;
	static uint64_t seed;

	memset(&stress, 0, sizeof(stress));
	stress.patience = patience;
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	seed++;
	for (unsigned i = 0; i < n; i++)
		cast(scenarios[i], seed);
	watch_begin();
	for (unsigned i = 0; i < stress.n_roles; i++)
		stress.roles[i].keeper = unit_start(keep, &stress.roles[i]);
	for (size_t i = 0; i < LENGTH(disturb); i++)
		threads[i] = unit_start(disturb[i], NULL);
	sleep_on(ms);
	wait_until_all_have_played();
	__atomic_store_n(&stress.stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < n; i++)
		if (scenarios[i]->end)
			scenarios[i]->end();
	for (size_t i = 0; i < LENGTH(disturb); i++)
		unit_join(threads[i]);
	for (unsigned i = 0; i < stress.n_roles; i++)
		unit_join(stress.roles[i].keeper);
	watch_end();
	check_accounts(scenarios, n);
	report(n);
}
