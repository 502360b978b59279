/* SPDX-License-Identifier: MIT */
/* near_torture passes what is right. */
#include "cases.h"

#include <nearcpu/counter.h>
#include <nearcpu/queue.h>
#include <nearcpu/stack.h>

#include "../../examples/sequence.h"

void *peak;
uint64_t highest;

void peak_setup(void *arg)
{
	near_percpu_free(peak);
	if (near_percpu_alloc(sizeof(uint64_t), sizeof(uint64_t), &peak))
		abort();
	highest = 0;
}

void report_peak(void *value)
{
	uint64_t n = *(uint64_t *)value;

	highest = n > highest ? n : highest;
	peak_raise(peak, n);
}

uint64_t peak_now(void)
{
	uint64_t found = 0, *copy;

	for (unsigned s = 0; near_percpu_next(peak, &s); s++) {
		copy = near_percpu_at(peak, s);
		found = *copy > found ? *copy : found;
	}
	return found;
}

static const char *peak_check(void *arg)
{
	return peak_now() == highest ? NULL : "the highest value is lost";
}

static uint64_t peak_digest(void *arg)
{
	return peak_now();
}

static const void *peak_slot(void *arg, size_t *size)
{
	*size = sizeof(uint64_t);
	return near_percpu_at(peak, near_slot());
}

uint64_t values[] = {5, 3, 9};
static const struct near_torture_rival peak_others[] = {{"lower", report_peak, &values[1], 0},
							{"higher", report_peak, &values[2], 0}};
const struct near_torture peak_torture = {
	.setup = peak_setup,
	.run = report_peak,
	.rivals = peak_others,
	.n_rivals = LENGTH(peak_others),
	.check = peak_check,
	.digest = peak_digest,
	.slot = peak_slot,
	.arg = &values[0],
};

void sequence_of_near_seq(void **state)
{
	struct near_torture_result r, again;

	need_live();
	assert_int_equal(prove(&peak_torture, &r), 0);
	print_message("%u sequence, %u boundaries, %lu runs, %lu aborts, %lu migrated\n",
		      r.sequences, r.boundaries, r.runs, r.aborts, r.migrated);
	assert_string_equal(r.text, "");
	assert_int_equal(r.sequences, 1);
	assert_true(r.boundaries >= 8);
	/* Alone, again, four competing operations; and each migration is an abort. */
	assert_true(r.aborts >= (r.boundaries - 1) * 6);
	assert_int_equal(r.most_aborts, NEAR_SEQ_TRIES);
	assert_int_equal(r.uncommitted, 0);
	assert_true(!has_two_cpus() || r.migrated > 0);
	assert_true(r.taken >= r.boundaries - 1 || status_now().own_area);
	assert_int_equal(prove(&peak_torture, &again), 0);
	assert_int_equal(again.boundaries, r.boundaries);
	assert_int_equal(again.runs, r.runs);
}

static struct near_counter counter;
static int64_t counted;

static void counter_setup(void *arg)
{
	if (near_counter_init(&counter))
		abort();
	counted = 0;
}

static void counter_run(void *n)
{
	counted += *(int64_t *)n;
	near_counter_add(&counter, *(int64_t *)n);
}

static const char *counter_check(void *arg)
{
	int64_t total = near_counter_read(&counter);

	near_counter_destroy(&counter);
	return total == counted ? NULL : "miscounted";
}

void counter_of_the_library(void **state)
{
	static int64_t three = 3, five = -5;
	static const struct near_torture_rival rivals[] = {{"add", counter_run, &five, 0}};
	static const struct near_torture t = {
		.setup = counter_setup,
		.run = counter_run,
		.rivals = rivals,
		.n_rivals = 1,
		.check = counter_check,
		.arg = &three,
	};
	struct near_torture_result r;

	need_live();
	assert_int_equal(prove(&t, &r), 0);
	assert_true(r.aborts > 0);
}

static struct near_stack stack;
static struct near_stack_node nodes[4], *taken[2];

static void stack_setup(void *arg)
{
	if (near_stack_init(&stack))
		abort();
	near_stack_push(&stack, &nodes[0]);
	near_stack_push(&stack, &nodes[1]);
	taken[0] = taken[1] = NULL;
}

static void stack_take(void *to)
{
	*(struct near_stack_node **)to = near_stack_pop(&stack);
}

static void stack_put(void *node)
{
	near_stack_push(&stack, node);
}

/* Two nodes, and the third one if it was pushed: each is taken once. */
static const char *stack_check(void *arg)
{
	unsigned found[LENGTH(nodes)] = {0};
	struct near_stack_node *n;

	for (unsigned i = 0; i < LENGTH(taken); i++)
		if (taken[i])
			found[taken[i] - nodes]++;
	while ((n = near_stack_pop(&stack)))
		found[n - nodes]++;
	near_stack_destroy(&stack);
	return found[0] == 1 && found[1] == 1 && found[2] <= 1 && !found[3] ? NULL
									    : "not each once";
}

void stack_of_the_library(void **state)
{
	static const struct near_torture_rival rivals[] = {{"pop", stack_take, &taken[1], 0},
							   {"push", stack_put, &nodes[2], 0}};
	static const struct near_torture t = {
		.setup = stack_setup,
		.run = stack_take,
		.rivals = rivals,
		.n_rivals = LENGTH(rivals),
		.check = stack_check,
		.arg = &taken[0],
	};
	struct near_torture_result r;

	need_live();
	assert_int_equal(prove(&t, &r), 0);
	assert_true(r.sequences >= 1);
}

/* Of three elements two are there at first, and there is room for three. */
static struct near_queue queue;
static uintptr_t numbers[] = {1, 2, 3, 4}, got;
static unsigned queued; /* the sum of those that were put, less those that were got */

static void queue_put(void *number)
{
	uintptr_t n = *(uintptr_t *)number;

	if (near_queue_try_put(&queue, (void *)n) == 0)
		queued += 1u << n;
}

static void queue_get(void *to)
{
	void *element;

	*(uintptr_t *)to = near_queue_try_get(&queue, &element) ? 0 : (uintptr_t)element;
	queued -= *(uintptr_t *)to ? 1u << *(uintptr_t *)to : 0;
}

static void queue_setup(void *arg)
{
	if (near_queue_init(&queue, 3))
		abort();
	queued = 0;
	queue_put(&numbers[0]);
	queue_put(&numbers[1]);
}

static const char *queue_check(void *arg)
{
	while (queue_get(&got), got)
		;
	near_queue_destroy(&queue);
	return queued ? "an element is lost, or there twice" : NULL;
}

void queue_of_the_library(void **state)
{
	static const struct near_torture_rival rivals[] = {{"get", queue_get, &got, 0},
							   {"put", queue_put, &numbers[3], 0}};
	static const struct near_torture t = {
		.setup = queue_setup,
		.run = queue_put,
		.rivals = rivals,
		.n_rivals = LENGTH(rivals),
		.check = queue_check,
		.arg = &numbers[2],
	};
	struct near_torture_result r;

	need_live();
	assert_int_equal(prove(&t, &r), 0);
	assert_true(r.sequences >= 1);
	assert_true(r.aborts > 0);
}
