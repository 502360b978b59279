/* SPDX-License-Identifier: MIT */
/* Values as a name plus a constant, and the memo of values derived from others. */
#include "check/flow.h"

#include <string.h>

void names_begin(struct names *n, uint32_t count)
{
	n->run++;
	n->count = count;
	memset(n->from, 0, count + 1);
	memset(n->parts, 0, (count + 1) * sizeof(n->parts[0]));
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
	n->parts[n->count].a = n->parts[n->count].b = 0;
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
		if (s.name < NAMES - 1) {
			n->parts[s.name].a = a.name;
			n->parts[s.name].b = b.name;
		}
	}
	s.plus = plus(a.plus, b.plus);
	return s;
}

/* What a name is the sum of, at last. Returns how many. */
#define LEAVES 8
static unsigned leaves(const struct names *n, uint32_t name, uint32_t out[LEAVES])
{
	uint32_t todo[LEAVES] = {name};
	unsigned left = 1, count = 0;

	while (left && count < LEAVES) {
		name = todo[--left];
		if (!n->parts[name].a || left + 2 > LEAVES) {
			out[count++] = name;
			continue;
		}
		todo[left++] = n->parts[name].a;
		todo[left++] = n->parts[name].b;
	}
	return count;
}

bool value_shares(const struct names *n, uint32_t a, uint32_t b, uint32_t except)
{
	uint32_t of_a[LEAVES], of_b[LEAVES];
	unsigned count_a = leaves(n, a, of_a), count_b = leaves(n, b, of_b);

	for (unsigned i = 0; i < count_a; i++)
		for (unsigned k = 0; k < count_b; k++)
			if (of_a[i] == of_b[k] && of_a[i] >= NAME_FIRST && of_a[i] != except)
				return true;
	return false;
}

bool value_is_like(const struct names *n, struct value a, struct value b, uint32_t except)
{
	if (a.plus != b.plus || a.name < NAME_FIRST || a.name == except)
		return false;
	return a.name == b.name || (n->parts[a.name].a && value_shares(n, a.name, b.name, except));
}

bool value_in_file(struct names *n, const struct image *image, struct value at, unsigned size,
		   struct value *out)
{
	const struct tls_word *word;
	const struct segment *target;
	uint64_t content;

	if (at.name == NAME_THREAD && at.plus == 0) {
		*out = (struct value){NAME_THREAD, 0}; /* x86_64: the word points to itself */
		return image->cpu == CPU_X86_64;
	}
	if (at.name != NAME_CONST || size != 8)
		return false;
	word = image_tls_word(image, (uint64_t)at.plus);
	if (word) {
		*out = word->symbol ? value_derived(n, MEMO_TLS, word->symbol, 0, 0, 0)
				    : value_constant(0);
		out->plus = word->offset;
		return true;
	}
	if (!image_read(image, (uint64_t)at.plus, &content, 8))
		return false;
	target = image_segment(image, content);
	*out = value_constant((int64_t)content);
	return target && content;
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
