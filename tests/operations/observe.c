/* SPDX-License-Identifier: MIT */
/* What came out, as text. */
#include "objects.h"

void put(struct ops_text *t, const char *s)
{
	while (*s && t->at < t->end)
		*t->at++ = *s++;
}

void put_number(struct ops_text *t, int64_t value)
{
	char digits[24], *p = digits + sizeof(digits);
	uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;

	*--p = '\0';
	do
		*--p = (char)('0' + left % 10);
	while (left /= 10);
	if (value < 0)
		*--p = '-';
	put(t, p);
}

void put_field(struct ops_text *t, const char *name, int64_t value)
{
	put(t, name);
	put_number(t, value);
}

int node_id(const void *node)
{
	const char *first = (const char *)OBJ.nodes, *p = node;

	if (p < first || p >= (const char *)(OBJ.nodes + OPS_NODES))
		return -1;
	return (int)((size_t)(p - first) / sizeof(*OBJ.nodes));
}

static void put_results(struct ops_text *t, const char *name, const struct actor *a)
{
	put(t, name);
	for (unsigned i = 0; i < a->n; i++) {
		int id = node_id(a->results[i]);

		if (id >= 0)
			put_field(t, " node ", id);
		else
			put_field(t, " ", (intptr_t)a->results[i]);
	}
}

void ops_describe(char *out, size_t size, const struct actor *a, const struct actor *b)
{
	struct ops_text t = {out, out + size - 1};

	for (unsigned i = 0; i < OPS_OBJECTS; i++)
		if (ops_is_kind(i) && ops_kinds[i]->describe)
			ops_kinds[i]->describe(&t, a, b);
	put_results(&t, "; A", a);
	put_results(&t, "; B", b);
	*t.at = '\0';
}

uint64_t ops_digest(const struct actor *a, const struct actor *b)
{
	char text[512];
	uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	ops_describe(text, sizeof(text), a, b);
	for (const char *p = text; *p; p++)
		h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	return h;
}

const char *ops_conserved(const struct actor *a, const struct actor *b)
{
	const char *problem = NULL;

	for (unsigned i = 0; i < OPS_OBJECTS && !problem; i++)
		if (ops_is_kind(i) && ops_kinds[i]->conserved)
			problem = ops_kinds[i]->conserved(a, b);
	return problem;
}
