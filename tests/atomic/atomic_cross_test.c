/* SPDX-License-Identifier: MIT */
/* Threads in the middle of operations, each interrupted by a signal handler that uses an object,
 * too: its own thread's, or one that another interrupted thread is changing. Handlers may wait for
 * each other as long as they do so in one direction. All operations happen, each as a whole, and
 * every thread ends. Handlers are stopped for a while as well. */
#include "steps.h"
#include "team.h"
#include "words.h"

#define THREADS 4u

struct range {
	unsigned at, size;
};

/* What each thread does, and its handler. A place of size 0: nothing. */
static const struct {
	struct range own[THREADS], other[THREADS];
} scenarios[] = {
	/* An object in one line each. */
	{{{0, 24}, {512, 24}}, {{512, 24}, {512, 24}}},
	/* Of three lines and of one. */
	{{{40, 100}, {512, 24}}, {{512, 24}, {512, 24}}},
	{{{40, 100}, {512, 24}}, {{40, 100}, {40, 100}}},
	/* Of many both. */
	{{{0, 300}, {400, 200}}, {{400, 200}, {400, 200}}},
	/* Under the same lock: one of them waits before it holds it. */
	{{{0, 24}, {32, 24}}, {{32, 24}, {0, 24}}},
	/* One line is that of both. */
	{{{0, 100}, {96, 24}}, {{96, 24}, {96, 24}}},
	/* Three threads, each waits for the next one. */
	{{{0, 24}, {512, 24}, {768, 24}}, {{512, 24}, {768, 24}, {768, 24}}},
	/* Two use different lines of what the third is changing. */
	{{{512, 24}, {768, 24}, {0, 200}}, {{132, 24}, {8, 24}, {70, 24}}},
	/* Threads without handlers wait for one that has a handler. */
	{{{0, 200}, {512, 24}, {8, 24}, {132, 24}}, {{512, 24}, {}, {}, {}}},
};

static struct {
	unsigned char before[STEPS_ARENA], memory[STEPS_ARENA] __attribute__((aligned(64)));
	struct steps steps[THREADS];
	struct operation planned[THREADS][2];
	unsigned scenario, threads, rounds;
	unsigned met; /* how often all were interrupted at the same time that can be */
	unsigned arrived;
} * shared;

static pthread_barrier_t barrier;

static void tell(const char *what)
{
	fprintf(stderr, "%s, round %u:\n", what, shared->rounds);
	for (unsigned t = 0; t < shared->threads; t++) {
		fprintf(stderr, "  thread %u: ", t);
		operation_print(stderr, &shared->steps[t].ops[0]);
		fprintf(stderr, ", interrupted at instruction %u by ", shared->steps[t].at[0]);
		operation_print(stderr, &shared->steps[t].ops[1]);
		fputs("\n", stderr);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* In the handler: till the other threads are in their own, or have done without, or wait for a
 * lock that this one holds. In the middle of what handlers do: for a while, so that all see that it
 * has not come to an end. */
static void wait_for_others(struct steps *steps)
{
	double end = now() + (steps->level ? 0.0005 : 0.003);

	if (steps->level == 0)
		__atomic_fetch_add(&shared->arrived, 1, __ATOMIC_SEQ_CST);
	while ((steps->level ||
		__atomic_load_n(&shared->arrived, __ATOMIC_SEQ_CST) < shared->threads) &&
	       now() < end)
		sched_yield();
}

static void live(unsigned me)
{
	struct steps *steps = &shared->steps[me];

	pin(me);
	for (unsigned round = 0; round < shared->rounds; round++) {
		pthread_barrier_wait(&barrier); /* what is to be done is planned */
		steps_run(steps, shared->memory);
		if (!steps->met[0])
			__atomic_fetch_add(&shared->arrived, 1, __ATOMIC_SEQ_CST);
		pthread_barrier_wait(&barrier);
	}
}

static void fill(struct operation *op, struct range place, uint64_t *random)
{
	*op = (struct operation){
		.kind = (enum operation_kind)(unit_random(random) % OP_GENERIC_KINDS),
		.at = place.at,
		.size = place.size};
	for (unsigned i = 0; i < op->size; i++)
		op->value[i] = (unsigned char)unit_random(random);
	/* One of two compares finds what it expects, if nothing comes before it. */
	memcpy(op->expected, unit_random(random) % 2 ? shared->before + op->at : op->value,
	       op->size);
}

static void plan(uint64_t *random)
{
	/* In the middle of a handler: touches nothing that needs a lock. */
	static const struct range aside = {STEPS_ARENA - 8, 8};

	memcpy(shared->memory, shared->before, STEPS_ARENA);
	shared->arrived = 0;
	for (unsigned t = 0; t < shared->threads; t++) {
		struct steps *steps = &shared->steps[t];
		struct range own = scenarios[shared->scenario].own[t];
		struct range other = scenarios[shared->scenario].other[t];

		fill(&shared->planned[t][0], own, random);
		fill(&shared->planned[t][1], other.size ? other : aside, random);
		memcpy(steps->ops, shared->planned[t], sizeof(shared->planned[t]));
		fill(&steps->ops[2], aside, random);
		steps->ops[2].kind = OP_LOAD;
		steps->depth = unit_random(random) % 3 ? 3 : 2;
		steps->wait = wait_for_others;
		steps->met[0] = steps->met[1] = false;
		steps->at[0] = 20 + unit_random(random) % (own.size > 64 ? 300 : 90);
		steps->at[1] = 20 + unit_random(random) % 500;
	}
}

static void check(void)
{
	const struct operation *planned[2 * THREADS], *done[2 * THREADS];
	unsigned n = 0;

	for (unsigned i = 0; i < 2 * shared->threads; i++) {
		if (i % 2 && !shared->steps[i / 2].met[0])
			continue;
		planned[n] = &shared->planned[i / 2][i % 2];
		done[n++] = &shared->steps[i / 2].ops[i % 2];
	}
	shared->met += n == 2 * shared->threads;
	if (!steps_in_any_order(planned, done, n, shared->before, shared->memory)) {
		tell("in no order");
		_exit(1);
	}
	CHECK(steps_locks_are_free());
}

static void cross(void *unused)
{
	uint64_t random = shared->scenario;
	struct team team;

	alarm(100);
	steps_open();
	pthread_barrier_init(&barrier, NULL, shared->threads + 1);
	team_start(&team, shared->threads, live);
	for (unsigned round = 0; round < shared->rounds; round++) {
		plan(&random);
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		check();
	}
	team_join(&team);
}

static void threads_and_their_handlers(void **state)
{
	unsigned failures = 0;

	for (shared->scenario = 0; shared->scenario < LENGTH(scenarios); shared->scenario++) {
		int signal = 0;

		for (shared->threads = 2; shared->threads < THREADS; shared->threads++)
			if (scenarios[shared->scenario].own[shared->threads].size == 0)
				break;
		shared->rounds = unit_scale(40);
		shared->met = 0;
		if (unit_wait(unit_fork(cross, NULL), &signal)) {
			if (signal)
				tell(signal == SIGALRM ? "hangs" : "killed");
			failures++;
		}
		printf("scenario %u: all were interrupted %u times\n", shared->scenario,
		       shared->met);
	}
	assert_int_equal(failures, 0);
}

int main(void)
{
	shared = steps_share(sizeof(*shared));
	return UNIT_TESTS(threads_and_their_handlers);
}
