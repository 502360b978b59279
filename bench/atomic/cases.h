/* SPDX-License-Identifier: MIT */
/* cases: what a row does, as a name of three parts, BYTES-WHAT[-WHERE]: 24-load-split.
 *
 * WHAT: load, store, exchange; cas: a load, then an addition by compare-exchange; add; mostly:
 * loads, and in one of the threads a store in 1,000 operations; list (see list.c).
 *
 * WHERE: by default all threads use one object at the start of a line. apart: each thread has an
 * object, in lines of its own; `beside`: each has one, in the same line; split: one object crosses
 * a line; malloc: one object at an address that malloc returned; generic: as by default, by the
 * generic call; alone: as by default, in a process with one thread. Three bytes are inside a
 * word. */
#ifndef BENCH_ATOMIC_CASES_H
#define BENCH_ATOMIC_CASES_H

#include "locks/window.h"
#include "atomic/calls.h"

enum op { OP_LOAD, OP_STORE, OP_EXCHANGE, OP_CAS, OP_ADD, OP_MOSTLY, OP_LIST, OPS };
enum place { AT_LINE, AT_APART, AT_BESIDE, AT_SPLIT, AT_MALLOC, AT_GENERIC, AT_ALONE, PLACES };

struct loops {
	void (*work)(struct window_thread *t);
	void (*timed)(struct window_thread *t);
};

#define STORES_EVERY 1000

extern struct selected {
	enum op op;
	enum kind kind;
	enum place place;
	size_t size;
	struct loops loops;
} selected;

/* What a thread works on and has done. Private to it until it ends. */
struct worker {
	void *object;
	char *out, *in;       /* memory for values, for kind GENERIC */
	uint32_t taken, put;  /* sums of the numbers that its exchanges returned and stored */
	uint32_t first, step; /* it stores first, first + step ...: no other thread does */
	uint32_t last;        /* the last number that it stored */
	uint32_t turn;
	uint64_t done;
	uint32_t until_store; /* of `mostly`; 0: it does not store */
	bool wrong;           /* it read a value that no thread wrote */
} __attribute__((aligned(LINE)));

/* One for each thread. */
extern struct worker *workers;

/* Returns false if there is no such case. */
bool cases_choose(const char *name);

/* Makes the objects, all zero. */
void cases_begin(const struct window *w);

/* Returns what is wrong with the objects or with the values that threads read, or NULL. */
const char *cases_check(const struct window *w, const struct window_thread *threads);

/* loops.c. The members are NULL if there is no such loop. */
struct loops loops_of(enum op op, enum kind kind);

/* list.c: for a head of 16 or 24 bytes. */
struct loops list_loops(enum kind kind);
void list_begin(void *head, unsigned threads);
const char *list_check(unsigned threads);

#endif
