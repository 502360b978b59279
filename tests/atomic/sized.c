/* SPDX-License-Identifier: MIT */
/* The functions for one size, against plain memory. */
#include "sized.h"

#include "arena.h"

static const char *const op_names[CALL_OPS] = {"add", "sub", "and", "or", "xor", "nand"};

/* ---- values ---- */

#define VALUES 14

/* Their low bytes carry into the next byte, word, and out of each size. */
static call_value value(unsigned i)
{
	const call_value one = 1, all = ~(call_value)0;
	const call_value values[VALUES] = {
		0,
		1,
		2,
		all,
		all - 1,
		all >> 1,
		one << 127,
		UINT64_MAX,
		one << 64,
		0x8080808080808080u,
		0x7f7f7f7f7f7f7f7fu,
		(call_value)0x0123456789abcdefu << 64 | 0xfedcba9876543210u,
		all / 255 * 0x5a,
		(call_value)0x80000000ffffffffu << 64 | 0xffff8000ffff7f80u,
	};

	return values[i % VALUES];
}

/* ---- an object in its arena ---- */

struct place {
	const struct sized_calls *c;
	struct arena arena;
	size_t at;
	int order;
};

static void *object(const struct place *p)
{
	return p->arena.real + p->at;
}

static call_value read_model(const struct place *p)
{
	return call_get(p->c->n, p->arena.model + p->at);
}

static void write_model(const struct place *p, call_value v)
{
	call_put(p->c->n, p->arena.model + p->at, v);
}

static void write_both(struct place *p, call_value v)
{
	write_model(p, v);
	call_put(p->c->n, object(p), v);
}

static void right(const struct place *p, const char *what, call_value got, call_value expected)
{
	expected = call_low(expected, p->c->n);
	got = call_low(got, p->c->n);
	if (got != expected)
		fail_msg("%s of %zu bytes at %zu, order %d: %#llx:%#llx instead of %#llx:%#llx",
			 what, p->c->n, p->at, p->order, (unsigned long long)(got >> 64),
			 (unsigned long long)got, (unsigned long long)(expected >> 64),
			 (unsigned long long)expected);
	if (!arena_right(&p->arena))
		fail_msg("%s of %zu bytes at %zu, order %d: memory is wrong", what, p->c->n, p->at,
			 p->order);
}

/* ---- the calls ---- */

static void do_compare(struct place *p, unsigned i)
{
	static const int failures[] = {__ATOMIC_RELAXED, __ATOMIC_CONSUME, __ATOMIC_ACQUIRE,
				       __ATOMIC_SEQ_CST};
	int failure = failures[i % LENGTH(failures)];
	call_value old = read_model(p), expected = old;

	write_model(p, value(i + 3));
	assert_true(p->c->compare_exchange(object(p), &expected, value(i + 3), p->order, failure));
	right(p, "compare_exchange", expected, old);
	/* Each bit counts. */
	old = read_model(p);
	for (size_t bit = i % 8; bit < 8 * p->c->n; bit += 8) {
		expected = old ^ (call_value)1 << bit;
		assert_false(
			p->c->compare_exchange(object(p), &expected, value(i), p->order, failure));
		right(p, "compare_exchange of others", expected, old);
	}
}

/* Only the first byte becomes 1. */
static void do_test_and_set(struct place *p, unsigned i)
{
	unsigned char *first = p->arena.model + p->at;

	write_both(p, value(i));
	for (int round = 0; round < 2; round++) {
		bool was = *first != 0;

		*first = 1;
		right(p, "test_and_set", p->c->test_and_set(object(p), p->order), was);
	}
}

static void do_moves(struct place *p, unsigned i)
{
	call_value old = read_model(p);

	right(p, "load", p->c->load(object(p), p->order), old);
	write_model(p, value(i));
	p->c->store(object(p), value(i), p->order);
	right(p, "store", 0, 0);
	old = read_model(p);
	write_model(p, value(i + 1));
	right(p, "exchange", p->c->exchange(object(p), value(i + 1), p->order), old);
	do_compare(p, i);
	do_test_and_set(p, i);
	right(p, "load", p->c->load(object(p), p->order), read_model(p));
}

static void do_op(struct place *p, enum call_op op, unsigned i)
{
	call_value a = value(i / VALUES), b = value(i), after = call_apply(op, a, b);

	write_both(p, a);
	write_model(p, after);
	right(p, op_names[op], p->c->fetch_op[op](object(p), b, p->order), a);
	write_both(p, a);
	write_model(p, after);
	right(p, op_names[op], p->c->op_fetch[op](object(p), b, p->order), after);
}

void sized_moves(const struct sized_calls *c)
{
	struct place p = {.c = c};
	unsigned orders = unit_emulated() ? 2 : CALL_ORDERS;

	arena_make(&p.arena, c->n);
	for (p.at = 0; p.at < ARENA_OFFSETS; p.at += c->n)
		for (unsigned i = 0; i < orders * VALUES; i++) {
			p.order = (int)(i % CALL_ORDERS);
			do_moves(&p, i / CALL_ORDERS);
		}
	arena_free(&p.arena);
}

void sized_ops(const struct sized_calls *c)
{
	struct place p = {.c = c};

	arena_make(&p.arena, c->n);
	for (unsigned op = 0; op < CALL_OPS; op++)
		for (unsigned i = 0; i < VALUES * VALUES; i++) {
			p.at = i * c->n % ARENA_OFFSETS;
			p.order = (int)(i % CALL_ORDERS);
			do_op(&p, (enum call_op)op, i);
		}
	arena_free(&p.arena);
}
