/* SPDX-License-Identifier: MIT */
/* near_shared_ids under load: two processes with more threads than CPUs, which are moved,
 * interrupted by signals, and forked from. Each id has one worker at a time, whose plain increments
 * are not lost. Takes NEAR_STRESS_SECONDS, or one second. */
#include "shared.h"

#include "mover.h"
#include "team.h"

#define PROCESSES 2u
#define THREADS 4u
#define EACH 3u /* workers of a thread */
#define IDS (PROCESSES * THREADS + 3)

/* Of an id. */
struct datum {
	uint64_t n; /* changed by plain instructions */
	uint64_t busy;
};

static struct shared_view view;
static pid_t tids[THREADS];
static uint64_t *acquired; /* of each process */

static struct datum *datum_of(const struct near_worker *w)
{
	return near_shared_ids_data(&view.ids, near_worker_id(w));
}

/* Relaxed: it must not order what release and acquire have to. */
static void begin_use(struct near_worker *w)
{
	CHECK(!near_worker_must_repair(w));
	CHECK(__atomic_exchange_n(&datum_of(w)->busy, 1, __ATOMIC_RELAXED) == 0);
	datum_of(w)->n++;
}

static void end_use(struct near_worker *w)
{
	datum_of(w)->n++;
	CHECK(__atomic_exchange_n(&datum_of(w)->busy, 0, __ATOMIC_RELAXED) == 1);
	near_shared_ids_release(&view.ids, w);
}

/* Returns how many were acquired. */
static unsigned step(struct near_worker *w, uint64_t *random)
{
	unsigned i = unit_random(random) % EACH, k = unit_random(random) % EACH;
	int id;

	if (near_worker_id(&w[i]) < 0) {
		id = near_shared_ids_acquire(&view.ids, &w[i]);
		CHECK(id >= 0 || id == -EAGAIN);
		if (id < 0)
			return 0;
		begin_use(&w[i]);
		return 1;
	}
	if (near_worker_id(&w[k]) < 0)
		near_shared_ids_hand_over(&view.ids, &w[i], &w[k]);
	else
		end_use(&w[i]);
	return 0;
}

static void run(unsigned number)
{
	struct near_worker w[EACH] = {0};
	uint64_t random = (uint64_t)getpid() + number, n = 0;

	__atomic_store_n(&tids[number], (pid_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
	while (team_continues())
		n += step(w, &random);
	for (unsigned i = 0; i < EACH; i++)
		if (near_worker_id(&w[i]) >= 0)
			end_use(&w[i]);
	__atomic_fetch_add(acquired, n, __ATOMIC_RELAXED);
}

static void on_alarm(int signal)
{
}

/* A child takes a seat of its own, and gives it back. */
static void use_in_child(void *unused)
{
	struct near_worker w = {0};

	for (unsigned i = 0; i < 50; i++)
		if (near_shared_ids_acquire(&view.ids, &w) >= 0) {
			begin_use(&w);
			end_use(&w);
			__atomic_fetch_add(acquired, 1, __ATOMIC_RELAXED);
		}
	near_shared_ids_close(&view.ids);
}

static void disturb(double seconds)
{
	struct timespec begun, now;
	struct mover m;

	mover_begin(&m, (uint64_t)getpid());
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		for (unsigned i = 0; i < THREADS; i++) {
			pid_t tid = __atomic_load_n(&tids[i], __ATOMIC_RELAXED);

			mover_bind(&m, tid);
			mover_release(&m, tid, 8);
		}
		if (!UNIT_THREAD_SANITIZER && unit_random(&m.random) % 8 == 0)
			unit_in_child(use_in_child, NULL);
		usleep(500);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - begun.tv_sec) + (double)(now.tv_nsec - begun.tv_nsec) / 1e9 <
		 seconds);
}

static void be_one(double seconds)
{
	struct team t;

	shared_attach(&view, (struct near_shared_ids_options){.ids = IDS,
							      .seats = 2 * PROCESSES + 1,
							      .size = sizeof(struct datum)});
	unit_timer(unit_slow() ? 20000 : 500, on_alarm);
	team_start(&t, THREADS, run);
	disturb(seconds);
	team_stop(&t);
	unit_timer(0, NULL);
	shared_detach(&view);
}

/* Nothing is lost. */
static void check(void)
{
	struct near_worker w[IDS] = {0};
	struct near_shared_ids_stats st;
	uint64_t uses = 0;

	shared_attach(&view, (struct near_shared_ids_options){0});
	st = shared_stats(&view.ids);
	CHECK(st.used == 0 && st.exits == 0 && st.taken == 1);
	for (unsigned i = 0; i < IDS; i++) {
		CHECK(shared_acquire(&view.ids, &w[i]) >= 0);
		uses += datum_of(&w[i])->n;
	}
	CHECK(uses == 2 * *acquired);
	printf("%llu acquires, hits %llu, discards %llu\n", (unsigned long long)*acquired,
	       (unsigned long long)st.hits, (unsigned long long)st.discards);
	shared_detach(&view);
}

int main(void)
{
	const char *text = getenv("NEAR_STRESS_SECONDS");
	double seconds = text ? atof(text) : 1;
	pid_t children[PROCESSES - 1];

	CHECK(set_up(NULL) == 0);
	acquired = unit_shared(sizeof(*acquired));
	for (unsigned i = 0; i < LENGTH(children); i++) {
		children[i] = unit_fork_here();
		if (children[i] == 0) {
			be_one(seconds);
			_exit(0);
		}
	}
	be_one(seconds);
	for (unsigned i = 0; i < LENGTH(children); i++)
		CHECK(unit_wait(children[i], NULL) == 0);
	check();
	return tear_down(NULL);
}
