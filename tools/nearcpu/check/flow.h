/* SPDX-License-Identifier: MIT */
/* flow: what the registers of straight code hold, as far as that is known without running it.
 *
 * A value is a name plus a constant. Two values with the same name differ by the difference of
 * their constants, whatever they are. Names are made where a value comes from somewhere unknown; a
 * sum of two names has a name of its own, the same each time. So the area of the thread is known by
 * the place to which the sequence's descriptor is stored, however the code found it. */
#ifndef NEARCPU_CHECK_FLOW_H
#define NEARCPU_CHECK_FLOW_H

#include "check/insn.h"

/* ---- values.c: the names of a run ---- */

struct value {
	uint32_t name;
	int64_t plus;
};

enum { NAME_CONST, NAME_THREAD, NAME_FIRST };

/* Names and memos of one run. What does not fit is not known, no more. */
#define NAMES 65536
#define MEMOS 32768

enum memo_kind { MEMO_SUM = 1, MEMO_SHIFT, MEMO_MEMORY, MEMO_TLS };

struct memo {
	uint32_t run; /* the entry counts in this run only */
	uint32_t kind, a, b;
	int64_t c;
	struct value value;
};

struct names {
	uint32_t count;
	uint32_t run;
	uint8_t from[NAMES]; /* what each was made from */
	struct {
		uint32_t a, b;
	} parts[NAMES]; /* names that each is the sum of; 0: it is none */
	struct memo memos[MEMOS];
};

/* Forgets all but the first `count` names, which were made from nothing. */
void names_begin(struct names *n, uint32_t count);

/* The entry of a key; its value is to be set if it is new. NULL if there is no room. */
struct memo *names_memo(struct names *n, enum memo_kind kind, uint32_t a, uint32_t b, int64_t c,
			bool *is_new);

struct value value_constant(int64_t n);
struct value value_new(struct names *n, uint8_t from);

/* A value that is known by what it was made from: a new one for each key, then the same. */
struct value value_derived(struct names *n, enum memo_kind kind, uint32_t a, uint32_t b, int64_t c,
			   uint8_t from);
/* What a word of the file is known to hold: an address that the loader writes there. False if it is
 * not known. */
bool value_in_file(struct names *n, const struct image *image, struct value at, unsigned size,
		   struct value *out);

struct value value_sum(struct names *n, struct value a, struct value b);
/* Whether two names are sums with a part in common, or the same; NAME_THREAD and `except` are no
 * such part. */
bool value_shares(const struct names *n, uint32_t a, uint32_t b, uint32_t except);

/* Whether the first address names what the second does: it is the same, or it is a sum like it, of
 * the same base and something else. */
bool value_is_like(const struct names *n, struct value a, struct value b, uint32_t except);

struct value value_shifted(struct names *n, struct value v, unsigned by);

/* ---- flow.c ---- */

/* What a value was made from. */
enum {
	FROM_INDEX = 1 << 0,        /* an index that was loaded inside the sequence */
	FROM_INDEX_BEFORE = 1 << 1, /* one that was loaded before it */
	FROM_DATA = 1 << 2,         /* memory that was read inside the sequence */
	FROM_COMMITTED = 1 << 3,    /* what was read before it at the place of its commit */
};

/* Offsets in the area of a thread (struct rseq). */
#define AREA_CS 8
#define AREA_FLAGS 16
#define AREA_SLICE 28
#define AREA_END 64

/* A load or a store. */
struct access {
	const struct insn *insn;
	struct value address, value; /* value: what was loaded or stored */
	uint8_t address_from, value_from;
	uint8_t size;
	bool is_load, is_store;
	bool is_area;      /* of the thread's area, once that is known */
	bool stores_const; /* a constant in the instruction, or a known address */
};

struct flow;

/* Called for each access, in the order of the code. */
typedef void flow_visitor(void *context, struct flow *flow, const struct access *access);

/* Evaluates `count` instructions that follow one another. Those in [start, end) are the sequence.
 * `area` is where the thread's area is known to be, or NULL. Names are the same each time. */
struct flow_run {
	const struct insn *insns;
	size_t count;
	uint64_t start, end;
	const struct value *area;
	const struct value *commit; /* where the sequence commits to, if that is known */
	flow_visitor *visit;
	void *context;
};

/* Remembered at a time. What does not fit is not known, no more. */
#define BRANCHES 64
#define BARE 8

struct branch {
	uint64_t target;
	struct value registers[REGISTERS];
};

struct flow {
	/* To be set; the rest begins as zeros. */
	struct decoder *decoder;
	const struct image *image;
	const struct flow_run *run;
	struct value registers[REGISTERS];
	struct branch branches[BRANCHES];
	unsigned branch_count;
	/* In the sequence, an instruction of the last run loaded the index; compared it; loaded a
	 * word that reaches into the area from below: TCMalloc keeps a mark there, over
	 * cpu_id_start, which the kernel wipes out whenever it has preempted the thread. */
	bool saw_index, compared_index, saw_overlay;
	/* Names of what was loaded from the area inside: an index as it is. */
	uint32_t bare[BARE];
	unsigned bare_count;
	unsigned depth; /* of calls that are followed */
	struct names names;
};

void flow_run(struct flow *flow, const struct flow_run *run);

/* The name of the stack pointer at the beginning. */
uint32_t flow_stack(const struct flow *flow);

/* Whether a register holds an address like this one, made from the index inside, and nothing in the
 * sequence compared that index. */
bool flow_has_own(const struct flow *flow, struct value address);

#endif
