/* SPDX-License-Identifier: MIT */
/* usage: nearcpu-atomic-hash [--check]
 *
 * How evenly candidates for the hash of the drop-in libatomic's locks spread the objects of real
 * programs: one line for each pattern and hash, fields separated by tabs. With --check nothing is
 * printed but patterns that our hash serves worse than chance would; exit status 1. docs/atomic.md
 * has the tables, document.py makes them.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "hashes.h"
#include "patterns.h"

#define MAX_LOCKS 1024
#define LAYOUTS 64 /* places in the address space for each pattern */
#define STRIDES 4096
#define POWERS 20 /* strides of 2^6 to 2^25 bytes */

struct spread {
	double pairs; /* that share a lock, in multiples of what chance gives 256 locks */
	double worst; /* of all layouts */
	double locks; /* used */
	unsigned longest;
};

/* ---- one layout ---- */

static void count(const struct hash *h, const uintptr_t *at, uintptr_t moved, struct spread *sum)
{
	unsigned users[MAX_LOCKS] = {0};
	size_t pairs = 0, used = 0;
	double relative;

	for (size_t i = 0; i < OBJECTS; i++)
		pairs += users[h->of(at[i] + moved)]++;
	for (size_t i = 0; i < h->locks; i++) {
		used += users[i] != 0;
		sum->longest = users[i] > sum->longest ? users[i] : sum->longest;
	}
	relative = 256. * (double)pairs / (OBJECTS * (OBJECTS - 1) / 2.);
	sum->pairs += relative;
	sum->worst = relative > sum->worst ? relative : sum->worst;
	sum->locks += (double)used;
}

/* Multiples of `align` within 2^36 bytes: as much as the kernel moves mappings. The same each
 * time. */
static uintptr_t layout(unsigned i, size_t align)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uintptr_t)((x ^ x >> 31) & ((1ull << 36) - 1)) / align * align;
}

static struct spread measure(const struct hash *h, const uintptr_t *at, size_t align)
{
	struct spread s = {0};

	for (unsigned i = 0; i < LAYOUTS; i++)
		count(h, at, layout(i, align), &s);
	s.pairs /= LAYOUTS;
	s.locks /= LAYOUTS;
	return s;
}

/* ---- all of them ---- */

typedef void told(const char *pattern, const struct hash *h, const struct spread *s);

static void all_patterns(told *tell)
{
	static uintptr_t at[OBJECTS];

	for (size_t i = 0; i < pattern_count; i++) {
		const struct pattern *p = &patterns[i];

		p->make(at, p->arg);
		for (size_t h = 0; h < hash_count; h++) {
			struct spread s = measure(&hashes[h], at, p->align);

			tell(p->label, &hashes[h], &s);
		}
	}
}

/* The mean and the worst of many strides. */
static void many_strides(told *tell, const char *label, size_t n, bool powers)
{
	static uintptr_t at[OBJECTS];

	for (size_t h = 0; h < hash_count; h++) {
		struct spread sum = {0};

		for (size_t i = 0; i < n; i++) {
			pattern_array(at, powers ? (size_t)LINE << i : LINE * (i + 1));
			for (unsigned j = 0; j < 4; j++)
				count(&hashes[h], at, layout(j, LINE), &sum);
		}
		sum.pairs /= 4 * (double)n;
		sum.locks /= 4 * (double)n;
		tell(label, &hashes[h], &sum);
	}
}

static void all(told *tell)
{
	all_patterns(tell);
	many_strides(tell, "arrays, every 64 to 262,144", STRIDES, false);
	many_strides(tell, "arrays, powers of two", POWERS, true);
}

static void print(const char *pattern, const struct hash *h, const struct spread *s)
{
	printf("spread\t%s\t%s\t%.3f\t%.3f\t%.0f\t%u\n", pattern, h->name, s->pairs, s->worst,
	       s->locks, s->longest);
}

/* ---- what it costs ---- */

/* Each address depends on the hash before it. */
static double cost_ns(const struct hash *h)
{
	const unsigned rounds = 2000000;
	double best = 1e9;

	for (unsigned tries = 0; tries < 7; tries++) {
		uintptr_t x = 0x7f1234567890u;
		struct timespec a, b;
		double ns;

		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
		for (unsigned i = 0; i < rounds; i++)
			x += (uintptr_t)h->of(x) * LINE + LINE;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
		__asm__ volatile("" : : "r"(x));
		ns = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
		best = ns / rounds < best ? ns / rounds : best;
	}
	return best;
}

static void print_costs(void)
{
	for (size_t h = 0; h < hash_count; h++)
		printf("cost\t%s\t%s\t%u\t%.2f\n", hashes[h].name, hashes[h].label, hashes[h].locks,
		       cost_ns(&hashes[h]));
}

/* ---- --check ---- */

static int failures;

/* Chance gives 1.00, and .94 to 1.07 in 99 of 100 patterns. */
static void check(const char *pattern, const struct hash *h, const struct spread *s)
{
	if (strcmp(h->name, "ours") != 0 || s->pairs <= 1.25)
		return;
	failures++;
	printf("%s: %.2f times as many pairs share a lock as by chance\n", pattern, s->pairs);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--check") == 0) {
		all(check);
		return failures != 0;
	}
	if (argc != 1) {
		fprintf(stderr, "usage: nearcpu-atomic-hash [--check]\n");
		return 2;
	}
	all(print);
	print_costs();
	return 0;
}
