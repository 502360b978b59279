/* SPDX-License-Identifier: MIT */
/* Attacks on the heap, each in a child process. */
#include "attacks.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int malloc_trim(size_t pad); /* which musl does not have */

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define SPRAY 48
#define MANY 300

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

static void twice(uintptr_t between)
{
	char *others[] = {q, r};

	release(p);
	for (size_t i = 0; i < between && i < 2; i++)
		release(others[i]);
	for (size_t i = 2; i < between; i++)
		release(live[n_live - 1]);
	free(p);
}

static void twice_after_trim(uintptr_t unused)
{
	release(p);
	malloc_trim(0);
	free(p);
}

static void twice_after_other_size(uintptr_t unused)
{
	release(p);
	malloc(size / 2); /* not live: overlaps of other sizes are not checked */
	free(p);
}

/* As it is tried on allocators that mark freed blocks behind the link. */
static void twice_after_write(uintptr_t unused)
{
	release(p);
	put(p + 8, 0);
	free(p);
}

static void resize_freed(uintptr_t unused)
{
	release(p);
	live[n_live++] = realloc(p, size * 2);
}

static void free_at(uintptr_t offset)
{
	free(p + offset);
}

static void free_middle(uintptr_t unused)
{
	free(p + size / 32 * 16);
}

/* Where the heap begins that has this block. It allocates nothing. */
static uint64_t heap_of(const char *block)
{
	static char maps[1 << 16];
	unsigned long low, high;
	uint64_t found = 0;
	size_t used = 0;
	ssize_t n;
	int fd = open("/proc/self/maps", O_RDONLY);

	while ((n = read(fd, maps + used, sizeof(maps) - 1 - used)) > 0)
		used += (size_t)n;
	close(fd);
	for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n"))
		if (sscanf(line, "%lx-%lx", &low, &high) == 2 && low <= (uintptr_t)block &&
		    (uintptr_t)block < high)
			found = low;
	return (found + 16383) & ~(uint64_t)16383;
}

/* Version 0.1.0: a link is the offset in the heap and the mark. */
static void forge(uintptr_t unused)
{
	put(victim + 16, OLD_MARK + 16);
	release(q);
	release(p);
	put(p, OLD_MARK + (uint64_t)(victim + 16) - heap_of(victim));
}

static void write_after_free(uintptr_t word)
{
	release(q);
	release(p);
	put(p, word);
}

static void write_content_of(uintptr_t pointer)
{
	write_after_free(*(uintptr_t *)pointer);
}

static void write_copy_of_link(uintptr_t unused)
{
	uint64_t word;

	release(r);
	release(q);
	release(p);
	memcpy(&word, q, sizeof(word));
	put(p, word);
}

/* Past the end of `o` into the block behind it, which is free. 0: by one byte that is 0. */
static void overflow(uintptr_t n)
{
	char *o = NULL;

	for (unsigned i = 0; i < n_live; i++)
		if (live[i] + malloc_usable_size(live[i]) == p)
			o = live[i];
	release(q);
	release(p);
	if (!o)
		return;
	memset(p, n ? 'A' : 0, n ? n : 1);
	__asm__ volatile("" : : : "memory");
}

static void free_fake(uintptr_t at)
{
	size_t chunk = ((size < 4096 ? size : 4096) + 31) / 16 * 16;
	char *fake = (char *)at;

	put(fake - 8, chunk + 1);
	put(fake + chunk - 8, 0x1001);
	free(fake);
}

static void free_fake_on_stack(uintptr_t unused)
{
	uint64_t stack[2048] = {0};

	free_fake((uintptr_t)&stack[2]);
}

/* ---- the list of them ---- */

static const struct fault {
	const char *name;
	bool required; /* to be stopped */
	void (*commit)(uintptr_t arg);
	uintptr_t arg;
} faults[] = {
	{"freed twice", true, twice, 0},
	{"freed twice, one between", true, twice, 1},
	{"freed twice, two between", true, twice, 2},
	{"freed twice, many between", false, twice, MANY / 2},
	{"freed twice, malloc_trim between", true, twice_after_trim, 0},
	{"freed twice, a malloc between", false, twice_after_other_size, 0},
	{"freed twice, word 1 cleared", true, twice_after_write, 0},
	{"realloc of a freed block", false, resize_freed, 0},
	{"free inside, 8", true, free_at, 8},
	{"free inside, 16", true, free_at, 16},
	{"free inside, 64", true, free_at, 64},
	{"free inside, 256", true, free_at, 256},
	{"free inside, 512", true, free_at, 512},
	{"free inside, 1024", true, free_at, 1024},
	{"free inside, 2048", true, free_at, 2048},
	{"free inside, 4096", true, free_at, 4096},
	{"free inside, half", true, free_middle, 0},
	{"free before, 16", true, free_at, (uintptr_t)-16},
	{"write of 0", false, write_after_free, 0},
	{"write of -1", false, write_after_free, SIZE_MAX},
	{"write of text", false, write_after_free, 0x4141414141414141},
	{"write of its own address", false, write_content_of, (uintptr_t)&p},
	{"write of a block's address", false, write_content_of, (uintptr_t)&victim},
	{"write of another address", false, write_after_free, (uintptr_t)&outside.words[2]},
	{"write of another block's link", false, write_copy_of_link, 0},
	{"write of a forged link", false, forge, 0},
	{"overflow by a zero", false, overflow, 0},
	{"overflow by a byte", false, overflow, 1},
	{"overflow by 2 bytes", false, overflow, 2},
	{"overflow by 8 bytes", false, overflow, 8},
	{"free of a made up block", true, free_fake, (uintptr_t)&outside.words[2]},
	{"free of a made up block on the stack", true, free_fake_on_stack, 0},
};

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

static enum attack_result attack(const struct fault *fault)
{
	unsigned n = fault->commit == twice && fault->arg > 12 ? MANY : 12;

	for (unsigned i = 0; i < n; i++) {
		live[n_live++] = malloc(size);
		memset(live[i], 0x20, size);
	}
	p = live[6];
	q = live[4];
	r = live[8];
	victim = live[10];
	fault->commit(fault->arg);
	return spray();
}

static enum attack_result in_a_process(const struct fault *fault)
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

static bool applies(const struct fault *fault)
{
	return fault->commit == free_at ? (intptr_t)fault->arg < (intptr_t)size
					: fault->commit != free_middle || size >= 32;
}

void attacks_run_all(struct attack_counts *counts)
{
	static const char *const results[] = {"harmless", "stopped", "crashed", "OVERLAP",
					      "ARBITRARY"};

	for (unsigned i = 0; i < LENGTH(sizes) * LENGTH(faults); i++) {
		const struct fault *fault = &faults[i % LENGTH(faults)];
		enum attack_result result;
		bool missed;

		size = sizes[i / LENGTH(faults)];
		if (!applies(fault))
			continue;
		result = in_a_process(fault);
		missed = fault->required && result != ATTACK_STOPPED;
		counts->n[result]++;
		counts->required += fault->required;
		counts->required_missed += missed;
		if (missed)
			fprintf(stderr, "%6zu %-36s %s\n", size, fault->name, results[result]);
	}
}
