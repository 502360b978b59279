/* SPDX-License-Identifier: MIT */
/* Addresses are strings: JSON's numbers do not hold them all. */
#include "check/check.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

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

void json_sequence(void *array, const struct image *image, const struct sequence *s)
{
	const struct descriptor *d = s->descriptor;
	json_t *one = json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "descriptor",
				address_json(d->address), "found_by", found_by(d), "start",
				address_json(d->start), "end", address_json(d->start + d->length),
				"abort", address_json(d->abort), "problems", problems_json(s),
				"code", code_json(s));

	(void)image;
	if (s->function && s->function->name) {
		json_object_set_new(one, "function", name_json(s->function->name));
		json_object_set_new(one, "function_offset",
				    json_integer((json_int_t)(s->start - s->function->start)));
	}
	json_array_append_new(array, one);
}
