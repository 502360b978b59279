/* SPDX-License-Identifier: MIT */
/* near_idspace under load: more threads than CPUs, which are moved, interrupted by signals, and
 * forked from. Each id has one worker at a time, whose plain increments are not lost. Takes
 * NEAR_STRESS_SECONDS, or one second. */
#include "ids.h"

#include "mover.h"
#include "team.h"

#define THREADS 8u
#define EACH 3u /* workers of a thread */
#define MOST 1000u

/* On a cache line of its own: that of ids next to it must not matter. */
struct datum {
	uint64_t n; /* changed by plain instructions */
	uint64_t busy;
};

static struct near_idspace space;
static struct datum *data;
static pid_t tids[THREADS];
static uint64_t acquired[THREADS];
static unsigned drains; /* one in this number of steps */

static struct datum *datum_of(int id)
{
	return near_idspace_at(&space, data, id);
}

/* Relaxed: it must not order what release and acquire have to. */
static void begin_use(int id)
{
	CHECK(__atomic_exchange_n(&datum_of(id)->busy, 1, __ATOMIC_RELAXED) == 0);
	datum_of(id)->n++;
}

static void end_use(int id)
{
	datum_of(id)->n++;
	CHECK(__atomic_exchange_n(&datum_of(id)->busy, 0, __ATOMIC_RELAXED) == 1);
}

static void acquire(struct near_worker *w, unsigned number)
{
	int id = near_idspace_acquire(&space, w);

	if (id < 0) {
		CHECK(id == -EAGAIN);
		return;
	}
	begin_use(id);
	acquired[number]++;
}

static void release(struct near_worker *w)
{
	end_use(near_worker_id(w));
	near_idspace_release(&space, w);
}

static void step(struct near_worker *w, unsigned number, uint64_t *random)
{
	unsigned i = unit_random(random) % EACH, k = unit_random(random) % EACH;

	if (unit_random(random) % drains == 0)
		near_idspace_drain(&space);
	if (near_worker_id(&w[i]) < 0)
		acquire(&w[i], number);
	else if (near_worker_id(&w[k]) < 0)
		near_idspace_hand_over(&space, &w[i], &w[k]);
	else
		release(&w[i]);
}

static void run(unsigned number)
{
	struct near_worker w[EACH] = {0};
	uint64_t random = number + 1;

	__atomic_store_n(&tids[number], (pid_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
	while (team_continues())
		step(w, number, &random);
	for (unsigned i = 0; i < EACH; i++)
		if (near_worker_id(&w[i]) >= 0)
			release(&w[i]);
}

/* The child has lost what other threads had: their workers, and what was between two places. */
static void use_in_child(unsigned ids)
{
	static struct near_worker w[MOST]; /* UNIT_CHILD_ALLOCATES */
	unsigned n = 0;

	while (n < ids && near_idspace_acquire(&space, &w[n]) >= 0)
		CHECK(near_worker_id(&w[n++]) < (int)ids);
	CHECK(n + THREADS * (EACH + 1) >= ids);
	for (unsigned i = 0; i < n; i++)
		near_idspace_release(&space, &w[i]);
}

static void on_alarm(int signal)
{
}

/* Not in a child of the sanitizer's threads. */
static void disturb(unsigned ids, double seconds)
{
	struct mover m;
	struct timespec begun, now;

	mover_begin(&m, ids);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		for (unsigned i = 0; i < THREADS; i++) {
			pid_t tid = __atomic_load_n(&tids[i], __ATOMIC_RELAXED);

			mover_bind(&m, tid);
			mover_release(&m, tid, 8);
		}
		if (!UNIT_THREAD_SANITIZER && unit_random(&m.random) % 8 == 0)
			unit_in_child((void (*)(void *))(uintptr_t)use_in_child,
				      (void *)(uintptr_t)ids);
		usleep(500);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - begun.tv_sec) + (double)(now.tv_nsec - begun.tv_nsec) / 1e9 <
		 seconds);
}

/* Nothing is lost, and no id was higher than it had to be. */
static void check(unsigned ids)
{
	struct near_idspace_stats st = ids_stats(&space);
	uint64_t uses = 0, all = 0;
	struct near_worker *w = calloc(ids, sizeof(*w));

	for (unsigned i = 0; i < THREADS; i++)
		all += acquired[i];
	CHECK(st.used == st.cached && st.cached <= 2 * near_slots());
	/* Workers may all have been on one node, then on another: an id stays with its node. */
	CHECK(st.highest <= (THREADS * EACH + 2 * near_slots()) * near__process.nodes);
	for (unsigned i = 0; i < ids; i++) {
		CHECK(near_idspace_acquire(&space, &w[i]) >= 0);
		uses += datum_of(near_worker_id(&w[i]))->n;
	}
	CHECK(uses == 2 * all);
	for (unsigned i = 0; i < ids; i++)
		near_idspace_release(&space, &w[i]);
	free(w);
	printf("%u ids: %llu acquires, highest %u, hits %llu, migrations %llu, discards %llu\n",
	       ids, (unsigned long long)all, st.highest, (unsigned long long)st.hits,
	       (unsigned long long)st.migrations, (unsigned long long)st.discards);
}

static void stress(unsigned ids, double seconds)
{
	struct team t;

	memset(acquired, 0, sizeof(acquired));
	memset(tids, 0, sizeof(tids));
	ids_init(&space, ids, 256);
	CHECK(near_idspace_alloc(&space, sizeof(*data), 64, (void **)&data) == 0);
	unit_timer(unit_slow() ? 20000 : 500, on_alarm);
	team_start(&t, THREADS, run);
	disturb(ids, seconds);
	team_stop(&t);
	unit_timer(0, NULL);
	check(ids);
	near_idspace_destroy(&space);
}

int main(void)
{
	const char *text = getenv("NEAR_STRESS_SECONDS");
	double seconds = text ? atof(text) : 1;

	drains = 5000;
	stress(THREADS + 3, seconds / 3); /* fewer than workers */
	drains = 50;
	stress(THREADS * EACH, seconds / 3);
	drains = UINT32_MAX;
	stress(MOST, seconds / 3);
	return 0;
}
