/* SPDX-License-Identifier: MIT */
/* near_rcu under load: readers of all kinds check versions that updaters poison after a grace
 * period, by synchronize, polling, callbacks, bounded and lazy ones; with signal handlers that read
 * and call, stalls, threads that move between CPUs and threads that begin and end, and forks.
 * --seconds, or NEAR_STRESS_SECONDS, is how long the program runs, on any machine; without either
 * it makes a fixed number of rounds. */
#include "rcus.h"

#include "alarms.h"
#include "team.h"

#define READERS 3u
#define UPDATERS 2u
#define SLOTS 8u     /* pointers that are updated */
#define VERSIONS 64u /* of each updater: with more, a call waits for an older one */

enum { FREE = 0, LIVES = 0x11fe5, POISON = 0xdead };

struct version {
	struct near_rcu_head head;
	unsigned state; /* of those above */
	unsigned busy;  /* between two uses by the updater; atomic */
};

static struct near_rcu d;
static struct version *slots[SLOTS], versions[UPDATERS][VERSIONS];
static unsigned seconds, rounds;
static time_t until;      /* by CLOCK_MONOTONIC, if not 0 */
static unsigned updating; /* threads */
static uint64_t seed;

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* 0: a number of rounds instead. */
static unsigned stress_seconds(int argc, char **argv)
{
	const char *text = argc == 3 && strcmp(argv[1], "--seconds") == 0
				   ? argv[2]
				   : getenv("NEAR_STRESS_SECONDS");

	return text ? (unsigned)atoi(text) : 0;
}

static void move(uint64_t *random)
{
	if (unit_random(random) % 512 == 0)
		unit_pin(unit_random(random) % 2, NULL);
	if (unit_random(random) % 512 == 0)
		unit_unpin();
}

static void look(uint64_t *random)
{
	struct version *v = near_rcu_dereference(slots[unit_random(random) % SLOTS]);

	CHECK(!v || v->state == LIVES);
	if (unit_random(random) % 64 == 0)
		sched_yield();
	if (unit_random(random) % 4096 == 0)
		usleep(200);
	CHECK(!v || v->state == LIVES);
}

static void read_some(uint64_t *random)
{
	near_rcu_token t;

	switch (unit_random(random) % 4) {
	case 0:
		near_rcu_read_lock(&d);
		look(random);
		near_rcu_read_lock(&d);
		look(random);
		near_rcu_read_unlock(&d);
		near_rcu_read_unlock(&d);
		break;
	case 1:
		t.at = near__rcu_enter_slow(&d);
		look(random);
		near_rcu_exit(&d, t);
		break;
	default:
		t = near_rcu_enter(&d);
		look(random);
		near_rcu_exit(&d, t);
	}
}

static void read_all(unsigned me)
{
	uint64_t random = seed + me;

	while (__atomic_load_n(&updating, __ATOMIC_ACQUIRE)) {
		read_some(&random);
		move(&random);
	}
}

/* ---- updaters ---- */

static void poison(struct version *v)
{
	CHECK(v->state == LIVES);
	v->state = POISON;
	__atomic_store_n(&v->busy, 0, __ATOMIC_RELEASE);
}

static void poison_called(struct near_rcu_head *head)
{
	poison((struct version *)head);
}

static void call_twice(struct near_rcu_head *head)
{
	near_rcu_call(&d, head, poison_called, sizeof(struct version));
}

static void retire(struct version *v, uint64_t *random)
{
	uint64_t period;

	switch (unit_random(random) % 8) {
	case 0:
		near_rcu_synchronize(&d);
		poison(v);
		break;
	case 1:
		period = near_rcu_poll_start(&d);
		if (!near_rcu_poll(&d, period))
			near_rcu_wait(&d, period);
		poison(v);
		break;
	case 2:
		near_rcu_call_lazy(&d, &v->head, poison_called, sizeof(*v));
		break;
	case 3:
		near_rcu_call(&d, &v->head, call_twice, sizeof(*v));
		break;
	case 4:
		near_rcu_call_bounded(&d, &v->head, poison_called, sizeof(*v), 16 * sizeof(*v));
		break;
	default:
		near_rcu_call(&d, &v->head, poison_called, sizeof(*v));
	}
	if (unit_random(random) % 256 == 0)
		near_rcu_synchronize_lazy(&d);
	if (unit_random(random) % 256 == 0)
		near_rcu_barrier(&d);
}

static struct version *fresh(unsigned me, uint64_t *random)
{
	struct version *v = &versions[me][unit_random(random) % VERSIONS];

	while (__atomic_load_n(&v->busy, __ATOMIC_ACQUIRE))
		v = &versions[me][(v - versions[me] + 1) % VERSIONS];
	v->busy = 1;
	v->state = LIVES;
	return v;
}

static void update_all(unsigned me)
{
	uint64_t random = seed + 100 + me;

	for (unsigned i = 0; i < rounds && (!until || now() < until); i++) {
		/* Each has pointers of its own. */
		struct version *
			*slot = &slots[unit_random(&random) % (SLOTS / UPDATERS) * UPDATERS + me],
		       *v = fresh(me, &random), *old = *slot;

		near_rcu_assign(*slot, v);
		if (old)
			retire(old, &random);
		move(&random);
	}
	__atomic_sub_fetch(&updating, 1, __ATOMIC_ACQ_REL);
}

/* ---- what comes and goes ---- */

static void *read_for_a_while(void *random)
{
	for (unsigned i = 0; i < 100; i++)
		read_some(random);
	return NULL;
}

/* The child has versions that no other thread frees. */
static void read_in_child(uint64_t *random)
{
	for (unsigned i = 0; i < 100; i++)
		read_some(random);
	near_rcu_synchronize(&d);
	CHECK(rcu_now(&d).readers == 0);
}

static void churn(void)
{
	uint64_t random = seed + 200;

	while (__atomic_load_n(&updating, __ATOMIC_ACQUIRE)) {
		unit_join(unit_start(read_for_a_while, &random));
		if (unit_random(&random) % 8)
			continue;
		fflush(NULL);
		unit_child = fork();
		if (unit_child == 0) {
			read_in_child(&random);
			_exit(0);
		}
		CHECK(unit_wait(unit_child, NULL) == 0);
	}
}

static void on_alarm(int signal)
{
	static __thread uint64_t random = 1;

	read_some(&random);
}

static void run_one(unsigned me)
{
	if (me == READERS + UPDATERS) {
		churn();
		return;
	}
	mask_alarm(SIG_UNBLOCK);
	if (me < READERS)
		read_all(me);
	else
		update_all(me - READERS);
	mask_alarm(SIG_BLOCK);
}

int main(int argc, char **argv)
{
	const struct near_rcu_options o = {.interval_us = 100, .lazy_interval_us = 2000};

	seconds = stress_seconds(argc, argv);
	rounds = seconds ? UINT32_MAX : unit_scale(4000);
	until = seconds ? now() + seconds : 0;
	seed = seconds ? (uint64_t)getpid() << 20 : 1;
	printf("seed %llu\n", (unsigned long long)seed);
	unit_pin(0, NULL); /* it must know the CPUs before there are threads */
	unit_unpin();
	/* Signals are for the threads that read and update. */
	mask_alarm(SIG_BLOCK);
	CHECK(near_rcu_init(&d, &o) == 0 && near_rcu_start(&d) == 0);
	unit_timer(unit_slow() ? 50000 : 1000, on_alarm);
	updating = UPDATERS;
	team_run(READERS + UPDATERS + 1, run_one);
	unit_timer(0, NULL);
	near_rcu_barrier(&d);
	near_rcu_barrier(&d);
	CHECK(rcu_now(&d).readers == 0 && rcu_now(&d).pending_calls == 0);
	near_rcu_destroy(&d);
	return 0;
}
