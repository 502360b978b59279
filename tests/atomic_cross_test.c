/* SPDX-License-Identifier: MIT */
/* Two threads in the midst of operations on two objects, each interrupted by a signal handler that
 * uses the object which the other is changing. Neither section can go on before its handler has
 * returned. All four operations happen, each at once, and nobody waits for ever. */
#define _GNU_SOURCE
#include "unit.h"

#include <sys/mman.h>
#include <time.h>

#include "atomic/steps.h"
#include "atomic/table.h"

struct place {
	unsigned at, size;
};

static const struct {
	struct place x, y;
} pairs[] = {
	{{0, 24}, {512, 24}},   /* an object in one line each */
	{{40, 100}, {512, 24}}, /* of three lines and of one */
	{{0, 300}, {400, 200}}, /* of many both */
	{{0, 24}, {32, 24}},    /* under the same lock: one of them waits before it is inside */
	{{0, 100}, {96, 24}},   /* one line is that of both */
};

/* What the parent sees of a child that hangs. */
static struct {
	struct steps steps[2];
	struct act planned[2][2];
	unsigned char before[STEPS_ARENA], memory[STEPS_ARENA] __attribute__((aligned(64)));
	unsigned pair, rounds, both; /* both: how often both were interrupted at the same time */
	unsigned arrived;
} * shared;

static pthread_barrier_t barrier;

static void tell(const char *what)
{
	fprintf(stderr, "%s, round %u:\n", what, shared->rounds);
	for (unsigned t = 0; t < 2; t++) {
		fprintf(stderr, "  thread %u: ", t);
		act_print(stderr, &shared->steps[t].acts[0]);
		fprintf(stderr, ", interrupted at instruction %u by ", shared->steps[t].at[0]);
		act_print(stderr, &shared->steps[t].acts[1]);
		fputs("\n", stderr);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* In the handler: till the other thread is in its own, or has done without, or waits for a lock
 * that this one holds. */
static void wait_for_other(struct steps *steps)
{
	double end = now() + 0.003;

	(void)steps;
	__atomic_fetch_add(&shared->arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->arrived, __ATOMIC_SEQ_CST) < 2 && now() < end)
		sched_yield();
}

static void *live(void *number)
{
	unsigned me = *(unsigned *)number;
	struct steps *steps = &shared->steps[me];

	unit_pin(me % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), NULL);
	for (unsigned round = 0; round < shared->rounds; round++) {
		pthread_barrier_wait(&barrier); /* what is to be done is planned */
		steps_run(steps, shared->memory);
		if (!steps->met[0])
			__atomic_fetch_add(&shared->arrived, 1, __ATOMIC_SEQ_CST);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void fill(struct act *act, struct place place, uint64_t *random)
{
	*act = (struct act){.kind = (enum act_kind)(unit_random(random) % ACT_GENERIC_KINDS),
			    .at = place.at,
			    .size = place.size};
	for (unsigned i = 0; i < act->size; i++)
		act->value[i] = (unsigned char)unit_random(random);
	/* One of two compares finds what it expects, if nothing comes before it. */
	memcpy(act->expected, unit_random(random) % 2 ? shared->before + act->at : act->value,
	       act->size);
}

static void plan(uint64_t *random)
{
	struct place places[2] = {pairs[shared->pair].x, pairs[shared->pair].y};

	memcpy(shared->memory, shared->before, STEPS_ARENA);
	shared->arrived = 0;
	for (unsigned t = 0; t < 2; t++) {
		struct steps *steps = &shared->steps[t];

		fill(&shared->planned[t][0], places[t], random);
		fill(&shared->planned[t][1], places[!t], random);
		memcpy(steps->acts, shared->planned[t], sizeof(shared->planned[t]));
		steps->depth = 2;
		steps->wait = wait_for_other;
		steps->met[0] = false;
		steps->at[0] = 20 + unit_random(random) % (places[t].size > 64 ? 300 : 90);
	}
}

static void check(void)
{
	const struct act *planned[4], *done[4];
	unsigned n = 0;

	for (unsigned i = 0; i < 4; i++) {
		if (i % 2 && !shared->steps[i / 2].met[0])
			continue;
		planned[n] = &shared->planned[i / 2][i % 2];
		done[n++] = &shared->steps[i / 2].acts[i % 2];
	}
	shared->both += n == 4;
	if (!steps_in_any_order(planned, done, n, shared->before, shared->memory)) {
		tell("in no order");
		_exit(1);
	}
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++)
		CHECK(!(near__atomic_table.locks[i].word & 1) &&
		      !near__atomic_table.locks[i].section);
}

static void cross(void *unused)
{
	unsigned numbers[2] = {0, 1};
	pthread_t threads[2];
	uint64_t random = shared->pair;

	(void)unused;
	alarm(4);
	steps_open();
	pthread_barrier_init(&barrier, NULL, 3);
	for (unsigned t = 0; t < 2; t++)
		threads[t] = unit_start(live, &numbers[t]);
	for (unsigned round = 0; round < shared->rounds; round++) {
		plan(&random);
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		check();
	}
	for (unsigned t = 0; t < 2; t++)
		unit_join(threads[t]);
}

static void two_threads_and_their_handlers(void **state)
{
	unsigned failures = 0;

	(void)state;
	for (shared->pair = 0; shared->pair < LENGTH(pairs); shared->pair++) {
		int signal = 0;

		shared->rounds = unit_scale(150);
		shared->both = 0;
		if (unit_wait(unit_fork(cross, NULL), &signal)) {
			if (signal)
				tell(signal == SIGALRM ? "hangs" : "killed");
			failures++;
		}
		printf("%u@%u, %u@%u: both were interrupted %u times\n", pairs[shared->pair].x.size,
		       pairs[shared->pair].x.at, pairs[shared->pair].y.size,
		       pairs[shared->pair].y.at, shared->both);
	}
	assert_int_equal(failures, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_threads_and_their_handlers),
	};

	if (!steps_possible()) {
		puts("skipped: no single steps here");
		return 77;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	for (unsigned i = 0; i < STEPS_ARENA; i++)
		shared->before[i] = (unsigned char)(i * 7 + 1);
	/* It finds out which CPUs there are, before there are threads. */
	unit_pin(0, NULL);
	unit_unpin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
