/* SPDX-License-Identifier: MIT */
/* The functions of libatomic, against plain memory. */
#include "plain.h"

#include "arena.h"

static int failure_order(unsigned n)
{
	static const int orders[CALL_FAILURE_ORDERS] = {__ATOMIC_RELAXED, __ATOMIC_CONSUME,
							__ATOMIC_ACQUIRE, __ATOMIC_SEQ_CST};

	return orders[n % CALL_FAILURE_ORDERS];
}

/* ---- of any size ---- */

/* One call: an object of n bytes, and two operands at other offsets. */
struct scenario {
	struct arena object, first, second;
	size_t n, object_at, first_at, second_at;
	int success, failure;
	unsigned round;
};

#define REAL(s, which) ((s)->which.real + (s)->which##_at)
#define MODEL(s, which) ((s)->which.model + (s)->which##_at)

static void right(const struct scenario *s, const char *what)
{
	if (arena_right(&s->object) && arena_right(&s->first) && arena_right(&s->second))
		return;
	fail_msg("%s, %zu bytes at %zu, operands at %zu and %zu, orders %d and %d: %s is wrong",
		 what, s->n, s->object_at, s->first_at, s->second_at, s->success, s->failure,
		 !arena_right(&s->object)  ? "the object"
		 : !arena_right(&s->first) ? "the first operand"
					   : "the second operand");
}

/* Sets the first operand to the object's bytes, with one bit changed unless `same`. */
static void expect(struct scenario *s, bool same)
{
	arena_set(&s->first, s->first_at, s->n, REAL(s, object));
	if (!same) {
		size_t i = s->first_at + s->round % s->n;

		s->first.real[i] ^= (unsigned char)(1 << s->round % 8);
		s->first.model[i] = s->first.real[i];
	}
}

static void do_load(struct scenario *s)
{
	call_load(s->n, REAL(s, object), REAL(s, first), s->success);
	memcpy(MODEL(s, first), MODEL(s, object), s->n);
	right(s, "load");
}

static void do_store(struct scenario *s)
{
	for (size_t i = 0; i < s->n; i++)
		MODEL(s, first)[i] = REAL(s, first)[i] ^= (unsigned char)(s->round + i * 7 + 1);
	call_store(s->n, REAL(s, object), REAL(s, first), s->success);
	memcpy(MODEL(s, object), MODEL(s, first), s->n);
	right(s, "store");
}

static void do_exchange(struct scenario *s)
{
	call_exchange(s->n, REAL(s, object), REAL(s, second), REAL(s, first), s->success);
	memcpy(MODEL(s, first), MODEL(s, object), s->n);
	memcpy(MODEL(s, object), MODEL(s, second), s->n);
	right(s, "exchange");
}

/* The old bytes replace the new ones. */
static void do_swap(struct scenario *s)
{
	for (size_t i = 0; i < s->n; i++)
		MODEL(s, second)[i] = REAL(s, second)[i] ^= (unsigned char)(s->round + i + 1);
	call_exchange(s->n, REAL(s, object), REAL(s, second), REAL(s, second), s->success);
	for (size_t i = 0; i < s->n; i++) {
		unsigned char old = MODEL(s, object)[i];

		MODEL(s, object)[i] = MODEL(s, second)[i];
		MODEL(s, second)[i] = old;
	}
	right(s, "exchange in place");
}

static void do_compare(struct scenario *s, bool same)
{
	bool done;

	expect(s, same);
	done = call_compare_exchange(s->n, REAL(s, object), REAL(s, first), REAL(s, second),
				     s->success, s->failure);
	if (same)
		memcpy(MODEL(s, object), MODEL(s, second), s->n);
	else
		memcpy(MODEL(s, first), MODEL(s, object), s->n);
	right(s, same ? "compare_exchange of equals" : "compare_exchange of others");
	if (done != same)
		fail_msg("compare_exchange, %zu bytes at %zu: %s", s->n, s->object_at,
			 same ? "did not find equal what is" : "found equal what is not");
}

/* The expected bytes are the desired ones. */
static void do_confirm(struct scenario *s)
{
	expect(s, true);
	assert_true(call_compare_exchange(s->n, REAL(s, object), REAL(s, first), REAL(s, first),
					  s->success, s->failure));
	right(s, "compare_exchange with itself");
}

static void do_all(struct scenario *s)
{
	s->round++;
	do_load(s);
	do_store(s);
	do_exchange(s);
	do_swap(s);
	do_compare(s, true);
	if (s->n)
		do_compare(s, false);
	do_confirm(s);
	do_load(s);
	assert_int_equal(s->n == 0 || memcmp(REAL(s, first), REAL(s, object), s->n) == 0, 1);
}

static void scenario_open(struct scenario *s, size_t n)
{
	*s = (struct scenario){.n = n};
	arena_make(&s->object, n);
	arena_make(&s->first, n + 1);
	arena_make(&s->second, n + 2);
}

static void scenario_close(struct scenario *s)
{
	arena_free(&s->object);
	arena_free(&s->first);
	arena_free(&s->second);
}

void generic_grid(size_t n, size_t step)
{
	struct scenario s;
	unsigned order = (unsigned)n;

	scenario_open(&s, n);
	for (size_t at = 0; at < ARENA_OFFSETS; at += step, order++) {
		s.object_at = at;
		/* Operands aligned as the object, and differently. */
		s.first_at = order % 3 ? at * 5 % ARENA_LINE : at;
		s.second_at = order % 3 ? at * 11 % ARENA_LINE : at;
		s.success = (int)(order % CALL_ORDERS);
		s.failure = failure_order(order / CALL_ORDERS);
		do_all(&s);
	}
	scenario_close(&s);
}

void generic_orders(size_t n, size_t at)
{
	struct scenario s;

	scenario_open(&s, n);
	s.object_at = at;
	for (s.success = 0; s.success < CALL_ORDERS; s.success++)
		for (unsigned i = 0; i < CALL_FAILURE_ORDERS; i++) {
			s.failure = failure_order(i);
			do_all(&s);
		}
#ifdef __ATOMIC_HLE_ACQUIRE
	/* gcc passes these bits to the library. */
	s.success = __ATOMIC_SEQ_CST | __ATOMIC_HLE_ACQUIRE;
	do_all(&s);
	s.success = __ATOMIC_RELEASE | __ATOMIC_HLE_RELEASE;
	do_all(&s);
#endif
	scenario_close(&s);
}

/* ---- of one size ---- */

static const char *const op_names[CALL_OPS] = {"add", "sub", "and", "or", "xor", "nand"};

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

static void sized_right(const struct place *p, const char *what, call_value got,
			call_value expected)
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

static void sized_compare(struct place *p, unsigned i)
{
	int failure = failure_order(i);
	call_value old = read_model(p), expected = old;

	write_model(p, value(i + 3));
	assert_true(p->c->compare_exchange(object(p), &expected, value(i + 3), p->order, failure));
	sized_right(p, "compare_exchange", expected, old);
	/* Each bit counts. */
	old = read_model(p);
	for (size_t bit = i % 8; bit < 8 * p->c->n; bit += 8) {
		expected = old ^ (call_value)1 << bit;
		assert_false(
			p->c->compare_exchange(object(p), &expected, value(i), p->order, failure));
		sized_right(p, "compare_exchange of others", expected, old);
	}
}

/* Only the first byte becomes 1. */
static void sized_test_and_set(struct place *p, unsigned i)
{
	unsigned char *first = p->arena.model + p->at;

	write_both(p, value(i));
	for (int round = 0; round < 2; round++) {
		bool was = *first != 0;

		*first = 1;
		sized_right(p, "test_and_set", p->c->test_and_set(object(p), p->order), was);
	}
}

static void sized_move(struct place *p, unsigned i)
{
	call_value old = read_model(p);

	sized_right(p, "load", p->c->load(object(p), p->order), old);
	write_model(p, value(i));
	p->c->store(object(p), value(i), p->order);
	sized_right(p, "store", 0, 0);
	old = read_model(p);
	write_model(p, value(i + 1));
	sized_right(p, "exchange", p->c->exchange(object(p), value(i + 1), p->order), old);
	sized_compare(p, i);
	sized_test_and_set(p, i);
	sized_right(p, "load", p->c->load(object(p), p->order), read_model(p));
}

static void sized_op(struct place *p, enum call_op op, unsigned i)
{
	call_value a = value(i / VALUES), b = value(i), after = call_apply(op, a, b);

	write_both(p, a);
	write_model(p, after);
	sized_right(p, op_names[op], p->c->fetch_op[op](object(p), b, p->order), a);
	write_both(p, a);
	write_model(p, after);
	sized_right(p, op_names[op], p->c->op_fetch[op](object(p), b, p->order), after);
}

void sized_moves(const struct sized_calls *c)
{
	struct place p = {.c = c};
	unsigned orders = unit_emulated() ? 2 : CALL_ORDERS;

	arena_make(&p.arena, c->n);
	for (p.at = 0; p.at < ARENA_OFFSETS; p.at += c->n)
		for (unsigned i = 0; i < orders * VALUES; i++) {
			p.order = (int)(i % CALL_ORDERS);
			sized_move(&p, i / CALL_ORDERS);
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
			sized_op(&p, (enum call_op)op, i);
		}
	arena_free(&p.arena);
}
