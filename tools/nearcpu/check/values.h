/* SPDX-License-Identifier: MIT */
/* values: the names that flow.h speaks of. */
#ifndef NEARCPU_CHECK_VALUES_H
#define NEARCPU_CHECK_VALUES_H

#include <stdbool.h>
#include <stdint.h>

struct image;

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

#endif
