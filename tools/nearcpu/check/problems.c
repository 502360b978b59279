/* SPDX-License-Identifier: MIT */
/* The problems of a sequence: one for each rule and address. */
#include "check/sequence.h"

#include <stdarg.h>
#include <stdio.h>

static struct problem *new_problem(struct sequence *s, enum rule rule, uint64_t address)
{
	struct problem *p;

	for (size_t i = 0; i < s->problem_count; i++)
		if (s->problems[i].rule == rule && s->problems[i].address == address)
			return NULL;
	if (s->problem_count == MOST_PROBLEMS) {
		s->too_many = true;
		return NULL;
	}
	p = &s->problems[s->problem_count++];
	*p = (struct problem){rule, address, ""};
	return p;
}

void add_problem(struct sequence *s, enum rule rule, uint64_t address)
{
	new_problem(s, rule, address);
}

void add_problem_with(struct sequence *s, enum rule rule, uint64_t address, const char *fmt, ...)
{
	struct problem *p = new_problem(s, rule, address);
	va_list args;

	if (!p)
		return;
	va_start(args, fmt);
	vsnprintf(p->detail, sizeof(p->detail), fmt, args); /* NOLINT: started above */
	va_end(args);
}

int sequence_severity(const struct sequence *s)
{
	int worst = -1;

	for (size_t i = 0; i < s->problem_count; i++) {
		int severity = (int)rule_texts[s->problems[i].rule].severity;

		worst = severity > worst ? severity : worst;
	}
	return worst;
}
