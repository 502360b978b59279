/* SPDX-License-Identifier: MIT */
/* Direct branches of the whole file that lead into a sequence from outside. On x86_64 each byte
 * that could be the distance of a branch is tried first, which is quick; a hit is then decoded from
 * before, to see whether an instruction begins there. */
#include "check/array.h"
#include "check/sequence.h"

#include <stdlib.h>
#include <string.h>

/* Decoding from somewhere falls into step with the code after a few instructions. */
#define TRIES 16
#define FAR_ENOUGH 48

/* Where code and data cannot be distinguished, only what is as near as the same function. */
#define NEAR 16384

struct scan {
	struct checker *c;
	uint64_t least, most; /* of all targets of interest */
	bool no_sections;     /* segments hold data, too */
};

static bool is_interesting(const struct scan *s, uint64_t from, uint64_t target)
{
	const struct range *r;

	if (target < s->least || target >= s->most)
		return false;
	if (s->no_sections && !image_function(s->c->image, from) &&
	    (s->c->image->function_count || from - target + NEAR > 2 * NEAR))
		return false;
	r = find_range(s->c, target);
	return r && (from < r->start || from >= r->end);
}

static bool begins_at(struct checker *c, uint64_t address)
{
	uint64_t least = code_begin(c, image_function(c->image, address), address);
	unsigned hits = 0, tries = 0;

	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t far = FAR_ENOUGH + i * c->image->facts->step;
		uint64_t at = address - least > far ? address - far : least;
		struct insn insn;

		while (at < address && decode(c->decoder, at, &insn, false))
			at += insn.size;
		/* What ran into no instruction was not in step. */
		hits += at == address;
		tries += at >= address;
	}
	return hits * 4 >= tries * 3;
}

static void add_branch(struct scan *s, uint64_t from, uint64_t target)
{
	struct checker *c = s->c;

	if (begins_at(c, from))
		APPEND(c->branches_in, c->branch_in_count, (struct branch_in){target, from});
}

/* Whether an instruction at `from` goes to `target`. */
static void try_branch(struct scan *s, uint64_t from, uint64_t target)
{
	struct insn insn;

	if (is_interesting(s, from, target) && decode(s->c->decoder, from, &insn, false) &&
	    insn.kind & INSN_BRANCH && insn.target == target)
		add_branch(s, from, target);
}

/* A part of a segment. */
struct part {
	const uint8_t *code;
	uint64_t address, size;
};

static void scan_x86_64(struct scan *s, const struct part *p)
{
	const uint8_t *code = p->code;

	for (uint64_t i = 1; i < p->size; i++) {
		uint64_t at = p->address + i;
		uint8_t before = code[i - 1];
		int32_t far;

		if ((before & 0xf0) == 0x70 || (before & 0xfc) == 0xe0 || before == 0xeb)
			try_branch(s, at - 1, at + 1 + (uint64_t)(int64_t)(int8_t)code[i]);
		if (p->size - i < 4)
			continue;
		memcpy(&far, code + i, 4);
		if (before == 0xe8 || before == 0xe9)
			try_branch(s, at - 1, at + 4 + (uint64_t)(int64_t)far);
		else if (i > 1 && code[i - 2] == 0x0f && (before & 0xf0) == 0x80)
			try_branch(s, at - 2, at + 4 + (uint64_t)(int64_t)far);
	}
}

/* Quick: these CPUs' instructions decode without help. */
static void scan_words(struct scan *s, const struct part *p, unsigned step)
{
	uint64_t first = -p->address & (step - 1);
	struct insn insn;

	for (uint64_t i = first; i + step <= p->size; i += step)
		if (decode_bytes(s->c->decoder, p->address + i, p->code + i, p->size - i, &insn,
				 false) &&
		    insn.kind & INSN_BRANCH && is_interesting(s, insn.address, insn.target))
			add_branch(s, insn.address, insn.target);
}

static int by_target(const void *a, const void *b)
{
	const struct branch_in *x = a, *y = b;

	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

static void scan_part(struct scan *s, const struct range *r)
{
	size_t left = 0;
	struct part p = {image_bytes(s->c->image, r->start, &left), r->start, r->end - r->start};

	if (!p.code)
		return;
	p.size = p.size < left ? p.size : left;
	if (s->c->image->cpu == CPU_X86_64)
		scan_x86_64(s, &p);
	else
		scan_words(s, &p, s->c->image->facts->step);
}

static void scan_segments(struct scan *s)
{
	const struct image *image = s->c->image;

	s->no_sections = true;
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct segment *segment = &image->segments[i];
		struct range r = {segment->address, segment->address + segment->filled};

		if (segment->executable)
			scan_part(s, &r);
	}
}

/* Sections of a damaged file may overlap: the number of bytes read is limited to their size. */
static void scan_sections(struct scan *s)
{
	const struct image *image = s->c->image;
	uint64_t budget = 0;

	for (size_t i = 0; i < image->segment_count; i++)
		budget += image->segments[i].filled;
	for (size_t i = 0; i < image->listed_count[LISTED_CODE]; i++) {
		const struct range *r = &image->listed[LISTED_CODE][i];

		if (r->end - r->start > budget)
			return;
		budget -= r->end - r->start;
		scan_part(s, r);
	}
}

void find_branches_in(struct checker *c)
{
	struct scan s = {c, UINT64_MAX, 0, false};

	for (size_t i = 0; i < c->range_count; i++) {
		s.least = c->ranges[i].start < s.least ? c->ranges[i].start : s.least;
		s.most = c->ranges[i].end > s.most ? c->ranges[i].end : s.most;
	}
	if (c->range_count && c->image->listed_count[LISTED_CODE])
		scan_sections(&s);
	else if (c->range_count)
		scan_segments(&s);
	if (c->branch_in_count)
		qsort(c->branches_in, c->branch_in_count, sizeof(*c->branches_in), by_target);
}
