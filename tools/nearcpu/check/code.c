/* SPDX-License-Identifier: MIT */
/* The instructions of a sequence, and those before it in its function. */
#include "check/array.h"
#include "check/sequence.h"

#include <errno.h>
#include <stdlib.h>

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
		from += decoder_step(c->decoder);
		begin = from;
	}
	return from == to ? begin : to;
}

/* Some way before: the farthest place from which instructions alone lead to the start; or, if bytes
 * that do not decode are in the way, the place behind them. */
static uint64_t begin_near(struct checker *c, uint64_t least, uint64_t start)
{
	unsigned step = decoder_step(c->decoder);

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
	if (!array_grow(&s->insns, s->insn_count, sizeof(*s->insns)))
		return NULL;
	return &s->insns[s->insn_count];
}

int read_code(struct checker *c, struct sequence *s)
{
	uint64_t at = begin_of(c, s);

	while (at < s->end) {
		struct insn *insn = add_insn(s);

		if (!insn)
			return -ENOMEM;
		if (at == s->start)
			s->first = s->insn_count;
		if (!decode(c->decoder, at, insn, at >= s->start) || insn->size > s->end - at) {
			add_problem(s, RULE_COVERAGE, at);
			return 0;
		}
		s->insn_count++;
		at += insn->size;
	}
	if (!add_insn(s))
		return -ENOMEM;
	s->has_next = decode(c->decoder, s->end, &s->insns[s->insn_count], false);
	return 0;
}
