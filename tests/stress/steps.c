/* SPDX-License-Identifier: MIT */
/* The operations that a worker chooses from. */
#include "stress.h"

static void count(struct stress_thread *self)
{
	struct stress_tally *t = stress_tally(self);

	t->started++;
	near_counter_add(&stress.count, 1);
	t->done++;
}

static void add(struct stress_thread *self)
{
	int64_t n = (int64_t)(unit_random(&self->random) % 101) - 50;

	near_counter_add(&stress.reset, n);
	stress_tally(self)->added += n;
}

static void add_shared(struct stress_thread *self)
{
	near_shared_counters_add(&stress.shared, 1, 3);
	stress_tally(self)->shared += 3;
}

static void record(struct stress_thread *self)
{
	near_histogram_record(&stress.histogram, STRESS_VALUE);
	stress_tally(self)->recorded++;
}

/* Puts a popped node into an empty hand, or pushes it again. */
static void take(struct stress_thread *self, struct near_stack_node *node)
{
	struct stress_item *item = stress_item_of(node);
	struct stress_item *none = NULL;

	if (!node)
		return;
	if (!stress_claim(item, self->number)) {
		stress_tally(self)->wrong++;
		return;
	}
	for (unsigned i = 0; i < STRESS_HANDS; i++)
		if (!self->hands[i]) {
			self->hands[i] = item;
			return;
		}
	/* For this thread's signal handler. Release: it finds the node as it was popped. */
	if (!__atomic_compare_exchange_n(&self->reserve, &none, item, false, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		stress_push(item);
}

static void pop(struct stress_thread *self)
{
	take(self, near_stack_pop(&stress.stack));
}

static void push(struct stress_thread *self)
{
	struct stress_item **hand = &self->hands[unit_random(&self->random) % STRESS_HANDS];
	struct stress_item *item = *hand;

	*hand = NULL;
	if (item)
		stress_push(item);
}

/* Pushes what is in all hands in one step. */
static void push_chain(struct stress_thread *self)
{
	struct near_stack_node *first = NULL, *last = NULL;

	for (unsigned i = 0; i < STRESS_HANDS; i++) {
		struct stress_item *item = self->hands[i];

		if (!item)
			continue;
		self->hands[i] = NULL;
		__atomic_store_n(&item->owner, 0, __ATOMIC_RELAXED);
		item->link.next = first;
		first = &item->link;
		last = last ? last : first;
	}
	if (first)
		near_stack_push_chain(&stress.stack, first, last);
}

static void pop_all(struct stress_thread *self)
{
	struct near_stack_node *list = near_stack_pop_all(&stress.stack), *next;

	for (; list; list = next) {
		next = list->next;
		take(self, list);
	}
}

static void steal(struct stress_thread *self)
{
	if (unit_random(&self->random) % 16 == 0)
		take(self, near_stack_steal(&stress.stack));
}

static void get(struct stress_thread *self)
{
	near_refcount_get(&stress.refs);
	self->refs++;
}

static void put(struct stress_thread *self)
{
	if (!self->refs)
		return;
	self->refs--;
	near_refcount_put(&stress.refs);
}

static void try_get(struct stress_thread *self)
{
	if (near_refcount_try_get_live(&stress.refs))
		self->refs++;
	if (near_refcount_try_get(&stress.refs))
		self->refs++;
}

/* A counter of the thread's own counts the thread's adds, whatever was in its memory before. */
static void fresh(struct stress_thread *self)
{
	struct near_counter c;
	int64_t sum = 0;

	if (near_counter_init(&c))
		return;
	if (near_counter_read(&c) != 0)
		stress_tally(self)->wrong++;
	for (int i = 0; i < 20; i++) {
		near_counter_add(&c, i);
		sum += i;
	}
	if (near_counter_read(&c) != sum)
		stress_tally(self)->wrong++;
	near_counter_destroy(&c);
}

static void read_all(struct stress_thread *self)
{
	if (near_cpu() >= near_cpus() || near_slot() >= near_slots())
		stress_tally(self)->wrong++;
}

void stress_step(struct stress_thread *self)
{
	static void (*const steps[])(struct stress_thread *) = {
		count, count, add,        add_shared, record,  pop, pop,
		push,  push,  push_chain, steal,      get,     put, put,
		put,   fresh, try_get,    read_all,   pop_all,
	};

	steps[unit_random(&self->random) % LENGTH(steps)](self);
}

void stress_put_all(struct stress_thread *self)
{
	struct stress_item *item = __atomic_exchange_n(&self->reserve, NULL, __ATOMIC_ACQUIRE);

	if (item)
		stress_push(item);
	push_chain(self);
	while (self->refs)
		put(self);
}

void stress_signal(struct stress_thread *self)
{
	struct stress_tally *t = stress_tally(self);
	struct stress_item *item = __atomic_exchange_n(&self->reserve, NULL, __ATOMIC_ACQUIRE);

	if (item)
		stress_push(item);
	t->handler_started++;
	near_counter_add(&stress.count, 1);
	t->handler_done++;
	near_counter_add(&stress.reset, -3);
	t->handler_added -= 3;
	near_shared_counters_add(&stress.shared, 1, 1);
	t->handler_shared++;
	near_histogram_record(&stress.histogram, STRESS_VALUE);
	t->handler_recorded++;
	near_refcount_get(&stress.refs);
	near_refcount_put(&stress.refs);
	self->signals++;
}
