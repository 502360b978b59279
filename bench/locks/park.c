/* SPDX-License-Identifier: MIT */
/* usage: nearcpu-parking [--pairs N] [--idle N] [--rounds N] [--window MS]
 *
 * Pairs of threads that wake each other by turns, each thread on an address of its own, beside idle
 * threads that sleep on others: what a lock of all sleepers costs those who have nothing to do with
 * each other. One queue with one lock is what OpenBSD had until 2024, 64 of them what it has since.
 * Each figure is the median of so many windows; the windows of the rows take turns. */
#define _GNU_SOURCE
#include <nearcpu/lock.h>
#include <nearcpu/park.h>

#include <getopt.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "window.h"

#define MAX_THREADS 4096
#define MAX_ROUNDS 99
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct {
	unsigned pairs, idle, rounds, window_ms;
} options = {4, 256, 5, 200};

/* ---- ways to sleep while a word has a value, and to wake one who does ---- */

struct way {
	const char *name;
	void (*sleep)(uint32_t *word, uint32_t value);
	void (*wake)(uint32_t *word);
};

static long futex(uint32_t *word, int op, uint32_t value)
{
	return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static uint32_t load(uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void futex_sleep(uint32_t *word, uint32_t value)
{
	futex(word, FUTEX_WAIT_PRIVATE, value);
}

static void futex_wake(uint32_t *word)
{
	futex(word, FUTEX_WAKE_PRIVATE, 1);
}

struct still {
	uint32_t *word, value;
};

static bool is_still(void *arg)
{
	struct still *s = arg;

	return load(s->word) == s->value;
}

static void near_sleep(uint32_t *word, uint32_t value)
{
	struct still s = {word, value};
	struct near_park how = {.validate = is_still, .arg = &s};

	near_park(word, &how);
}

static void near_wake(uint32_t *word)
{
	near_unpark(word, 1, 0);
}

/* Queues of waiters, each with a lock; as near_park without what it can do besides. */
struct waiter {
	struct waiter *next;
	uint32_t *word, woken;
};

static struct queue {
	struct near_lock lock __attribute__((aligned(64)));
	struct waiter *first;
} queues[64];

static void queue_sleep(struct queue *q, uint32_t *word, uint32_t value)
{
	struct waiter w = {NULL, word, 0}, **at = &q->first;

	near_lock_lock(&q->lock);
	if (load(word) != value) {
		near_lock_unlock(&q->lock);
		return;
	}
	while (*at)
		at = &(*at)->next;
	*at = &w;
	near_lock_unlock(&q->lock);
	while (!load(&w.woken))
		futex(&w.woken, FUTEX_WAIT_PRIVATE, 0);
}

static void queue_wake(struct queue *q, uint32_t *word)
{
	struct waiter **at = &q->first, *w;
	uint32_t *woken = NULL;

	near_lock_lock(&q->lock);
	while (*at && (*at)->word != word)
		at = &(*at)->next;
	w = *at;
	if (w) {
		*at = w->next;
		woken = &w->woken;
	}
	near_lock_unlock(&q->lock);
	if (woken) {
		__atomic_store_n(woken, 1, __ATOMIC_RELEASE);
		futex(woken, FUTEX_WAKE_PRIVATE, 1);
	}
}

static void one_sleep(uint32_t *word, uint32_t value)
{
	queue_sleep(&queues[0], word, value);
}

static void one_wake(uint32_t *word)
{
	queue_wake(&queues[0], word);
}

static struct queue *queue_of(const uint32_t *word)
{
	uintptr_t ident = (uintptr_t)word >> 3; /* OpenBSD's hash */

	return &queues[(ident ^ ident >> 6) & 63];
}

static void many_sleep(uint32_t *word, uint32_t value)
{
	queue_sleep(queue_of(word), word, value);
}

static void many_wake(uint32_t *word)
{
	queue_wake(queue_of(word), word);
}

static const struct way ways[] = {
	{"futex", futex_sleep, futex_wake},
	{"near_park", near_sleep, near_wake},
	{"64 queues", many_sleep, many_wake},
	{"one queue", one_sleep, one_wake},
};

/* ---- threads ---- */

static struct word {
	uint32_t value __attribute__((aligned(LINE)));
	uint64_t done;
} words[MAX_THREADS];

static uint32_t stop;

struct part {
	const struct way *way;
	unsigned index;
	bool idles;
	pthread_t id;
};

static void wait_for(const struct way *way, uint32_t *word, uint32_t value)
{
	while (load(word) == value)
		way->sleep(word, value);
}

static void send(const struct way *way, uint32_t *word)
{
	__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	way->wake(word);
}

/* The even one of a pair begins. Each sends before it waits, so that at the end none is left. */
static void *run(void *arg)
{
	struct part *p = arg;
	struct word *mine = &words[p->index], *other = &words[p->index ^ 1];
	uint32_t seen = 0;

	if (p->idles) {
		wait_for(p->way, &mine->value, 0);
		return NULL;
	}
	if (p->index % 2 == 0)
		send(p->way, &other->value);
	while (!load(&stop)) {
		wait_for(p->way, &mine->value, seen++);
		send(p->way, &other->value);
		mine->done++;
	}
	send(p->way, &other->value);
	return NULL;
}

static void start(struct part *p, const struct way *way, unsigned index, bool idles)
{
	*p = (struct part){way, index, idles, 0};
	if (pthread_create(&p->id, NULL, run, p)) {
		fprintf(stderr, "nearcpu-parking: cannot start so many threads\n");
		exit(1);
	}
}

/* Wake-ups a second. */
static double run_window(const struct way *way)
{
	static struct part parts[MAX_THREADS];
	unsigned busy = 2 * options.pairs, all = busy + options.idle;
	uint64_t began, done = 0;

	stop = 0;
	for (unsigned i = 0; i < all; i++)
		words[i] = (struct word){0};
	for (unsigned i = busy; i < all; i++)
		start(&parts[i], way, i, true);
	usleep(20000);
	began = window_ns();
	for (unsigned i = 0; i < busy; i++)
		start(&parts[i], way, i, false);
	usleep(options.window_ms * 1000);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < busy; i++)
		pthread_join(parts[i].id, NULL);
	began = window_ns() - began;
	for (unsigned i = 0; i < busy; i++)
		done += words[i].done;
	for (unsigned i = busy; i < all; i++) {
		send(way, &words[i].value);
		pthread_join(parts[i].id, NULL);
	}
	return (double)done * 1e9 / (double)began;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void read_options(int argc, char **argv)
{
	static const struct option names[] = {{"pairs", required_argument, NULL, 'p'},
					      {"idle", required_argument, NULL, 'i'},
					      {"rounds", required_argument, NULL, 'r'},
					      {"window", required_argument, NULL, 'w'},
					      {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		unsigned n = optarg ? (unsigned)atoi(optarg) : 0;

		if (c == 'p')
			options.pairs = n;
		else if (c == 'i')
			options.idle = n;
		else if (c == 'r')
			options.rounds = n;
		else if (c == 'w')
			options.window_ms = n;
		else
			exit(2);
	}
	if (options.pairs < 1 || 2 * options.pairs + options.idle > MAX_THREADS ||
	    options.rounds < 1 || options.rounds > MAX_ROUNDS || options.window_ms < 1) {
		fprintf(stderr, "nearcpu-parking: at most %d threads and %d rounds\n", MAX_THREADS,
			MAX_ROUNDS);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static double speeds[COUNT(ways)][MAX_ROUNDS];
	double base;

	read_options(argc, argv);
	for (unsigned round = 0; round < options.rounds; round++)
		for (unsigned w = 0; w < COUNT(ways); w++)
			speeds[w][round] = run_window(&ways[w]);
	for (unsigned w = 0; w < COUNT(ways); w++)
		qsort(speeds[w], options.rounds, sizeof(double), compare);
	base = speeds[0][options.rounds / 2];
	printf("%u threads in pairs, %u idle\n%-12s %12s %8s\n", 2 * options.pairs, options.idle,
	       "", "wake-ups/s", "ratio");
	for (unsigned w = 0; w < COUNT(ways); w++)
		printf("%-12s %12.0f %8.2f\n", ways[w].name, speeds[w][options.rounds / 2],
		       speeds[w][options.rounds / 2] / base);
	return 0;
}
