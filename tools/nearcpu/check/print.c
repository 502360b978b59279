/* SPDX-License-Identifier: MIT */
/* The text of what was found. */
#include "check/check.h"

#include <inttypes.h>
#include <stdio.h>

static const struct problem *problem_at(const struct sequence *s, uint64_t address, size_t *i)
{
	for (; *i < s->problem_count; (*i)++)
		if (s->problems[*i].address == address)
			return &s->problems[(*i)++];
	return NULL;
}

static void print_problem(const struct problem *p)
{
	const struct rule_text *t = &rule_texts[p->rule];

	printf("    %s: %s%s%s%s [%s]\n", severity_names[t->severity], t->reason,
	       p->detail[0] ? " (" : "", p->detail, p->detail[0] ? ")" : "", t->id);
	printf("      %s\n", t->advice);
}

/* The worst of an instruction's problems marks its line. */
static char mark_of(const struct sequence *s, uint64_t address)
{
	static const char marks[] = {[NOTE] = '-', [WARNING] = '*', [FAULT] = '>'};
	const struct problem *p;
	int worst = -1;
	size_t i = 0;

	while ((p = problem_at(s, address, &i)))
		if ((int)rule_texts[p->rule].severity > worst)
			worst = (int)rule_texts[p->rule].severity;
	return worst < 0 ? ' ' : marks[worst];
}

/* Of a long sequence the ends, and what is marked. */
#define SHOWN 200

static void print_code(const struct sequence *s)
{
	bool left_out = false;

	for (size_t i = s->first; i < s->insn_count; i++) {
		const struct insn *insn = &s->insns[i];
		char mark = mark_of(s, insn->address);

		if (mark == ' ' && i - s->first >= SHOWN && s->insn_count - i > 10) {
			if (!left_out)
				printf("        ...\n");
			left_out = true;
			continue;
		}
		left_out = false;
		printf("    %c %" PRIx64 "  %s\n", mark, insn->address, insn->text);
	}
}

static const char *how_found(const struct descriptor *d)
{
	if (d->in_section)
		return "in __rseq_cs";
	return d->in_array ? "by __rseq_cs_ptr_array" : "by its form";
}

/* A symbol may hold anything. */
static void print_name(const char *name)
{
	for (; *name; name++)
		putchar(*name >= ' ' && *name <= '~' ? *name : '?');
}

static void print_title(const struct sequence *s)
{
	const struct descriptor *d = s->descriptor;

	printf("  ");
	if (s->function && s->function->name) {
		print_name(s->function->name);
		printf("+0x%" PRIx64 ": ", s->start - s->function->start);
	}
	printf("sequence 0x%" PRIx64 " to 0x%" PRIx64 ", abort 0x%" PRIx64 ", descriptor 0x%" PRIx64
	       " (%s)\n",
	       d->start, d->start + d->length, d->abort, d->address, how_found(d));
}

void print_sequence(void *context, const struct image *image, const struct sequence *s)
{
	struct check_text *text = context;
	int severity = sequence_severity(s);
	size_t i = 0;

	(void)image;
	if (text->quiet || (severity < WARNING && !text->verbose))
		return;
	if (!text->said_name)
		printf("%s:\n", text->name);
	text->said_name = true;
	print_title(s);
	print_code(s);
	for (; i < s->problem_count; i++) {
		if (rule_texts[s->problems[i].rule].severity == NOTE && !text->verbose)
			continue;
		if (s->problems[i].address)
			printf("    at 0x%" PRIx64 ":\n", s->problems[i].address);
		print_problem(&s->problems[i]);
	}
	if (s->too_many)
		printf("    and more\n");
	putchar('\n');
}

static void print_count(size_t n, const char *what, bool more)
{
	printf("%zu %s%s%s", n, what, n == 1 ? "" : "s", more ? ", " : "\n");
}

void print_counts(const struct check_text *text, const struct check_counts *counts)
{
	if (text->quiet && !counts->problems[FAULT])
		return;
	printf("%s: ", text->name);
	if (!counts->sequences) {
		printf("no sequences found\n");
		return;
	}
	print_count(counts->sequences, "sequence", true);
	print_count(counts->problems[FAULT], "fault", true);
	print_count(counts->problems[WARNING], "warning", counts->problems[NOTE] > 0);
	if (counts->problems[NOTE])
		print_count(counts->problems[NOTE], "note", false);
}
