/* SPDX-License-Identifier: MIT */
/* Attacks on the heap, each in a child process. */
#include "attacks.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int malloc_trim(size_t pad); /* which musl does not have */

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define SPRAY 48
#define MANY 300
#define OLD_MARK UINT64_C(0x9d4f1b0000000001)

static const size_t sizes[] = {24,   40,   100,  520,   1000,  1100,  1500,
			       2500, 5000, 7000, 10000, 14000, 20000, 70000};

static size_t size;
static char *p, *q, *r, *victim;
static char *live[2 * MANY];
static unsigned n_live;
static struct {
	uint64_t words[1024];
} outside; /* what the attacker wants to get, with sizes of a block as glibc writes them */

/* ---- faults ---- */

static void put(char *at, uint64_t word)
{
	memcpy(at, &word, sizeof(word));
	__asm__ volatile("" : : : "memory");
}

static void forget(const char *block)
{
	for (unsigned i = 0; i < n_live; i++)
		if (live[i] == block)
			live[i--] = live[--n_live];
}

static void release(char *block)
{
	forget(block);
	free(block);
}

static void twice(unsigned between)
{
	char *others[] = {q, r};

	release(p);
	for (unsigned i = 0; i < between && i < 2; i++)
		release(others[i]);
	for (unsigned i = 2; i < between; i++)
		release(live[n_live - 1]);
	free(p);
}

static void twice_after_trim(void)
{
	release(p);
	malloc_trim(0);
	free(p);
}

static void twice_after_other_size(void)
{
	release(p);
	live[n_live++] = malloc(size / 2);
	forget(live[n_live - 1]); /* another size: overlaps are not checked */
	free(p);
}

/* As it is tried on allocators that mark freed blocks behind the link. */
static void twice_after_write(void)
{
	release(p);
	put(p + 8, 0);
	free(p);
}

static void resize_freed(void)
{
	release(p);
	live[n_live++] = realloc(p, size * 2);
}

static uint64_t heap_of(const char *block)
{
	unsigned long low, high;
	char line[512];
	uint64_t found = 0;
	int n = 0, fd = open("/proc/self/maps", O_RDONLY);

	while (fd >= 0 && read(fd, line + n, 1) == 1) {
		if (line[n] != '\n' && n < (int)sizeof(line) - 2) {
			n++;
			continue;
		}
		line[n] = '\0';
		n = 0;
		if (sscanf(line, "%lx-%lx", &low, &high) == 2 && low <= (uintptr_t)block &&
		    (uintptr_t)block < high)
			found = low;
	}
	close(fd);
	return (found + 16383) & ~(uint64_t)16383;
}

/* Version 0.1.0: a link is the offset in the heap and the mark. */
static void forge(void)
{
	put(victim + 16, OLD_MARK + 16);
	release(q);
	release(p);
	put(p, OLD_MARK + (uint64_t)(victim + 16) - heap_of(victim));
}

static void write_after_free(uint64_t word)
{
	release(q);
	release(p);
	put(p, word);
}

static void write_copy_of_link(void)
{
	uint64_t word;

	release(r);
	release(q);
	release(p);
	memcpy(&word, q, sizeof(word));
	put(p, word);
}

/* Past the end of `o` into the block behind it, which is free. */
static void overflow(size_t n, int byte)
{
	char *o = NULL;

	for (unsigned i = 0; i < n_live; i++)
		if (live[i] + malloc_usable_size(live[i]) == p)
			o = live[i];
	release(q);
	release(p);
	if (!o)
		return;
	memset(p, byte, n);
	__asm__ volatile("" : : : "memory");
}

static void free_fake(char *fake)
{
	size_t chunk = ((size < 4096 ? size : 4096) + 31) / 16 * 16;

	put(fake - 8, chunk + 1);
	put(fake + chunk - 8, 0x1001);
	free(fake);
}

/* ---- the list of them ---- */

enum fault {
	TWICE,
	TWICE_1,
	TWICE_2,
	TWICE_MANY,
	TWICE_TRIM,
	TWICE_OTHER,
	TWICE_WRITE,
	RESIZE_FREED,
	INSIDE_8,
	INSIDE_16,
	INSIDE_64,
	INSIDE_256,
	INSIDE_512,
	INSIDE_1024,
	INSIDE_2048,
	INSIDE_4096,
	INSIDE_HALF,
	BEFORE_16,
	WRITE_0,
	WRITE_MINUS_1,
	WRITE_TEXT,
	WRITE_SELF,
	WRITE_VICTIM,
	WRITE_OUTSIDE,
	WRITE_COPY,
	WRITE_FORGED,
	OVERFLOW_NUL,
	OVERFLOW_BYTE,
	OVERFLOW_2,
	OVERFLOW_8,
	FREE_FAKE,
	FREE_STACK,
	FAULTS
};

static const struct {
	const char *name;
	bool required; /* to be stopped */
	size_t inside;
} faults[FAULTS] = {
	[TWICE] = {"freed twice", true, 0},
	[TWICE_1] = {"freed twice, one between", true, 0},
	[TWICE_2] = {"freed twice, two between", true, 0},
	[TWICE_MANY] = {"freed twice, many between", false, 0},
	[TWICE_TRIM] = {"freed twice, malloc_trim between", true, 0},
	[TWICE_OTHER] = {"freed twice, a malloc between", false, 0},
	[TWICE_WRITE] = {"freed twice, word 1 cleared", true, 0},
	[RESIZE_FREED] = {"realloc of a freed block", false, 0},
	[INSIDE_8] = {"free inside, 8", true, 8},
	[INSIDE_16] = {"free inside, 16", true, 16},
	[INSIDE_64] = {"free inside, 64", true, 64},
	[INSIDE_256] = {"free inside, 256", true, 256},
	[INSIDE_512] = {"free inside, 512", true, 512},
	[INSIDE_1024] = {"free inside, 1024", true, 1024},
	[INSIDE_2048] = {"free inside, 2048", true, 2048},
	[INSIDE_4096] = {"free inside, 4096", true, 4096},
	[INSIDE_HALF] = {"free inside, half", true, 1},
	[BEFORE_16] = {"free before, 16", true, 0},
	[WRITE_0] = {"write of 0", false, 0},
	[WRITE_MINUS_1] = {"write of -1", false, 0},
	[WRITE_TEXT] = {"write of text", false, 0},
	[WRITE_SELF] = {"write of its own address", false, 0},
	[WRITE_VICTIM] = {"write of a block's address", false, 0},
	[WRITE_OUTSIDE] = {"write of another address", false, 0},
	[WRITE_COPY] = {"write of another block's link", false, 0},
	[WRITE_FORGED] = {"write of a forged link", false, 0},
	[OVERFLOW_NUL] = {"overflow by a zero", false, 0},
	[OVERFLOW_BYTE] = {"overflow by a byte", false, 0},
	[OVERFLOW_2] = {"overflow by 2 bytes", false, 0},
	[OVERFLOW_8] = {"overflow by 8 bytes", false, 0},
	[FREE_FAKE] = {"free of a made up block", true, 0},
	[FREE_STACK] = {"free of a made up block on the stack", true, 0},
};

static void commit_fault(enum fault fault)
{
	static const unsigned between[] = {
		[TWICE] = 0, [TWICE_1] = 1, [TWICE_2] = 2, [TWICE_MANY] = MANY / 2};
	static const uint64_t words[] = {0, ~UINT64_C(0), UINT64_C(0x4141414141414141)};
	uint64_t stack[2048] = {0};

	if (faults[fault].inside)
		free(p + (fault == INSIDE_HALF ? size / 32 * 16 : faults[fault].inside));
	else if (fault <= TWICE_MANY)
		twice(between[fault]);
	else if (fault >= WRITE_0 && fault <= WRITE_TEXT)
		write_after_free(words[fault - WRITE_0]);
	else if (fault == TWICE_TRIM)
		twice_after_trim();
	else if (fault == TWICE_OTHER)
		twice_after_other_size();
	else if (fault == TWICE_WRITE)
		twice_after_write();
	else if (fault == RESIZE_FREED)
		resize_freed();
	else if (fault == BEFORE_16)
		free(p - 16);
	else if (fault == WRITE_SELF)
		write_after_free((uintptr_t)p);
	else if (fault == WRITE_VICTIM)
		write_after_free((uintptr_t)victim);
	else if (fault == WRITE_OUTSIDE)
		write_after_free((uintptr_t)&outside.words[2]);
	else if (fault == WRITE_COPY)
		write_copy_of_link();
	else if (fault == WRITE_FORGED)
		forge();
	else if (fault == FREE_FAKE)
		free_fake((char *)&outside.words[2]);
	else if (fault == FREE_STACK)
		free_fake((char *)&stack[2]);
	else
		overflow((size_t[]){1, 1, 2, 8}[fault - OVERFLOW_NUL],
			 fault == OVERFLOW_NUL ? 0 : 'A');
}

/* ---- one attack ---- */

static bool overlap(const char *a, const char *b)
{
	return a < b + size && b < a + size;
}

/* Allocates more, and checks whether this memory is in use already. */
static enum attack_result spray(void)
{
	for (unsigned i = 0; i < SPRAY; i++) {
		char *block = malloc(size);

		if (block >= (char *)&outside && block < (char *)(&outside + 1))
			return ATTACK_ARBITRARY;
		for (unsigned k = 0; k < n_live; k++)
			if (overlap(block, live[k]))
				return ATTACK_OVERLAP;
		memset(block, 0x20, size);
		live[n_live++] = block;
	}
	while (n_live)
		free(live[--n_live]);
	return ATTACK_HARMLESS;
}

static enum attack_result attack(enum fault fault)
{
	unsigned n = fault == TWICE_MANY ? MANY : 12;

	for (unsigned i = 0; i < n; i++) {
		live[n_live++] = malloc(size);
		memset(live[i], 0x20, size);
	}
	p = live[6];
	q = live[4];
	r = live[8];
	victim = live[10];
	commit_fault(fault);
	return spray();
}

static enum attack_result in_a_process(enum fault fault)
{
	struct rlimit none = {0, 0};
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &none);
		for (int s = 1; s < 32; s++)
			signal(s, SIG_DFL); /* a test's own */
		alarm(60);
		dup2(open("/dev/null", O_WRONLY), 2);
		_exit(100 + (int)attack(fault));
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	if (WIFEXITED(status) && WEXITSTATUS(status) >= 100)
		return (enum attack_result)(WEXITSTATUS(status) - 100);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? ATTACK_STOPPED : ATTACK_CRASHED;
}

/* ---- all ---- */

static bool applies(enum fault fault)
{
	return faults[fault].inside < size && (fault != INSIDE_HALF || size >= 32);
}

void attacks_run_all(struct attack_counts *counts, FILE *out)
{
	static const char *const results[] = {"harmless", "stopped", "crashed", "OVERLAP",
					      "ARBITRARY"};

	for (unsigned i = 0; i < LENGTH(sizes); i++)
		for (enum fault f = 0; f < FAULTS; f++) {
			enum attack_result result;
			bool missed;

			size = sizes[i];
			if (!applies(f))
				continue;
			result = in_a_process(f);
			missed = faults[f].required && result != ATTACK_STOPPED;
			counts->n[result]++;
			counts->required += faults[f].required;
			counts->required_missed += missed;
			if (out || missed)
				fprintf(out ? out : stderr, "%6zu %-36s %s\n", size, faults[f].name,
					results[result]);
		}
}

#ifdef ATTACKS_PROGRAM
int main(int argc, char **argv)
{
	struct attack_counts c = {0};
	bool all = argc > 1 && strcmp(argv[1], "--all") == 0;
	unsigned sum = 0;

	attacks_run_all(&c, all ? stdout : fopen("/dev/null", "w"));
	for (unsigned i = 0; i < ATTACK_RESULTS; i++)
		sum += c.n[i];
	printf("%u attacks: %u stopped, %u crashed, %u harmless, %u overlaps, %u arbitrary\n", sum,
	       c.n[ATTACK_STOPPED], c.n[ATTACK_CRASHED], c.n[ATTACK_HARMLESS], c.n[ATTACK_OVERLAP],
	       c.n[ATTACK_ARBITRARY]);
	return 0;
}
#endif
