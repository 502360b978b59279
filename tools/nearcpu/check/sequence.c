/* SPDX-License-Identifier: MIT */
/* One sequence: its descriptor and its instructions, which the other files check. */
#include "check/array.h"
#include "check/sequence.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void add_problem_with(struct sequence *s, enum rule rule, uint64_t address, const char *fmt, ...)
{
	struct problem *p = &s->problems[s->problem_count];
	va_list args;

	for (size_t i = 0; i < s->problem_count; i++)
		if (s->problems[i].rule == rule && s->problems[i].address == address)
			return;
	if (s->problem_count == MOST_PROBLEMS) {
		s->too_many = true;
		return;
	}
	s->problem_count++;
	*p = (struct problem){rule, address, ""};
	va_start(args, fmt);
	vsnprintf(p->detail, sizeof(p->detail), fmt, args); /* NOLINT: started above */
	va_end(args);
}

void add_problem(struct sequence *s, enum rule rule, uint64_t address)
{
	add_problem_with(s, rule, address, "%s", "");
}

/* A descriptor that is not in the list, if the file has one. */
static bool is_unlisted(const struct checker *c, const struct descriptor *d)
{
	return !d->in_array && d->in_section && c->image->listed_count[LISTED_POINTERS] > 0;
}

static void check_abort(struct checker *c, struct sequence *s)
{
	const struct descriptor *d = s->descriptor;
	uint32_t signature;

	if (d->length <= MOST_LENGTH && d->abort - d->start < d->length)
		add_problem(s, RULE_ABORT_INSIDE, 0);
	if (!image_is_code(c->image, d->abort))
		add_problem(s, RULE_ABORT_OUTSIDE, 0);
	else if (!image_read(c->image, d->abort - 4, &signature, 4))
		add_problem(s, RULE_ABORT_SIGNATURE, 0);
	else if (signature != c->image->facts->signature)
		add_problem_with(s, RULE_ABORT_SIGNATURE, 0, "0x%08x, not 0x%08x", signature,
				 c->image->facts->signature);
}

/* True if the range is one that can be decoded. */
static bool check_range(struct checker *c, struct sequence *s)
{
	const struct descriptor *d = s->descriptor;

	if (!d->length) {
		add_problem(s, RULE_RANGE_EMPTY, 0);
		return false;
	}
	if (d->length > MOST_LENGTH) {
		add_problem_with(s, RULE_RANGE_OUTSIDE, 0, "a length of 0x%llx",
				 (unsigned long long)d->length);
		return false;
	}
	if (!image_is_code(c->image, d->start) ||
	    !image_is_code(c->image, d->start + d->length - 1)) {
		add_problem(s, RULE_RANGE_OUTSIDE, 0);
		return false;
	}
	return true;
}

static void check_descriptor(struct checker *c, struct sequence *s)
{
	const struct descriptor *d = s->descriptor;

	if (d->address % 32)
		add_problem(s, RULE_DESCRIPTOR_ALIGNMENT, 0);
	if (d->version)
		add_problem_with(s, RULE_DESCRIPTOR_VERSION, 0, "0x%x", d->version);
	if (d->flags)
		add_problem_with(s, RULE_DESCRIPTOR_FLAGS, 0, "0x%x", d->flags);
	if (is_unlisted(c, d))
		add_problem(s, RULE_DESCRIPTOR_UNLISTED, 0);
	check_abort(c, s);
}

/* ---- its instructions ---- */

/* How far back to look, in bytes: for what arms the sequence, and how the area was found. */
#define BEFORE_FUNCTION 16384
#define BEFORE_UNKNOWN 512

uint64_t code_begin(const struct checker *c, const struct function *f, uint64_t address)
{
	const struct segment *segment = image_segment(c->image, address);

	if (f)
		return f->start;
	for (size_t i = 0; i < c->image->listed_count[LISTED_CODE]; i++) {
		const struct range *r = &c->image->listed[LISTED_CODE][i];

		if (r->start <= address && address < r->end)
			return r->start;
	}
	return segment ? segment->address : address;
}

/* Decodes from `from` on, passing over bytes that are no instruction known here. Returns where the
 * instructions begin that lead to `to` without a gap, or `to` if they miss it. */
static uint64_t leads_from(struct checker *c, uint64_t from, uint64_t to)
{
	uint64_t begin = from;
	struct insn insn;

	while (from < to) {
		if (decode(c->decoder, from, &insn, false)) {
			from += insn.size;
			continue;
		}
		if (decoder_is_spent(c->decoder))
			return to;
		from += c->image->facts->step;
		begin = from;
	}
	return from == to ? begin : to;
}

/* Some way before: the farthest place from which instructions alone lead to the start; or, if bytes
 * that do not decode are in the way, the place behind them. */
static uint64_t begin_near(struct checker *c, uint64_t least, uint64_t start)
{
	unsigned step = c->image->facts->step;

	for (uint64_t far = BEFORE_UNKNOWN; far >= 16; far /= 2) {
		uint64_t best = start;

		for (unsigned i = 0; i < 16; i++) {
			uint64_t from = far + i * step, begin;

			from = start - least > from ? start - from : least;
			if (from >= start || !image_is_code(c->image, from))
				continue;
			begin = leads_from(c, from, start);
			if (begin == from)
				return from;
			best = begin < best ? begin : best;
		}
		if (start - best > far / 2)
			return best;
	}
	return start;
}

/* Where to begin: at the function, if it is known and not too long; or somewhere before, from where
 * decoding reaches the start of the sequence. */
static uint64_t begin_of(struct checker *c, const struct sequence *s)
{
	const struct function *f = image_function(c->image, s->start);
	uint64_t least = code_begin(c, f, s->start), from = s->start;

	if (f && s->start - least <= BEFORE_FUNCTION)
		from = leads_from(c, least, s->start);
	return from < s->start ? from : begin_near(c, least, s->start);
}

static struct insn *add_insn(struct sequence *s)
{
	grow(&s->insns, s->insn_count, sizeof(*s->insns));
	return &s->insns[s->insn_count];
}

/* The instructions of a sequence, and those before it in its function. */
static void read_code(struct checker *c, struct sequence *s)
{
	uint64_t at = begin_of(c, s);

	while (at < s->end) {
		struct insn *insn = add_insn(s);

		if (at == s->start)
			s->first = s->insn_count;
		if (!decode(c->decoder, at, insn, at >= s->start) || insn->size > s->end - at) {
			add_problem(s, RULE_COVERAGE, at);
			return;
		}
		s->insn_count++;
		at += insn->size;
	}
	s->has_next = decode(c->decoder, s->end, add_insn(s), false);
}

/* ---- all checks ---- */

static int by_place(const void *a, const void *b)
{
	const struct problem *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (int)x->rule - (int)y->rule;
}

static uint64_t offset_of(const struct image *image, uint64_t address)
{
	const struct segment *segment = image_segment(image, address);

	return segment ? segment->offset + (address - segment->address) : 0;
}

void sequence_check(struct checker *c, const struct descriptor *descriptor, struct sequence *s)
{
	memset(s, 0, sizeof(*s));
	s->descriptor = descriptor;
	if (!descriptor->is_there) {
		add_problem(s, RULE_DESCRIPTOR_MISSING, 0);
		return;
	}
	check_descriptor(c, s);
	s->start = s->end = descriptor->start;
	if (!check_range(c, s))
		return;
	s->end = descriptor->start + descriptor->length;
	s->offset = offset_of(c->image, s->start);
	s->function = image_function(c->image, s->start);
	read_code(c, s);
	check_instructions(c, s);
	check_data(c, s);
	check_branches(c, s);
	qsort(s->problems, s->problem_count, sizeof(s->problems[0]), by_place);
}

void sequence_close(struct sequence *s)
{
	free(s->insns);
	s->insns = NULL;
	s->insn_count = 0;
}
