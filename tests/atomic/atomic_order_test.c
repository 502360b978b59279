/* SPDX-License-Identifier: MIT */
/* Linearizability of libatomic: threads make short random histories on one object, and there is an
 * order of each that explains it.
 * usage: atomic_order_test [BATCHES]: how many of HISTORIES histories each */
#include "alarms.h"
#include "history.h"
#include "team.h"
#include "words.h"

#define HISTORIES 250u
#define ARENA 512u

/* Aligned and not, within a word, a line, and over some. */
static const struct place places[] = {
	{0, 24, false},  {0, 16, true},   {0, 12, false}, {8, 12, false},
	{8, 16, false},  {0, 64, false},  {0, 8, true},   {20, 100, false},
	{56, 24, false}, {0, 300, false}, {4, 8, false},  {60, 8, false},
	{64, 4, true},   {2, 2, true},    {4, 16, false}, {1, 4, false},
};

static struct history histories[HISTORIES];
static unsigned char arenas[HISTORIES][ARENA] __attribute__((aligned(64)));
static const struct place *place;
static bool by_clock;
static unsigned arrived, stamps __attribute__((aligned(64)));

/* Spins until all threads are at this history. */
static void meet(unsigned history, unsigned threads)
{
	__atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
	for (unsigned spins = 1;
	     __atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < (history + 1) * threads; spins++)
		if (spins % 256 == 0)
			sched_yield();
}

/* The clock leaves the threads alone, but orders nothing by itself. */
static uint64_t stamp(void)
{
	struct timespec now;

	if (!by_clock)
		return __atomic_fetch_add(&stamps, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	clock_gettime(CLOCK_MONOTONIC, &now);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* An object's bytes repeat those of the value. */
static void spread(unsigned char *bytes, uint32_t value)
{
	for (unsigned i = 0; i < place->size; i++)
		bytes[i] = (unsigned char)(value >> i % 4 * 8);
}

static uint32_t gathered(const unsigned char *bytes, bool *torn)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < place->size && i < 4; i++)
		value |= (uint32_t)bytes[i] << i * 8;
	for (unsigned i = 4; i < place->size; i++)
		*torn |= bytes[i] != (unsigned char)(value >> i % 4 * 8);
	return value;
}

/* `known` is what the thread last saw there. */
static uint32_t make(struct event *e, struct operation *op, void *arena, uint32_t known)
{
	op->kind = e->kind;
	/* Alternately, of those that have both. */
	op->sized = place->sized && (e->kind >= OP_GENERIC_KINDS || e->value & 1);
	spread(op->value, e->value);
	if (e->kind == OP_CAS)
		spread(op->expected, e->expected = known);
	e->begin = stamp();
	operation_run(op, arena);
	e->end = stamp();
	e->swapped = e->kind == OP_CAS && op->swapped;
	if (e->kind == OP_CAS)
		e->result = gathered(op->expected, &e->torn);
	else if (e->kind != OP_STORE)
		e->result = gathered(op->result, &e->torn);
	return e->kind == OP_STORE || e->swapped ? e->value : e->result;
}

static void live(unsigned t)
{
	struct operation op = {.at = place->at, .size = place->size};

	mask_alarm(SIG_UNBLOCK);
	pin(t);
	for (unsigned i = 0; i < HISTORIES; i++) {
		struct history *h = &histories[i];
		uint32_t known = h->first;

		meet(i, h->threads);
		for (unsigned k = 0; k < h->n; k++)
			known = make(&h->events[t][k], &op, arenas[i], known);
	}
}

/* A nand sets the upper bits, from which an addition would carry into the next word: a history has
 * one or the other. */
static void plan(struct history *h, unsigned threads, uint64_t *random)
{
	bool nand = unit_random(random) % 2;
	unsigned kinds = place->sized ? OP_KINDS : OP_GENERIC_KINDS;

	memset(h, 0, sizeof(*h));
	h->threads = threads;
	h->n = threads == 2 ? HISTORY_EVENTS : 4;
	h->mask = place->size < 4 ? (1u << place->size * 8) - 1 : UINT32_MAX;
	h->first = unit_random(random) & 0xffffff & h->mask;
	for (unsigned i = 0; i < threads * h->n; i++) {
		struct event *e = &h->events[i / h->n][i % h->n];

		e->kind = (enum operation_kind)(unit_random(random) % kinds);
		if (e->kind == OP_FETCH_SUB || (nand && e->kind == OP_ADD_FETCH) ||
		    (nand && e->kind == OP_FETCH_ADD))
			e->kind = OP_FETCH_XOR;
		if (!nand && e->kind == OP_FETCH_NAND)
			e->kind = OP_FETCH_AND;
		e->value = unit_random(random) & 0xffffff & h->mask;
	}
}

static void yield(int signal)
{
	sched_yield();
}

static void run_batch(unsigned threads, uint64_t *random)
{
	for (unsigned i = 0; i < HISTORIES; i++) {
		plan(&histories[i], threads, random);
		memset(arenas[i], 0xa5, ARENA);
		spread(arenas[i] + place->at, histories[i].first);
	}
	arrived = 0;
	stamps = 0;
	team_run(threads, live);
	for (unsigned i = 0; i < HISTORIES; i++)
		histories[i].last =
			gathered(arenas[i] + place->at, &histories[i].events[0][0].torn);
}

/* Whether no other byte than those of the object changed. */
static bool is_intact(const unsigned char *arena)
{
	for (unsigned i = 0; i < ARENA; i++)
		if (i - place->at >= place->size && arena[i] != 0xa5)
			return false;
	return true;
}

static unsigned batches = 384;

static void histories_are_linear(void **state)
{
	uint64_t random = (uint64_t)getpid();
	unsigned long run = 0, overlapped = 0, wrong = 0;
	unsigned n = unit_scale(batches);

	n = n < LENGTH(places) ? LENGTH(places) : n;
	/* Now and then a thread is interrupted inside, and others go on. The alarms are theirs. */
	mask_alarm(SIG_BLOCK);
	unit_timer(300, yield);
	for (unsigned batch = 0; batch < n && !wrong; batch++) {
		place = &places[batch % LENGTH(places)];
		by_clock = batch / LENGTH(places) % 2;
		run_batch(2 + batch * 5 / 3 % 3, &random);
		run += HISTORIES;
		for (unsigned i = 0; i < HISTORIES; i++) {
			overlapped += history_overlaps(&histories[i]);
			if (history_is_linear(&histories[i]) && is_intact(arenas[i]))
				continue;
			if (!wrong++) {
				fprintf(stderr, "%u bytes at %u: in no order\n", place->size,
					place->at);
				history_print(stderr, &histories[i]);
			}
		}
	}
	unit_timer(0, NULL);
	mask_alarm(SIG_UNBLOCK);
	printf("%lu histories, %lu %% with operations that overlap\n", run, overlapped * 100 / run);
	assert_true(wrong == 0);
	/* A machine that runs one thread after the other has not tried anything. */
	assert_true(overlapped > 0);
}

/* ---- the checker ---- */

/* Two threads with one event each, between these stamps. */
static struct history two(struct event a, struct event b, uint32_t last)
{
	struct history h = {.first = 7, .last = last, .mask = UINT32_MAX, .threads = 2, .n = 1};

	h.events[0][0] = a;
	h.events[1][0] = b;
	return h;
}

static void the_checker_tells_wrong_from_right(void **state)
{
	struct event store = {.begin = 1, .end = 3, .kind = OP_STORE, .value = 8};
	struct event load = {.begin = 2, .end = 4, .kind = OP_LOAD, .result = 7};
	struct event cas = {
		.begin = 2, .end = 4, .kind = OP_CAS, .expected = 7, .result = 7, .value = 9};
	struct history h = two(store, load, 8);

	assert_true(history_is_linear(&h) && history_overlaps(&h));
	h.events[1][0].result = 9;
	assert_false(history_is_linear(&h));
	h = two(store, load, 7);
	assert_false(history_is_linear(&h));
	load.begin = 4; /* after the store, and it does not see it */
	h = two(store, load, 8);
	assert_false(history_is_linear(&h) || history_overlaps(&h));
	h = two(store, cas, 8); /* what it found is what it expected, and it failed */
	assert_false(history_is_linear(&h));
	cas.swapped = true;
	h = two(store, cas, 8);
	assert_true(history_is_linear(&h));
	h.last = 9; /* it swapped what was gone */
	assert_false(history_is_linear(&h));
	store.kind = OP_FETCH_ADD; /* two of them see the same */
	store.result = 7;
	h = two(store, store, 7 + 2 * 8);
	assert_false(history_is_linear(&h));
	h.events[1][0].result = 15;
	assert_true(history_is_linear(&h));
	h.events[1][0].torn = true;
	assert_false(history_is_linear(&h));
}

int main(int argc, char **argv)
{
	if (argc > 1)
		batches = (unsigned)atoi(argv[1]);
	return UNIT_TESTS(the_checker_tells_wrong_from_right, histories_are_linear);
}
