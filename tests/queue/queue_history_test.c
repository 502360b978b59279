/* SPDX-License-Identifier: MIT */
/* Short histories of near_queue and near_fifo: each has an order in which every call takes effect
 * at one moment between its begin and its end (Wing and Gong, 1993). A near_fifo is one sequence of
 * elements; a near_queue one for each slot, where each thread has a slot of its own. Close aborts
 * no sequence on such a slot: histories with a close have the slots that the kernel gives, so that
 * a near_queue is a bag. A search with memos finds the order. The program is linked with
 * --wrap=near__topology_cpus. */
#include "slots.h"

#include "kinds.h"
#include "team.h"

#define THREADS 4u
#define EVENTS 5u
#define CAPACITY 2u
#define MOST (THREADS * CAPACITY)

enum what { PUT, GET, CLOSE };

/* The clock is a counter that all threads increment: it also makes visible what they did before. */
struct event {
	enum what what;
	uint64_t begin, end;
	unsigned char element, result; /* of PUT and GET; an error in `result` */
};

enum { OK, AGAIN, CLOSED };
enum model { FIFO, SLOTS, BAG };

struct history {
	enum model model;
	struct event events[THREADS][EVENTS];
};

/* Where each thread is, and what is in the sequences: the fifo is the first. */
struct state {
	unsigned char next[THREADS], closed;
	unsigned char n[THREADS], elements[THREADS][MOST];
};

/* ---- the search ---- */

static bool put_happens(const struct history *h, const struct event *e, unsigned t, struct state *s)
{
	unsigned ring = h->model == FIFO ? 0 : t;

	if (s->closed)
		return e->result == CLOSED;
	if (h->model != BAG && s->n[ring] == CAPACITY)
		return e->result == AGAIN;
	s->elements[ring][s->n[ring]++] = e->element;
	return e->result == OK;
}

/* Where the element is in the sequence, if it can be taken; else n. */
static unsigned place_of(const struct history *h, const struct state *s, unsigned ring,
			 unsigned char element)
{
	for (unsigned i = 0; i < s->n[ring] && (i == 0 || h->model == BAG); i++)
		if (s->elements[ring][i] == element)
			return i;
	return s->n[ring];
}

static bool get_happens(const struct history *h, const struct event *e, struct state *s)
{
	unsigned all = 0;

	for (unsigned ring = 0; ring < THREADS; ring++) {
		unsigned i = place_of(h, s, ring, e->element);

		all += s->n[ring];
		if (e->result != OK || i == s->n[ring])
			continue;
		memmove(s->elements[ring] + i, s->elements[ring] + i + 1, MOST - i - 1);
		s->elements[ring][MOST - 1] = 0;
		s->n[ring]--;
		return true;
	}
	return !all && e->result == (s->closed ? CLOSED : AGAIN);
}

static bool happens(const struct history *h, unsigned t, struct state *s)
{
	const struct event *e = &h->events[t][s->next[t]++];

	if (e->what == CLOSE)
		s->closed = 1;
	return e->what == CLOSE ||
	       (e->what == PUT ? put_happens(h, e, t, s) : get_happens(h, e, s));
}

#define MEMOS 4096u
static struct state failed[MEMOS];

static struct state *memo_of(const struct state *s)
{
	uint64_t hash = 1;

	for (size_t i = 0; i < sizeof(*s); i++)
		hash = (hash ^ ((const unsigned char *)s)[i]) * 0x9e3779b97f4a7c15u;
	return &failed[hash >> 52];
}

static bool goes_on(const struct history *h, const struct state *s)
{
	uint64_t end = UINT64_MAX;

	for (unsigned t = 0; t < THREADS; t++)
		if (s->next[t] < EVENTS && h->events[t][s->next[t]].end < end)
			end = h->events[t][s->next[t]].end;
	if (end == UINT64_MAX)
		return true;
	if (memcmp(memo_of(s), s, sizeof(*s)) == 0)
		return false;
	for (unsigned t = 0; t < THREADS; t++) {
		struct state after = *s;

		if (s->next[t] < EVENTS && h->events[t][s->next[t]].begin <= end &&
		    happens(h, t, &after) && goes_on(h, &after))
			return true;
	}
	*memo_of(s) = *s;
	return false;
}

static void print(const struct history *h)
{
	static const char *const what[] = {"put", "get", "close"};
	static const char *const results[] = {"ok", "again", "closed"};

	for (unsigned t = 0; t < THREADS; t++)
		for (unsigned i = 0; i < EVENTS; i++)
			fprintf(stderr, "thread %u: %llu to %llu: %s %u %s\n", t,
				(unsigned long long)h->events[t][i].begin,
				(unsigned long long)h->events[t][i].end, what[h->events[t][i].what],
				h->events[t][i].element, results[h->events[t][i].result]);
}

static bool is_linear(const struct history *h)
{
	struct state first = {{0}, 0, {0}, {{0}}};

	memset(failed, 0xff, sizeof(failed));
	return goes_on(h, &first);
}

/* ---- histories ---- */

static const struct queue_kind *k;
static union any_queue q;
static struct history history;
static uint64_t now, random_of[THREADS];
static pthread_barrier_t barrier;
static unsigned rounds;
static size_t capacity;

static uint64_t tick(void)
{
	return __atomic_fetch_add(&now, 1, __ATOMIC_SEQ_CST);
}

static unsigned char result_of(int r)
{
	CHECK(r == 0 || r == -EAGAIN || r == -EPIPE);
	return r == 0 ? OK : r == -EAGAIN ? AGAIN : CLOSED;
}

static void make_event(struct event *e, unsigned me, unsigned i)
{
	uint32_t random = unit_random(&random_of[me]);
	void *out = NULL;

	e->what = random % 2 ? PUT : GET;
	if (history.model != SLOTS && me == 0 && i == EVENTS - 2)
		e->what = CLOSE;
	e->element = (unsigned char)(1 + me * EVENTS + i);
	for (volatile unsigned pause = random >> 8 & 63; pause; pause--)
		;
	e->begin = tick();
	if (e->what == CLOSE)
		k->close(&q);
	else if (e->what == PUT)
		e->result = result_of(k->try_put(&q, element(e->element)));
	else
		e->result = result_of(k->try_get(&q, &out));
	e->end = tick();
	if (e->what == GET)
		e->element = (unsigned char)(uintptr_t)out;
}

static void work(unsigned me)
{
	unit_pin(me % 2, NULL);
	if (history.model == SLOTS)
		slots_enter(me);
	for (unsigned r = 0; r < rounds; r++) {
		pthread_barrier_wait(&barrier);
		for (unsigned i = 0; i < EVENTS; i++)
			make_event(&history.events[me][i], me, i);
		pthread_barrier_wait(&barrier);
		if (me)
			continue;
		if (!is_linear(&history)) {
			print(&history);
			CHECK(!"linear");
		}
		k->destroy(&q);
		CHECK(k->init(&q, capacity) == 0);
	}
}

static void run(const struct queue_kind *kind, enum model model, size_t room)
{
	unit_pin(0, NULL); /* it must know the CPUs before there are threads */
	unit_unpin();
	k = kind;
	history.model = model;
	capacity = room;
	rounds = unit_scale(2000);
	assert_int_equal(k->init(&q, capacity), 0);
	for (unsigned t = 0; t < THREADS; t++)
		random_of[t] = 1000 * model + t;
	pthread_barrier_init(&barrier, NULL, THREADS);
	team_run(THREADS, work);
	pthread_barrier_destroy(&barrier);
	k->destroy(&q);
}

static void a_fifo_is_a_sequence(void **state)
{
	run(&kind_fifo, FIFO, CAPACITY);
}

static void a_queue_is_a_sequence_for_each_slot(void **state)
{
	run(&kind_queue, SLOTS, CAPACITY);
}

static void a_queue_is_closed_at_one_moment(void **state)
{
	run(&kind_queue, BAG, THREADS * EVENTS);
}

/* ---- the search finds what is not linear ---- */

#define EV(what, begin, end, element, result)                                                      \
	{                                                                                          \
		what, begin, end, element, result                                                  \
	}

static void what_is_not_linear_is_found(void **state)
{
	/* Other events: gets of an empty queue before and after. */
	struct history h = {.model = FIFO};

	for (unsigned t = 0; t < THREADS; t++)
		for (unsigned i = 0; i < EVENTS; i++)
			h.events[t][i] = (struct event)EV(GET, i, i, 0, AGAIN);
	assert_true(is_linear(&h));
	h.events[0][4] = (struct event)EV(PUT, 10, 11, 1, OK);
	h.events[1][4] = (struct event)EV(PUT, 12, 13, 2, OK);
	h.events[2][4] = (struct event)EV(GET, 14, 20, 1, OK);
	h.events[3][4] = (struct event)EV(GET, 14, 20, 2, OK);
	assert_true(is_linear(&h));
	h.events[3][4].end = 15;
	h.events[2][4].begin = 16;
	assert_false(is_linear(&h)); /* the second comes out first */
	h.model = SLOTS;
	assert_true(is_linear(&h)); /* but of another slot */
	h.events[3][4] = (struct event)EV(GET, 14, 15, 0, AGAIN);
	assert_false(is_linear(&h)); /* it was not empty */
	h.events[3][4] = (struct event)EV(GET, 8, 12, 0, AGAIN);
	assert_true(is_linear(&h));
	h.events[3][4] = (struct event)EV(GET, 14, 20, 1, OK);
	assert_false(is_linear(&h)); /* taken twice */
}

UNIT_MAIN(what_is_not_linear_is_found, a_fifo_is_a_sequence, a_queue_is_a_sequence_for_each_slot,
	  a_queue_is_closed_at_one_moment)
