/* SPDX-License-Identifier: MIT */
/* The operations that a worker chooses from. */
#include "storm.h"

static void count(struct storm_thread *self)
{
	struct storm_tally *t = storm_tally(self);

	t->started++;
	near_counter_add(&storm.count, 1);
	t->done++;
}

static void add(struct storm_thread *self)
{
	int64_t n = (int64_t)(unit_random(&self->random) % 101) - 50;

	near_counter_add(&storm.reset, n);
	storm_tally(self)->added += n;
}

static void add_shared(struct storm_thread *self)
{
	near_shared_add(&storm.shared, 8, 3);
	storm_tally(self)->shared += 3;
}

/* Into an empty hand, or back. */
static void take(struct storm_thread *self, struct near_stack_node *node)
{
	struct storm_item *item = storm_item_of(node);
	struct storm_item *none = NULL;

	if (!node)
		return;
	if (!storm_claim(item, self->number)) {
		storm_tally(self)->wrong++;
		return;
	}
	for (unsigned i = 0; i < STORM_HANDS; i++)
		if (!self->hands[i]) {
			self->hands[i] = item;
			return;
		}
	/* For the handler of this thread. Release: it is to find the node as it was popped. */
	if (!__atomic_compare_exchange_n(&self->reserve, &none, item, false, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		storm_push(item);
}

static void pop(struct storm_thread *self)
{
	take(self, near_stack_pop(&storm.stack));
}

static void push(struct storm_thread *self)
{
	struct storm_item **hand = &self->hands[unit_random(&self->random) % STORM_HANDS];
	struct storm_item *item = *hand;

	*hand = NULL;
	if (item)
		storm_push(item);
}

/* All of a hand in one step. */
static void push_chain(struct storm_thread *self)
{
	struct near_stack_node *first = NULL, *last = NULL;

	for (unsigned i = 0; i < STORM_HANDS; i++) {
		struct storm_item *item = self->hands[i];

		if (!item)
			continue;
		self->hands[i] = NULL;
		__atomic_store_n(&item->owner, 0, __ATOMIC_RELAXED);
		item->link.next = first;
		first = &item->link;
		last = last ? last : first;
	}
	if (first)
		near_stack_push_chain(&storm.stack, first, last);
}

static void pop_all(struct storm_thread *self)
{
	struct near_stack_node *list = near_stack_pop_all(&storm.stack), *next;

	for (; list; list = next) {
		next = list->next;
		take(self, list);
	}
}

static void steal(struct storm_thread *self)
{
	if (unit_random(&self->random) % 16 == 0)
		take(self, near_stack_steal(&storm.stack));
}

static void get(struct storm_thread *self)
{
	near_refcount_get(&storm.refs);
	self->refs++;
}

static void put(struct storm_thread *self)
{
	if (!self->refs)
		return;
	self->refs--;
	near_refcount_put(&storm.refs);
}

static void try_get(struct storm_thread *self)
{
	if (near_refcount_try_get_live(&storm.refs))
		self->refs++;
	if (near_refcount_try_get(&storm.refs))
		self->refs++;
}

/* A counter of the thread's own counts the thread's adds, whatever was in its memory before. */
static void fresh(struct storm_thread *self)
{
	struct near_counter c;
	int64_t sum = 0;

	if (near_counter_init(&c))
		return;
	if (near_counter_read(&c) != 0)
		storm_tally(self)->wrong++;
	for (int i = 0; i < 20; i++) {
		near_counter_add(&c, i);
		sum += i;
	}
	if (near_counter_read(&c) != sum)
		storm_tally(self)->wrong++;
	near_counter_destroy(&c);
}

static void read_all(struct storm_thread *self)
{
	if (near_cpu() >= near_cpus() || near_slot() >= near_slots())
		storm_tally(self)->wrong++;
}

void storm_step(struct storm_thread *self)
{
	static void (*const steps[])(struct storm_thread *) = {
		count, count, add, add_shared, pop, pop,   push,    push,     push_chain,
		steal, get,   put, put,        put, fresh, try_get, read_all, pop_all,
	};

	steps[unit_random(&self->random) % LENGTH(steps)](self);
}

void storm_let_go(struct storm_thread *self)
{
	struct storm_item *item = __atomic_exchange_n(&self->reserve, NULL, __ATOMIC_ACQUIRE);

	if (item)
		storm_push(item);
	push_chain(self);
	while (self->refs)
		put(self);
}

void storm_signal(struct storm_thread *self)
{
	struct storm_tally *t = storm_tally(self);
	struct storm_item *item = __atomic_exchange_n(&self->reserve, NULL, __ATOMIC_ACQUIRE);

	if (item)
		storm_push(item);
	t->handler_started++;
	near_counter_add(&storm.count, 1);
	t->handler_done++;
	near_counter_add(&storm.reset, -3);
	t->handler_added -= 3;
	near_shared_add(&storm.shared, 8, 1);
	t->handler_shared++;
	near_refcount_get(&storm.refs);
	near_refcount_put(&storm.refs);
	self->signals++;
}
