/* SPDX-License-Identifier: MIT */
/* The slow paths of near_stack: fallback lists, taking other slots' lists. gate.h has the
 * argument. */
#define _GNU_SOURCE
#include <nearcpu/stack.h>

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/tsan.h"
#include "percpu/gate.h"
#include "percpu/percpu.h"

#define STEAL_INTERVAL_NS 1000000u
/* Of a stolen list the thief keeps half, at most this many; the rest goes to a fallback list, where
 * the next pop of any thread, the victim too, finds it without another interrupt. */
#define STEAL_KEEP 64
#define BATCH 256 /* slots that are closed together: 4 KiB of stack */

typedef struct near_stack_node node;

struct copy {
	node *head;
	uint32_t gate __attribute__((aligned(8)));
};
_Static_assert(offsetof(struct copy, gate) == 8, "the sequences in stack.h");

int near_stack_init(struct near_stack *s)
{
	void *p;
	int r = near_percpu_alloc(sizeof(struct copy), sizeof(struct copy), &p);

	if (r)
		return r;
	memset(s, 0, sizeof(*s));
	s->p = p;
	return 0;
}

void near_stack_destroy(struct near_stack *s)
{
	near_percpu_free(s->p);
	s->p = NULL;
}

static struct copy *copy_of(const struct near_stack *s, unsigned slot)
{
	return near_percpu_at(s->p, slot);
}

/* For ThreadSanitizer, which does not see the fences: what is taken in C code was pushed before. */
static node *list_taken(node *list)
{
	for (node *n = list; NEAR__TSAN_HERE && n; n = n->next)
		NEAR__TSAN_ACQUIRE(n);
	return list;
}

static node *tail_of(node *list)
{
	while (list->next)
		list = list->next;
	return list;
}

/* Either may be NULL. `first` alone is walked, and only if `second` is not. */
static node *list_concatenate(node *first, node *second)
{
	if (!first)
		return second;
	if (second)
		tail_of(first)->next = second;
	return first;
}

/* Opens the local slot for this stack. False: take the fallback. Opening a slot that this thread
 * has just left is harmless. */
static bool open_own(const struct near_stack *s)
{
	uint32_t slot = near__slot_open(s->p);

	return slot != NEAR__NO_SLOT && near__gate_open_first(&copy_of(s, slot)->gate);
}

/* Fallback lists. A push is a CAS. A thread that takes nodes off holds the slot's lock, so that a
 * head cannot leave and come back while a pop is between loading it and the CAS. */

/* Release pairs with the acquire of the thread that takes the list: the nodes are seen as they were
 * pushed. */
static void push_fallback(struct near_stack *s, node *first, node *last)
{
	struct copy *c = near__fallback(s->p);
	node *head = __atomic_load_n(&c->head, __ATOMIC_RELAXED);

	do {
		last->next = head;
		NEAR__WATCHED_RELEASE(s->p);
	} while (!__atomic_compare_exchange_n(&c->head, &head, first, true, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
}

static node *take_fallback_list(struct near_stack *s, unsigned slot)
{
	struct copy *c = copy_of(s, slot);
	struct near_lock *lock = near__pop_lock_of(s->p, c);
	node *list;

	if (!__atomic_load_n(&c->head, __ATOMIC_RELAXED))
		return NULL;
	near_lock_lock(lock);
	list = __atomic_exchange_n(&c->head, NULL, __ATOMIC_ACQUIRE);
	near_lock_unlock(lock);
	NEAR__WATCHED_ACQUIRE(s->p);
	return list_taken(list);
}

static node *pop_fallback_node(struct near_stack *s, unsigned slot)
{
	struct copy *c = copy_of(s, slot);
	struct near_lock *lock = near__pop_lock_of(s->p, c);
	node *head;

	if (!__atomic_load_n(&c->head, __ATOMIC_RELAXED))
		return NULL;
	near_lock_lock(lock);
	head = __atomic_load_n(&c->head, __ATOMIC_ACQUIRE);
	do
		NEAR__WATCHED_ACQUIRE(s->p); /* before the node is read */
	while (head && !__atomic_compare_exchange_n(&c->head, &head, head->next, true,
						    __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
	near_lock_unlock(lock);
	return head;
}

/* Puts a list that is this thread's alone where pops find it: without walking it to its end, which
 * may be far away, if the local slot or a fallback list is empty. */
static void put_fallback(struct near_stack *s, node *list)
{
	unsigned slot = near__first_fallback();

	NEAR__WATCHED_RELEASE(s->p);
	for (; near_percpu_next(s->p, &slot); slot++) {
		node *none = NULL;

		if (__atomic_compare_exchange_n(&copy_of(s, slot)->head, &none, list, false,
						__ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return;
	}
	push_fallback(s, list, tail_of(list));
}

static void stack_put(struct near_stack *s, node *list)
{
	for (node *n = list, *next; NEAR__TSAN_HERE && n; n = next) {
		next = n->next;
		NEAR__TSAN_RELEASE(n);
	}
	if (NEAR__TRY(list && open_own(s), near__stack_try_put(s->p, list)))
		return;
	if (list)
		put_fallback(s, list);
}

/* Searches every fallback list in use, that of this CPU first. A live thread takes a whole list
 * and puts the rest into its slot. */
static node *pop_fallback(struct near_stack *s)
{
	unsigned near = near__first_fallback() + near__hint();
	bool live = near__self.state == NEAR__THREAD_LIVE;
	node *list = NULL;

	for (int pass = 0; pass < 2 && !list; pass++) {
		unsigned slot = pass ? near__first_fallback() : near;

		for (; !list && near_percpu_next(s->p, &slot); slot++) {
			list = live ? take_fallback_list(s, slot) : pop_fallback_node(s, slot);
			if (!pass)
				break;
		}
	}
	if (live && list)
		stack_put(s, list->next);
	return list;
}

void near__stack_push_slow(struct near_stack *s, node *first, node *last)
{
	if (NEAR__TRY(open_own(s), near__stack_try_push(s->p, first, last)))
		return;
	push_fallback(s, first, last);
}

/* Takes the lists of up to BATCH live slots from *slot to `end` by one pair of fences, and advances
 * *slot past them. Requires near__gates_lock, so no other thread closes or opens these gates. The
 * lists are walked when the gates are open again. */
static node *take_batch(struct near_stack *s, unsigned *slot, unsigned end)
{
	struct copy *closed[BATCH];
	node *lists[BATCH], *all = NULL;
	unsigned n = 0;

	for (; n < BATCH && near_percpu_next(s->p, slot) && *slot < end; ++*slot)
		if (near__gate_close(&copy_of(s, *slot)->gate))
			closed[n++] = copy_of(s, *slot);
	if (n)
		near__fence();
	for (unsigned i = 0; i < n; i++) {
		/* Relaxed: the fences order them. Atomic for choose_victim, which loads it at
		 * any time. */
		lists[i] = __atomic_load_n(&closed[i]->head, __ATOMIC_RELAXED);
		__atomic_store_n(&closed[i]->head, NULL, __ATOMIC_RELAXED);
	}
	if (n)
		near__fence();
	for (unsigned i = 0; i < n; i++)
		near__gate_open(&closed[i]->gate);
	for (unsigned i = 0; i < n; i++)
		all = list_concatenate(list_taken(lists[i]), all);
	return all;
}

static node *take_slots(struct near_stack *s, unsigned first, unsigned end)
{
	node *all = NULL;

	while (near_percpu_next(s->p, &first) && first < end)
		all = list_concatenate(take_batch(s, &first, end), all);
	return all;
}

/* The first live slot whose list seems not empty, from `from` on and around the end; near_slots()
 * if there is none. The load is a hint: the fence comes later. */
static unsigned choose_victim(struct near_stack *s, unsigned from)
{
	unsigned slots = near__process.slots;

	for (int pass = 0; pass < 2; pass++) {
		unsigned slot = pass ? 0 : from, end = pass ? from : slots;

		for (; near_percpu_next(s->p, &slot) && slot < end; slot++)
			if (__atomic_load_n(&copy_of(s, slot)->head, __ATOMIC_RELAXED))
				return slot;
	}
	return slots;
}

/* Returns the first node of a stolen list and shares the others out. */
static node *share_out(struct near_stack *s, node *list)
{
	node *cut = list, *ahead = list->next;

	for (int i = 0; i < STEAL_KEEP && ahead && ahead->next; i++) {
		cut = cut->next;
		ahead = ahead->next->next;
	}
	ahead = cut->next;
	cut->next = NULL;
	if (ahead)
		put_fallback(s, ahead);
	stack_put(s, list->next);
	return list;
}

static node *steal_locked(struct near_stack *s)
{
	unsigned own = near__thread_live() ? near__index_now() : 0;
	unsigned slots = near__process.slots;
	unsigned victim = choose_victim(s, own < slots ? own : 0);

	return victim < slots ? take_slots(s, victim, victim + 1) : NULL;
}

/* A victim may have emptied its slot since that was loaded: then all slots are searched. */
node *near_stack_steal(struct near_stack *s)
{
	node *list = pop_fallback(s);

	if (list)
		return list;
	near__gates_lock();
	list = steal_locked(s);
	if (!list)
		list = take_slots(s, 0, near__process.slots);
	near__gates_unlock();
	return list ? share_out(s, list) : NULL;
}

/* Relaxed: the time is a hint, and orders nothing. It is checked before all slots are searched. */
static bool steal_is_due(struct near_stack *s, uint64_t *last)
{
	*last = __atomic_load_n(&s->stolen_at, __ATOMIC_RELAXED);
	return near__clock_ns(CLOCK_MONOTONIC) - *last >= STEAL_INTERVAL_NS;
}

/* True in one thread for each interval. */
static bool claim_steal(struct near_stack *s, uint64_t last)
{
	return __atomic_compare_exchange_n(&s->stolen_at, &last, near__clock_ns(CLOCK_MONOTONIC),
					   false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

node *near__stack_pop_slow(struct near_stack *s)
{
	uint64_t last;
	node *list;
	int i;

	for (i = 0; i < NEAR_SEQ_TRIES && open_own(s); i++) {
		int tried = near__stack_try_pop(s->p, &list);

		if (tried == NEAR_SEQ_COMMITTED)
			return list;
		if (tried == NEAR__EMPTY)
			break;
	}
	/* Aborted each time (a debugger steps through): the local slot may hold nodes, and a steal
	 * can take them. */
	if (i == NEAR_SEQ_TRIES)
		return near_stack_steal(s);
	/* Here the local slot is empty, or closed by a thread that takes its list. */
	list = pop_fallback(s);
	if (list || !steal_is_due(s, &last) || choose_victim(s, 0) == near__process.slots ||
	    !claim_steal(s, last) || !near__gates_try_lock())
		return list;
	list = steal_locked(s);
	near__gates_unlock();
	return list ? share_out(s, list) : NULL;
}

node *near_stack_pop_all(struct near_stack *s)
{
	node *list = NULL;

	NEAR__TRY_WHILE(open_own(s)) {
		int tried = near__stack_try_pop_all(s->p, &list);

		if (tried == NEAR_SEQ_COMMITTED)
			return list_taken(list);
		if (tried == NEAR__EMPTY)
			break;
	}
	for (unsigned slot = near__first_fallback(); !list && near_percpu_next(s->p, &slot); slot++)
		list = take_fallback_list(s, slot);
	return list;
}

node *near_stack_drain(struct near_stack *s)
{
	node *all;

	near__gates_lock();
	all = take_slots(s, 0, near__process.slots);
	near__gates_unlock();
	for (unsigned slot = near__first_fallback(); near_percpu_next(s->p, &slot); slot++)
		all = list_concatenate(take_fallback_list(s, slot), all);
	return all;
}
