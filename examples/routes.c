/* SPDX-License-Identifier: MIT */
/* usage: routes [MS]
 *
 * A router: one thread queries the next hops of packets, another replaces the whole table over and
 * over, as a routing protocol does after a change. Queries take no lock and do not wait. Each half
 * of the run takes MS milliseconds (50); on standard error is what 999 of 1,000 queries take at
 * most, with the clock, before and while the table is replaced. */
#include <nearcpu/histogram.h>
#include <nearcpu/rcu.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUTES 500
#define NODES (1 + 3 * ROUTES)

/* A trie of four levels, one for each byte of an address. A hop of 0: the one found before. */
struct node {
	uint32_t hop[256], child[256];
	unsigned char length[256]; /* of the prefix that the hop is of */
};

struct table {
	struct near_rcu_head head; /* the first member: its address is that of the object */
	uint32_t version, used;
	struct node nodes[NODES];
};

static struct near_rcu domain;
static struct table *current;
static struct near_histogram before, during;
static int replaced, done;
static long wrong;

static uint32_t next_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	return *seed ^= *seed << 5;
}

/* Of several prefixes of an address the longest counts. */
static void add(struct table *t, uint32_t address, unsigned length, uint32_t hop)
{
	struct node *n = &t->nodes[0];
	unsigned shift = 24, first, count;

	for (; length > 32 - shift; shift -= 8) {
		uint32_t *child = &n->child[address >> shift & 255];

		if (!*child)
			*child = ++t->used;
		n = &t->nodes[*child];
	}
	count = 1u << (32 - shift - length);
	first = (address >> shift & 255) & ~(count - 1);
	for (unsigned i = first; i < first + count; i++)
		if (n->length[i] <= length) {
			n->hop[i] = hop;
			n->length[i] = (unsigned char)length;
		}
}

static uint32_t find_hop(const struct table *t, uint32_t address)
{
	const struct node *n = &t->nodes[0];
	uint32_t hop = 0;

	for (unsigned shift = 24;; shift -= 8) {
		unsigned i = address >> shift & 255;

		hop = n->hop[i] ? n->hop[i] : hop;
		if (!n->child[i])
			return hop;
		n = &t->nodes[n->child[i]];
	}
}

/* The version is each route's hop, so that a query in freed memory is noticed. */
static struct table *make_table(uint32_t version)
{
	struct table *t = (struct table *)calloc(1, sizeof(*t));
	uint32_t seed = version;

	if (!t)
		abort();
	t->version = version;
	add(t, 0, 0, version);
	for (int i = 0; i < ROUTES; i++)
		add(t, next_random(&seed), 8 + next_random(&seed) % 25, version);
	return t;
}

static void free_table(struct near_rcu_head *head)
{
	struct table *t = (struct table *)head;

	t->version = 0;
	free(t);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *forward(void *arg)
{
	uint32_t seed = 1;

	while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
		uint32_t address = next_random(&seed);
		uint64_t began = now_ns();
		near_rcu_token t = near_rcu_enter(&domain);
		const struct table *table = near_rcu_dereference(current);

		wrong += find_hop(table, address) != table->version;
		near_rcu_exit(&domain, t);
		near_histogram_record(__atomic_load_n(&replaced, __ATOMIC_RELAXED) ? &during
										   : &before,
				      now_ns() - began);
	}
	return arg;
}

static void replace(uint32_t version)
{
	struct table *old = current;

	near_rcu_assign(current, make_table(version));
	near_rcu_call_bounded(&domain, &old->head, free_table, sizeof(*old), 100 * sizeof(*old));
	__atomic_store_n(&replaced, 1, __ATOMIC_RELAXED);
}

static void report(const char *when, struct near_histogram *h)
{
	struct near_histogram_snapshot s;

	if (near_histogram_read(h, &s))
		abort();
	fprintf(stderr, "%s: %llu queries, p99.9 %llu ns\n", when, (unsigned long long)s.count,
		(unsigned long long)near_histogram_snapshot_percentile(&s, 99.9).high);
	near_histogram_snapshot_free(&s);
}

int main(int argc, char **argv)
{
	uint64_t half = (uint64_t)(argc > 1 ? atoi(argv[1]) : 50) * 1000000, end;
	const struct timespec pause = {0, 1000000};
	uint32_t version = 1;
	pthread_t forwarder;

	if (near_rcu_init(&domain, NULL) || near_histogram_init(&before, NULL) ||
	    near_histogram_init(&during, NULL))
		return 1;
	current = make_table(version);
	if (pthread_create(&forwarder, NULL, forward, NULL))
		return 1;
	for (end = now_ns() + half; now_ns() < end;)
		nanosleep(&pause, NULL);
	for (end = now_ns() + half; now_ns() < end;) {
		replace(++version);
		nanosleep(&pause, NULL);
	}
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	pthread_join(forwarder, NULL);
	report("before", &before);
	report("during", &during);
	fprintf(stderr, "%u tables\n", version);
	printf("%ld wrong queries\n", wrong);
	near_rcu_destroy(&domain);
	free_table(&current->head);
	near_histogram_destroy(&before);
	near_histogram_destroy(&during);
	return 0;
}
