/* SPDX-License-Identifier: MIT */
/* cases: what a row is to do, by a name of three parts, BYTES-WHAT[-WHERE]: 24-load-split.
 *
 * WHAT: load, store, exchange; cas, which loads and then adds one by compare-exchange; add;
 * mostly, which loads, and one time in 1,000 stores, in one of the threads; list (see list.c).
 *
 * WHERE: all threads use one object at the start of a line; apart, an object for each thread, in
 * lines of its own; beside, the same within a line; split, one object that crosses a line; malloc,
 * one where malloc puts it; generic, as without, but by the generic call; alone, as without, in a
 * process that has one thread. Three bytes stand inside a word. */
#ifndef BENCH_ATOMIC_CASES_H
#define BENCH_ATOMIC_CASES_H

#include "../locks/window.h"
#include "calls.h"

enum op { OP_LOAD, OP_STORE, OP_EXCHANGE, OP_CAS, OP_ADD, OP_MOSTLY, OP_LIST, OPS };
enum place { AT_LINE, AT_APART, AT_BESIDE, AT_SPLIT, AT_MALLOC, AT_GENERIC, AT_ALONE, PLACES };

struct loops {
	void (*work)(struct window_thread *t);
	void (*timed)(struct window_thread *t);
};

#define STORES_EVERY 1000

extern struct chosen {
	enum op op;
	enum kind kind;
	enum place place;
	size_t size;
	struct loops loops;
} chosen;

/* What a thread did; and what it works on. Private to it, but at the end. */
struct worker {
	void *object;
	char *out, *in;       /* room for values, if the kind has none of its own */
	uint32_t taken, put;  /* sums of the numbers that an exchange gave and took */
	uint32_t first, step; /* its numbers are first, first + step ... : no two store the same */
	uint32_t last;        /* the one that it stored */
	uint32_t turn;
	uint64_t done;
	uint32_t until_store; /* where it mostly loads; 0: it does not store */
	bool wrong;           /* it read what nobody wrote */
} __attribute__((aligned(LINE)));

/* One for each thread. */
extern struct worker *workers;

/* False: there is no such case. */
bool cases_choose(const char *name);

/* Makes the objects, all zero. */
void cases_begin(const struct window *w);

/* What is wrong with the objects or with what threads saw of them, or NULL. */
const char *cases_check(const struct window *w, const struct window_thread *threads);

/* loops.c: NULL where there is none. */
struct loops loops_of(enum op op, enum kind kind);

/* list.c: of a head of 16 or 24 bytes. */
struct loops list_loops(enum kind kind);
void list_begin(void *head, unsigned threads);
const char *list_check(unsigned threads);

#endif
