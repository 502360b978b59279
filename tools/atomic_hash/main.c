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

#include <nearcpu/percpu.h>

#include "atomic/hash.h"

/* ---- hashes: from an address to a lock; all but compiler-rt's by the number of its line ---- */

#define LINE 64

struct hash {
	const char *name, *label;
	unsigned locks;
	unsigned (*of)(uintptr_t address);
};

/* The fraction of the golden ratio: its multiples are spread evenly (Knuth, volume 3, 6.4). */
#define GOLDEN 0x9e3779b97f4a7c15u

/* GCC's libatomic: a lock for each line of a page. */
static unsigned hash_gcc(uintptr_t p)
{
	return (unsigned)(p / LINE % 64);
}

static unsigned hash_low(uintptr_t p)
{
	return (unsigned)(p / LINE % 256);
}

/* compiler-rt, atomic.c: 1,024 words, and 16 bytes share one. */
static unsigned hash_llvm(uintptr_t p)
{
	uintptr_t hash = p >> 4;

	return (unsigned)((hash ^ hash >> 16) % 1024);
}

/* Gustedt's stdatomic, atomic_generic.c: an alternative there, and its hash. There they are of the
 * address. */
static unsigned hash_xor(uintptr_t p)
{
	uintptr_t x = p / LINE;

	return (unsigned)((x ^ x >> 8) % 256);
}

static unsigned fold(uint64_t x)
{
	x ^= x >> 32;
	x ^= x >> 16;
	x ^= x >> 8;
	return (unsigned)(x % 256);
}

static unsigned hash_gustedt(uintptr_t p)
{
	return fold((uint64_t)(p / LINE) * 14530039u);
}

static unsigned hash_fold(uintptr_t p)
{
	return fold(p / LINE);
}

static unsigned hash_golden(uintptr_t p)
{
	return (unsigned)((uint64_t)(p / LINE) * GOLDEN >> 56);
}

/* Murmur3's last steps for 64 bits. */
static unsigned hash_murmur(uintptr_t p)
{
	uint64_t x = p / LINE;

	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdu;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53u;
	x ^= x >> 33;
	return (unsigned)(x % 256);
}

static unsigned hash_ours(uintptr_t p)
{
	return (unsigned)near__atomic_hash(p / LINE);
}

static const struct hash hashes[] = {
	{"gcc", "GCC: line % 64", 64, hash_gcc},
	{"llvm", "compiler-rt", 1024, hash_llvm},
	{"low", "line % 256", 256, hash_low},
	{"xor", "xor of two bytes", 256, hash_xor},
	{"fold", "xor of all bytes", 256, hash_fold},
	{"golden", "golden ratio", 256, hash_golden},
	{"gustedt", "Gustedt", 256, hash_gustedt},
	{"murmur", "Murmur3", 256, hash_murmur},
	{"ours", "ours", 256, hash_ours},
};
static const size_t hash_count = sizeof(hashes) / sizeof(hashes[0]);

/* ---- patterns: where objects are, by the rules of Linux and glibc on machines of 64 bits ---- */

#define OBJECTS 256 /* in as many lines */

struct pattern {
	const char *label;
	void (*make)(uintptr_t *at, size_t arg); /* fills in OBJECTS addresses */
	size_t arg;
	size_t align;  /* the address space layout moves all of them by a multiple of this */
	size_t offset; /* added to each address */
};

#define PAGE 4096
#define ELSEWHERE 0x7f0000000000u /* where an address space has its mappings */

/* Adds an address unless its line has one. */
static size_t add(uintptr_t *at, size_t n, uintptr_t address)
{
	for (size_t i = 0; i < n; i++)
		if (at[i] / LINE == address / LINE)
			return n;
	at[n] = address;
	return n + 1;
}

static void pattern_array(uintptr_t *at, size_t stride)
{
	size_t n = 0;

	for (uintptr_t address = ELSEWHERE; n < OBJECTS; address += stride)
		n = add(at, n, address);
}

/* ---- mappings: Linux puts each below the one before ---- */

static void pattern_mappings(uintptr_t *at, size_t size)
{
	for (size_t i = 0; i < OBJECTS; i++)
		at[i] = ELSEWHERE - (i + 1) * size;
}

/* The stacks of many threads: glibc has a guard page below each, and its own data at the upper end,
 * below which a variable is. */
#define STACK(size) pattern_mappings, (size) + PAGE, PAGE, (size) + PAGE - 0x1150

/* ---- blocks of glibc's malloc: a large one has a mapping ---- */

#define HEADER 16

/* Not rand: the same everywhere. */
static uint32_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* Adjacent, half a header between them, from the first of a heap on. Size 0: 24 to 512 bytes. */
static void pattern_blocks(uintptr_t *at, size_t size)
{
	uintptr_t address = ELSEWHERE + 0x2a0;
	uint64_t state = 1;
	size_t n = 0;

	while (n < OBJECTS) {
		size_t bytes = size ? size : 24 + next_random(&state) % 489;

		n = add(at, n, address);
		address += (bytes + HEADER / 2 + 15) / 16 * 16;
	}
}

/* ---- near_percpu(3) ---- */

/* `objects` objects, each in OBJECTS / objects slots. */
static void pattern_copies(uintptr_t *at, size_t objects)
{
	size_t n = 0;

	for (size_t slot = 0; slot < OBJECTS / objects; slot++)
		for (size_t i = 0; i < objects; i++)
			n = add(at, n,
				ELSEWHERE + i * LINE + ((uintptr_t)slot << NEAR_STRIDE_SHIFT));
}

static const struct pattern patterns[] = {
	{"array, 24, 40, 64 bytes apart", pattern_array, 24, LINE, 0},
	{"array, 72", pattern_array, 72, LINE, 0},
	{"array, 96", pattern_array, 96, LINE, 0},
	{"array, 128", pattern_array, 128, LINE, 0},
	{"array, 192", pattern_array, 192, LINE, 0},
	{"array, 320", pattern_array, 320, LINE, 0},
	{"array, 1,024", pattern_array, 1024, LINE, 0},
	{"array, 4,096", pattern_array, 4096, LINE, 0},
	{"array, 4,160", pattern_array, 4160, LINE, 0},
	{"array, 65,536", pattern_array, 65536, LINE, 0},
	{"array, 2,097,152", pattern_array, 2097152, LINE, 0},
	{"threads' stacks, 8 MiB", STACK(8 << 20)},
	{"threads' stacks, 256 KiB", STACK(256 << 10)},
	{"malloc(24)", pattern_blocks, 24, PAGE, 0},
	{"malloc(100)", pattern_blocks, 100, PAGE, 0},
	{"malloc, 24 to 512", pattern_blocks, 0, PAGE, 0},
	{"malloc(1 MiB)", pattern_mappings, (1 << 20) + PAGE, PAGE, HEADER},
	{"pages of mmap", pattern_mappings, PAGE, PAGE, 0},
	{"near_percpu, 1 in 256 slots", pattern_copies, 1, PAGE, 0},
	{"near_percpu, 16 in 16 slots", pattern_copies, 16, PAGE, 0},
};
static const size_t pattern_count = sizeof(patterns) / sizeof(patterns[0]);

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

static void spread_count(const struct hash *h, const uintptr_t *at, uintptr_t moved,
			 struct spread *sum)
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

/* Multiples of `align` within 2^36 bytes, as far as the kernel moves mappings. */
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
		spread_count(h, at, layout(i, align), &s);
	s.pairs /= LAYOUTS;
	s.locks /= LAYOUTS;
	return s;
}

/* ---- all of them ---- */

typedef void reader(const char *pattern, const struct hash *h, const struct spread *s);

static void all_patterns(reader *read_one)
{
	static uintptr_t at[OBJECTS];

	for (size_t i = 0; i < pattern_count; i++) {
		const struct pattern *p = &patterns[i];

		p->make(at, p->arg);
		for (size_t n = 0; n < OBJECTS; n++)
			at[n] += p->offset;
		for (size_t h = 0; h < hash_count; h++) {
			struct spread s = measure(&hashes[h], at, p->align);

			read_one(p->label, &hashes[h], &s);
		}
	}
}

/* The mean and the worst of many strides. */
static void many_strides(reader *read_one, const char *label, size_t n, bool powers)
{
	static uintptr_t at[OBJECTS];

	for (size_t h = 0; h < hash_count; h++) {
		struct spread sum = {0};

		for (size_t i = 0; i < n; i++) {
			pattern_array(at, powers ? (size_t)LINE << i : LINE * (i + 1));
			for (unsigned j = 0; j < 4; j++)
				spread_count(&hashes[h], at, layout(j, LINE), &sum);
		}
		sum.pairs /= 4 * (double)n;
		sum.locks /= 4 * (double)n;
		read_one(label, &hashes[h], &sum);
	}
}

static void all(reader *read_one)
{
	all_patterns(read_one);
	many_strides(read_one, "arrays, every 64 to 262,144", STRIDES, false);
	many_strides(read_one, "arrays, powers of two", POWERS, true);
}

static void spread_print(const char *pattern, const struct hash *h, const struct spread *s)
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
static void spread_check(const char *pattern, const struct hash *h, const struct spread *s)
{
	if (strcmp(h->name, "ours") != 0 || s->pairs <= 1.25)
		return;
	failures++;
	printf("%s: %.2f times as many pairs share a lock as by chance\n", pattern, s->pairs);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--check") == 0) {
		all(spread_check);
		return failures != 0;
	}
	if (argc != 1) {
		fprintf(stderr, "usage: nearcpu-atomic-hash [--check]\n");
		return 2;
	}
	all(spread_print);
	print_costs();
	return 0;
}
