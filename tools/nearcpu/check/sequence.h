/* SPDX-License-Identifier: MIT */
/* sequence: one restartable sequence of a file, and what is wrong with it. */
#ifndef NEARCPU_CHECK_SEQUENCE_H
#define NEARCPU_CHECK_SEQUENCE_H

#include "check/flow.h"
#include "check/image.h"
#include "check/insn.h"
#include "check/rules.h"

/* struct rseq_cs, and how it was found. */
struct descriptor {
	uint64_t address;
	uint32_t version, flags;
	uint64_t start, length, abort;
	bool is_there; /* all of it lies in the file */
	bool in_section, in_array, by_form;
};

struct problem {
	enum rule rule;
	uint64_t address; /* of the instruction, or 0 for the descriptor */
	char detail[64];  /* or "" */
};

#define MOST_PROBLEMS 64

struct sequence {
	const struct descriptor *descriptor;
	uint64_t start, end;
	uint64_t offset; /* of the start in the file */
	const struct function *function;
	struct insn *insns;       /* from somewhere before the start to the end */
	size_t insn_count, first; /* first: the index of the one at the start */
	bool has_next;            /* insns has one more: the one at the end */
	uint64_t arm;             /* the instruction that arms it, or 0 */
	struct value area;        /* counts if `arm` or another sequence has it */
	bool area_known;
	struct problem problems[MOST_PROBLEMS];
	size_t problem_count;
	bool too_many;
};

struct checker {
	const struct image *image;
	struct decoder *decoder;
	struct flow *flow;
	struct descriptor *descriptors; /* by address */
	size_t descriptor_count;
	struct range *ranges; /* of all sequences, by address */
	size_t range_count;
	struct branch_in *branches_in; /* by target */
	size_t branch_in_count;
	struct value area; /* as the last sequence that showed it had it, by the thread pointer */
	bool area_known;
};

/* A branch from outside into one of the ranges, or to its start. */
struct branch_in {
	uint64_t target, from;
};

/* 0, or -E2BIG for more descriptors than any program has. */
int find_descriptors(struct checker *c);

/* Fills `branches_in`. */
void find_branches_in(struct checker *c);

/* The sequence of a descriptor; to be closed by sequence_close. */
void sequence_check(struct checker *c, const struct descriptor *descriptor, struct sequence *s);
void sequence_close(struct sequence *s);

void add_problem(struct sequence *s, enum rule rule, uint64_t address);
__attribute__((format(printf, 4, 5))) void add_problem_with(struct sequence *s, enum rule rule,
							    uint64_t address, const char *fmt, ...);

/* Where the function begins or, if that is not known, the section or segment. */
uint64_t code_begin(const struct checker *c, const struct function *f, uint64_t address);

/* Parts of the check. */
void check_instructions(struct checker *c, struct sequence *s);
void check_data(struct checker *c, struct sequence *s); /* finds what arms it */
void check_branches(struct checker *c, struct sequence *s);

/* The range that contains the address, or NULL. */
const struct range *find_range(const struct checker *c, uint64_t address);

/* The longest sequence that is believed. */
#define MOST_LENGTH 65536

#endif
