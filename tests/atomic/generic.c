/* SPDX-License-Identifier: MIT */
/* The generic functions, against plain memory. */
#include "generic.h"

#include "arena.h"
#include "calls.h"

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

static int failure_order(unsigned n)
{
	static const int orders[CALL_FAILURE_ORDERS] = {__ATOMIC_RELAXED, __ATOMIC_CONSUME,
							__ATOMIC_ACQUIRE, __ATOMIC_SEQ_CST};

	return orders[n % CALL_FAILURE_ORDERS];
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
