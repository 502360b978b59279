/* SPDX-License-Identifier: MIT */
/* What was found, as text and as JSON. */
#include "check/check.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

static void print_problem(const struct problem *p)
{
	const struct rule_text *t = &rule_texts[p->rule];

	printf("    %s: %s%s%s%s [%s]\n", severity_names[t->severity], t->reason,
	       p->detail[0] ? " (" : "", p->detail, p->detail[0] ? ")" : "", t->id);
	printf("      %s\n", t->advice);
}

/* The most serious of the problems, or of those at one address; -1 if there is none. */
static int worst_of(const struct sequence *s, const uint64_t *address)
{
	int worst = -1;

	for (size_t i = 0; i < s->problem_count; i++) {
		int severity = (int)rule_texts[s->problems[i].rule].severity;

		if (severity > worst && (!address || s->problems[i].address == *address))
			worst = severity;
	}
	return worst;
}

/* Of a long sequence the ends, and what is marked. */
#define SHOWN 200

static void print_code(const struct sequence *s)
{
	static const char marks[] = {[NOTE] = '-', [WARNING] = '*', [FAULT] = '>'};
	bool left_out = false;

	for (size_t i = s->first; i < s->insn_count; i++) {
		const struct insn *insn = &s->insns[i];
		int worst = worst_of(s, &insn->address);

		if (worst < 0 && i - s->first >= SHOWN && s->insn_count - i > 10) {
			if (!left_out)
				printf("        ...\n");
			left_out = true;
			continue;
		}
		left_out = false;
		printf("    %c %" PRIx64 "  %s\n", worst < 0 ? ' ' : marks[worst], insn->address,
		       insn->text);
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
		putchar(*name > ' ' && *name <= '~' ? *name : '?');
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

void print_sequence(void *context, const struct sequence *s)
{
	struct check_text *text = context;
	int severity = worst_of(s, NULL);

	if (text->quiet || (severity < WARNING && !text->verbose))
		return;
	if (!text->said_name)
		printf("%s:\n", text->name);
	text->said_name = true;
	print_title(s);
	print_code(s);
	for (size_t i = 0; i < s->problem_count; i++) {
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

/* For tools that place probes. The name of the file comes last, as it may hold spaces. */
void print_range(void *context, const struct sequence *s)
{
	const struct check_text *text = context;

	if (s->start == s->end)
		return; /* not in the file, or no code */
	printf("0x%" PRIx64 " 0x%" PRIx64 " 0x%" PRIx64 " ", s->start, s->end, s->offset);
	if (s->function && s->function->name) {
		print_name(s->function->name);
		printf("+0x%" PRIx64, s->start - s->function->start);
	} else {
		putchar('?');
	}
	printf(" %s\n", text->name);
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

/* ---- JSON: addresses are strings, as its numbers do not hold them all ---- */

static json_t *address_json(uint64_t address)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	return json_string(text);
}

/* A symbol or a path may hold what is no UTF-8. */
json_t *name_json(const char *name)
{
	json_t *as_it_is = json_string(name);
	char text[4096];
	size_t i = 0;

	if (as_it_is)
		return as_it_is;
	for (; name[i] && i < sizeof(text) - 1; i++)
		text[i] = (char)(name[i] >= ' ' && name[i] <= '~' ? name[i] : '?');
	text[i] = '\0';
	return json_string(text);
}

static json_t *problems_json(const struct sequence *s)
{
	json_t *array = json_array();

	for (size_t i = 0; i < s->problem_count; i++) {
		const struct problem *p = &s->problems[i];
		const struct rule_text *t = &rule_texts[p->rule];
		json_t *one = json_pack("{s:s, s:s, s:s, s:s}", "id", t->id, "severity",
					severity_names[t->severity], "reason", t->reason, "advice",
					t->advice);

		if (p->address)
			json_object_set_new(one, "address", address_json(p->address));
		if (p->detail[0])
			json_object_set_new(one, "detail", json_string(p->detail));
		json_array_append_new(array, one);
	}
	return array;
}

/* Far more than any sequence has that can end. */
#define MOST_CODE 500

static json_t *code_json(const struct sequence *s)
{
	json_t *array = json_array();

	for (size_t i = s->first; i < s->insn_count && i - s->first < MOST_CODE; i++)
		json_array_append_new(array, json_pack("{s:o, s:s}", "address",
						       address_json(s->insns[i].address), "text",
						       s->insns[i].text));
	return array;
}

static const char *found_by(const struct descriptor *d)
{
	return d->in_section ? "section" : d->in_array ? "array" : "form";
}

void json_sequence(void *array, const struct sequence *s)
{
	const struct descriptor *d = s->descriptor;
	json_t *one = json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "descriptor",
				address_json(d->address), "found_by", found_by(d), "start",
				address_json(d->start), "end", address_json(d->start + d->length),
				"abort", address_json(d->abort), "problems", problems_json(s),
				"code", code_json(s));

	if (s->start != s->end)
		json_object_set_new(one, "offset", address_json(s->offset));
	if (s->function && s->function->name) {
		json_object_set_new(one, "function", name_json(s->function->name));
		json_object_set_new(one, "function_offset",
				    json_integer((json_int_t)(s->start - s->function->start)));
	}
	json_array_append_new(array, one);
}
