/* SPDX-License-Identifier: MIT */
/* pool_server: the response time of a small server whose requests take objects.
 *
 * Each thread makes requests for another one, 32 at a time, and answers those that it has got: it
 * needs a session, a response and six buffers for each, writes to them, computes for about half a
 * microsecond, and releases all of them and the request. A session and a response have a
 * constructor, which fills them. Measured is the time from the beginning of an answer to its end.
 *
 * Source: the commit that introduced rseq (2018): with per-CPU pools in an allocator the mean
 * response time of a service became 1 to 2 % shorter, the 99th percentile 2 to 3 %.
 */
#include "bench.h"
#include "clock.h"

#include <nearcpu/histogram.h>
#include <nearcpu/malloc.h>
#include <nearcpu/pool.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define AT_ONCE 32
#define BUFFERS 6
#define WORK 200 /* steps of a computation */

enum type { REQUEST, BUFFER, RESPONSE, SESSION, TYPES };
static const size_t sizes[TYPES] = {96, 256, 768, 2048};

/* The constructor's work: a table of pointers, and zeros. */
static int construct(void *object, void *arg)
{
	size_t size = *(const size_t *)arg;
	void **words = object;

	memset(object, 0, size);
	for (size_t i = 0; i < size / 64; i++)
		words[i] = &words[i + 1];
	return 0;
}

static bool has_constructor(enum type type) { return type >= RESPONSE; }

/* ---- ways ---- */

struct way {
	void *(*get)(enum type type);
	void (*put)(enum type type, void *object);
};

static struct near_pool pools[TYPES];

static void *get_pool(enum type type) { return near_pool_get(&pools[type]); }
static void put_pool(enum type type, void *object) { near_pool_put(&pools[type], object); }

static void *constructed(enum type type, void *object)
{
	if (has_constructor(type))
		construct(object, (void *)(uintptr_t)&sizes[type]);
	return object;
}

#define ALLOCATOR(kind, allocate, release)                                                         \
	static void *get_##kind(enum type type)                                                    \
	{                                                                                          \
		return constructed(type, allocate(sizes[type]));                                   \
	}                                                                                          \
	static void put_##kind(enum type type, void *object)                                       \
	{                                                                                          \
		(void)type;                                                                        \
		release(object);                                                                   \
	}
ALLOCATOR(glibc, malloc, free)
ALLOCATOR(near_malloc, near_malloc, near_free)

static int make_pools(void)
{
	int err = 0;

	for (enum type i = 0; i < TYPES && !err; i++) {
		struct near_pool_options o = {0};

		if (has_constructor(i)) {
			o.construct = construct;
			o.arg = (void *)(uintptr_t)&sizes[i];
		}
		err = near_pool_init(&pools[i], sizes[i], &o);
	}
	return err;
}

/* ---- the server ---- */

struct request {
	uint64_t number, seed;
	char text[80];
};

struct server {
	_Alignas(BENCH_LINE) _Atomic(struct request **) inbox;
	pthread_t thread;
	struct way way;
	struct server *next;
	uint64_t requests, busy_ns, sum;
};

static struct near_histogram times;

static void server_answer(struct server *s, struct request *r)
{
	uint64_t *session = s->way.get(SESSION), *response = s->way.get(RESPONSE), x = r->seed;
	char *buffers[BUFFERS];

	for (unsigned i = 0; i < BUFFERS; i++) {
		buffers[i] = s->way.get(BUFFER);
		memset(buffers[i], (int)i, 64);
	}
	for (unsigned i = 0; i < WORK; i++)
		x = x * 6364136223846793005u + (uint64_t)r->text[i % sizeof(r->text)];
	session[40] = response[50] = x;
	s->sum += session[40];
	for (unsigned i = 0; i < BUFFERS; i++)
		s->way.put(BUFFER, buffers[i]);
	s->way.put(RESPONSE, response);
	s->way.put(SESSION, session);
	s->way.put(REQUEST, r);
}

static void make_requests(struct server *s, struct request **requests)
{
	for (unsigned i = 0; i < AT_ONCE; i++) {
		requests[i] = s->way.get(REQUEST);
		requests[i]->seed = i;
		memset(requests[i]->text, (int)i, sizeof(requests[i]->text));
	}
}

static void *server_serve(void *arg)
{
	struct server *s = arg;
	struct request *arrays[2][AT_ONCE], **requests;

	for (uint64_t n = 0; n < s->requests; n += AT_ONCE) {
		requests = arrays[n / AT_ONCE % 2];
		make_requests(s, requests);
		/* acquire and release: the array was read, the requests were written. */
		while (atomic_load_explicit(&s->next->inbox, memory_order_acquire))
			sched_yield();
		atomic_store_explicit(&s->next->inbox, requests, memory_order_release);
		while (!(requests = atomic_load_explicit(&s->inbox, memory_order_acquire)))
			sched_yield();
		for (unsigned i = 0; i < AT_ONCE; i++) {
			uint64_t from = now_ns(), ns;

			server_answer(s, requests[i]);
			ns = now_ns() - from;
			s->busy_ns += ns;
			near_histogram_record(&times, ns);
		}
		atomic_store_explicit(&s->inbox, NULL, memory_order_release);
	}
	/* The array is on this thread's stack. */
	while (atomic_load_explicit(&s->next->inbox, memory_order_acquire))
		sched_yield();
	return NULL;
}

/* The sample's time is that of an answer: the mean, or of all a percentile. */
static int run_server(struct bench_run *run, struct bench_sample *out, struct way way,
		      unsigned percentile)
{
	struct server *servers = bench_alloc(run->threads, sizeof(*servers));
	struct near_histogram_snapshot all;
	int err = servers ? near_histogram_init(&times, NULL) : -ENOMEM;

	if (err)
		return err;
	for (unsigned i = 0; i < run->threads; i++) {
		servers[i].way = way;
		servers[i].next = &servers[(i + 1) % run->threads];
		servers[i].requests = run->iterations / AT_ONCE * AT_ONCE;
	}
	for (unsigned i = 0; i < run->threads; i++)
		if (pthread_create(&servers[i].thread, NULL, server_serve, &servers[i]))
			abort();
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < run->threads; i++) {
		pthread_join(servers[i].thread, NULL);
		out->ops += servers[i].requests;
		out->user_ns += servers[i].busy_ns;
	}
	err = near_histogram_read(&times, &all);
	if (err)
		return err;
	if (percentile)
		out->user_ns = near_histogram_snapshot_percentile(&all, percentile).high * out->ops;
	out->wall_ns = out->user_ns / run->threads;
	run->done = all.count;
	run->wrong = bench_compare(all.count, out->ops);
	near_histogram_snapshot_free(&all);
	free(servers);
	return 0;
}

#define RUN(kind, make, percentile)                                                                \
	static int run_##kind##_##percentile(struct bench_run *run, struct bench_sample *out)      \
	{                                                                                          \
		int err = make;                                                                    \
                                                                                                   \
		return err ? err                                                                   \
			   : run_server(run, out, (struct way){get_##kind, put_##kind},            \
					percentile);                                               \
	}

RUN(pool, make_pools(), 0)
RUN(glibc, 0, 0)
RUN(near_malloc, 0, 0)
RUN(pool, make_pools(), 99)
RUN(glibc, 0, 99)
RUN(near_malloc, 0, 99)

#define ROWS(percentile)                                                                           \
	{"glibc", "malloc, glibc", .run = run_glibc_##percentile},                                 \
		{"near", "near_pool", BENCH_LIVE, .run = run_pool_##percentile},                   \
	{                                                                                          \
		"malloc", "near_malloc", BENCH_LIVE, .run = run_near_malloc_##percentile           \
	}

static const struct bench_row mean_rows[] = {ROWS(0)};
static const struct bench_row p99_rows[] = {ROWS(99)};

#define SERVER(word, what, figure, measured)                                                       \
	BENCH_TABLE("pool", "server-" #word, what, "an answer",                                    \
		    "Two threads answer each other's requests, each with eight objects, two "      \
		    "of them constructed. The times are those of answers: " measured,              \
		    word##_rows,                                                                   \
		    BENCH_FIGURES({figure " against glibc", "near", "glibc", .goal = 1},           \
				  {figure " against near_malloc", "near", "malloc", .goal = 1}),   \
		    .iterations = 300000, .threads = 2, .fixed_threads = true)

const struct bench bench_pool_server =
	SERVER(mean, "A small server: mean response time", "mean response time", "their mean. ");
const struct bench bench_pool_server_p99 = SERVER(p99, "A small server: p99 of the response time",
						  "p99 of the response time",
						  "what 99 of 100 take at most. ");
