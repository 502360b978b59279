/* SPDX-License-Identifier: MIT */
#include "values.h"

#include <string.h>

void names_begin(struct names *n, uint32_t count)
{
	n->run++;
	n->count = count;
	memset(n->from, 0, count + 1);
}

struct value value_constant(int64_t n)
{
	return (struct value){NAME_CONST, n};
}

static int64_t plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

struct value value_new(struct names *n, uint8_t from)
{
	/* The last name stands for all that are too many; nobody learns anything from it. */
	if (n->count < NAMES - 1)
		n->count++;
	n->from[n->count] = from;
	return (struct value){n->count, 0};
}

struct memo *names_memo(struct names *n, enum memo_kind kind, uint32_t a, uint32_t b, int64_t c,
			bool *is_new)
{
	uint64_t hash = ((uint64_t)kind << 60) ^ (uint64_t)a * 0x9e3779b97f4a7c15 ^
			(uint64_t)b * 0xc2b2ae3d27d4eb4f ^ (uint64_t)c * 0x165667b19e3779f9;

	hash ^= hash >> 29;
	*is_new = false;
	for (unsigned i = 0; i < 32; i++) {
		struct memo *m = &n->memos[(hash + i) % MEMOS];

		if (m->run != n->run) {
			*m = (struct memo){n->run, kind, a, b, c, value_constant(0)};
			*is_new = true;
			return m;
		}
		if (m->kind == kind && m->a == a && m->b == b && m->c == c)
			return m;
	}
	return NULL;
}

struct value value_derived(struct names *n, enum memo_kind kind, uint32_t a, uint32_t b, int64_t c,
			   uint8_t from)
{
	bool is_new;
	struct memo *m = names_memo(n, kind, a, b, c, &is_new);

	if (!m)
		return value_new(n, from);
	if (is_new)
		m->value = value_new(n, from);
	return m->value;
}

struct value value_sum(struct names *n, struct value a, struct value b)
{
	struct value s;

	if (a.name == NAME_CONST || b.name == NAME_CONST) {
		s.name = a.name | b.name; /* one of them is 0 */
	} else {
		uint32_t low = a.name < b.name ? a.name : b.name;

		s = value_derived(n, MEMO_SUM, low, a.name ^ b.name ^ low, 0,
				  n->from[a.name] | n->from[b.name]);
	}
	s.plus = plus(a.plus, b.plus);
	return s;
}

struct value value_shifted(struct names *n, struct value v, unsigned by)
{
	struct value s;

	if (!by)
		return v;
	if (v.name == NAME_CONST)
		return value_constant((int64_t)((uint64_t)v.plus << (by & 63)));
	s = value_derived(n, MEMO_SHIFT, v.name, by, 0, n->from[v.name]);
	s.plus = (int64_t)((uint64_t)v.plus << (by & 63));
	return s;
}
