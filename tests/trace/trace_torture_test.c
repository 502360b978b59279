/* SPDX-License-Identifier: MIT */
/* The sequences of near_trace, aborted at each instruction while other events and switches
 * of sub-buffers happen on the same slot: each event is in one ring, once,
 * and whole. */
#include "traces.h"

#include "tortured.h"

#include "trace/trace.h"

NEAR_TRACEPOINT(test, number, NEAR_TRACE_INFO, (u64, value));

struct state {
	unsigned words;    /* of the event */
	uint64_t position; /* of all rings, in their sub-buffer */
	bool is_inline;
};

/* What the events were made of. Rivals run on other threads, or in signal handlers. */
static uint64_t events, sum, serial;
static enum near_trace_clock the_clock;
static uint64_t begins[64]; /* of the first rings; one that is opened later begins at 0 */

static void start(void)
{
	traces_start((struct near_trace_options){.clock = the_clock, .ring_size = 256 << 10});
	near_trace_test_number(0);
}

static void setup(void *arg)
{
	const struct state *s = arg;
	struct near__trace_run *t;

	if (!near__trace.current)
		start();
	t = near__trace.current;
	for (unsigned i = 0; i < t->slots + t->cpus && i < LENGTH(begins); i++) {
		begins[i] = t->local[i].ring ? s->position : 0;
		if (!t->local[i].ring)
			continue;
		near__trace_make_ready(t, i,
				       (uint32_t)(t->file.ring_size / NEAR__TRACE_SUB_SIZE) - 1);
		/* Atomic: the session's thread loads it. */
		__atomic_store_n(&t->local[i].ring->position, s->position, __ATOMIC_RELAXED);
		t->local[i].ring->end = (s->position | (NEAR__TRACE_SUB_SIZE - 1)) + 1;
	}
	events = sum = serial = 0;
}

/* Interferers run between any two instructions of a function that contains a sequence: what changes
 * the variables above must not be inlined there. */
#define OUT_OF_LINE __attribute__((noinline))

OUT_OF_LINE static void write_inline(uint64_t value)
{
	near_trace_test_number(value);
}

OUT_OF_LINE static void write_words(uint64_t value, unsigned n)
{
	uint64_t words[32];

	for (unsigned i = 0; i < n; i++)
		words[i] = value;
	near__trace_words(&near__trace_point_test_number, words, n * sizeof(uint64_t));
}

OUT_OF_LINE static void event(uint64_t n, bool is_inline)
{
	uint64_t value = ++serial;

	if (is_inline)
		write_inline(value);
	else
		write_words(value, (unsigned)n);
	events++;
	sum += value;
}

static void run(void *arg)
{
	const struct state *s = arg;

	event(s->words, s->is_inline);
}

static void short_event(void *unused)
{
	event(1, true);
}

static void long_event(void *unused)
{
	event(32, false);
}

/* Ends a sub-buffer, wherever it is. */
static void many_events(void *unused)
{
	for (unsigned i = 0; i < 300; i++)
		event(32, false);
}

/* ---- each event once, and whole ---- */

/* Relaxed: events are written by this thread. Atomic, as the session's thread may touch the page of
 * the word, with a compare-exchange, at any time after the event. */
static uint64_t load(const uint64_t *w)
{
	return __atomic_load_n(w, __ATOMIC_RELAXED);
}

static const char *see(const uint64_t *w, uint64_t *n, uint64_t *total)
{
	unsigned words = (unsigned)(load(w) >> NEAR__TRACE_WORDS_SHIFT & 63) - 2;

	if (words < 1 || words > 32)
		return "a record has no length";
	for (unsigned i = 1; i < words; i++)
		if (load(w + 2 + i) != load(w + 2))
			return "a record is torn";
	++*n;
	*total += load(w + 2);
	return NULL;
}

static const char *check_ring(struct near__trace_ring *r, uint64_t at, uint64_t *n, uint64_t *total)
{
	const char *wrong = NULL;
	uint64_t time = 0;

	while (!wrong && at < r->position) {
		const uint64_t *w = near__trace_word_at(r, at);

		if (!load(w)) {
			at = (at | (NEAR__TRACE_SUB_SIZE - 1)) + 1;
			continue;
		}
		wrong = load(w + 1) < time ? "a time steps back" : see(w, n, total);
		time = load(w + 1);
		at += (load(w) >> NEAR__TRACE_WORDS_SHIFT & 63) * 8;
	}
	return wrong ? wrong : at == r->position ? NULL : "a position is within a record";
}

static const char *check(void *unused)
{
	struct near__trace_run *t = near__trace.current;
	uint64_t n = 0, total = 0;

	for (unsigned i = 0; i < t->slots + t->cpus && i < LENGTH(begins); i++) {
		struct near__trace_ring *r = t->local[i].ring;
		const char *wrong = r ? check_ring(r, begins[i], &n, &total) : NULL;

		if (wrong)
			return wrong;
	}
	if (t->file.session->discarded)
		return "an event was discarded";
	return n == events && total == sum ? NULL : "an event is lost, or there twice";
}

static const struct near_torture_rival rivals[] = {
	{"short event", short_event, NULL, 0},
	{"long event", long_event, NULL, 0},
	{"many events", many_events, NULL, 0},
};

static void torture(enum near_trace_clock clock, struct state state, unsigned sequences)
{
	const struct near_torture t = {
		.setup = setup,
		.run = run,
		.rivals = rivals,
		.n_rivals = LENGTH(rivals),
		.check = check,
		.arg = &state,
	};

	if (!near__thread_live() || near_slots() + near_cpus() > LENGTH(begins) ||
	    (clock == NEAR_TRACE_COUNTER && !near_clock()))
		skip();
	the_clock = clock;
	expect_tortured(&t, sequences);
}

#define TORTURE(name, clock, sequences, ...)                                                       \
	UNIT_TEST(name, torture(NEAR_TRACE_##clock, (struct state){__VA_ARGS__}, sequences))

TORTURE(one_word, COUNTER, 1, .is_inline = true)
TORTURE(two_words, COUNTER, 1, .words = 2)
TORTURE(three_words, COUNTER, 1, .words = 3)
TORTURE(eight_words, COUNTER, 1, .words = 8)
TORTURE(sixteen_words, COUNTER, 1, .words = 16)
TORTURE(all_words, COUNTER, 1, .words = 32)
/* The inline one, peek, switch, and again. */
TORTURE(a_full_sub_buffer, COUNTER, 3, .words = 1, .position = 65536 - 24)
TORTURE(a_sub_buffer_with_some_room, COUNTER, 3, .words = 5, .position = 65536 - 72)
/* Peek, write. */
TORTURE(another_clock, MONOTONIC, 2, .words = 1)
TORTURE(another_clock_in_a_full_sub_buffer, MONOTONIC, 3, .words = 3, .position = 65536 - 24)
TORTURE(no_clock, NO_CLOCK, 1, .words = 1)

UNIT_MAIN_EACH(traces_make_folder, traces_remove_folder, one_word, two_words, three_words,
	       eight_words, sixteen_words, all_words, a_full_sub_buffer,
	       a_sub_buffer_with_some_room, another_clock, another_clock_in_a_full_sub_buffer,
	       no_clock)
