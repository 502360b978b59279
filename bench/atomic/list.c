/* SPDX-License-Identifier: MIT */
/* A list with one head, after the benchmark of Jens Gustedt's stdatomic (2015): a thread allocates
 * an element and inserts it, then removes one and frees it, over and over. The head is a pointer
 * with a tag, 16 bytes, or with a tag and a count, 24 bytes, and changes by load and
 * compare-exchange; a removal fails if the tag shows that another one was faster.
 *
 * Each operation calls malloc or free. A removal reads the link of an element that another thread
 * may remove at the same time, so links must not be in freed memory: to read it is undefined, and
 * to delay the free until no thread reads it would measure epochs or hazard pointers as well. A
 * link is in a node, and nodes are never freed: an insertion gives the thread's node to the list, a
 * removal gets one from it. So each node belongs to a thread or to the list, and each thread has
 * one when it needs one. A removal always finds an element, as more were inserted. */
#include "atomic/cases.h"

#include <stdlib.h>

struct element;

/* Other threads may read `next` while its owner writes it; then the tag makes them fail. */
struct node {
	struct node *next;
	struct element *element; /* only its owner uses this */
} __attribute__((aligned(64)));

struct element {
	struct node *node;
	uint64_t number;
};

struct head {
	struct node *first;
	uint64_t tag, count;
};

static struct {
	struct head *head;
	struct member {
		struct node *node;          /* that it owns */
		uint64_t inserted, removed; /* sums of the numbers of elements */
		uint64_t operations;
		bool wrong;
	} __attribute__((aligned(LINE))) * members;
} list;

INLINE void change(enum kind kind, struct head *to, const struct head *old, struct node *first,
		   int more)
{
	to->first = first;
	to->tag = old->tag + 1;
	if (kind == GENERIC_24)
		to->count = old->count + (uint64_t)(int64_t)more;
}

INLINE void insert(struct member *me, enum kind kind)
{
	struct element *e = malloc(sizeof(*e));
	struct node *node = me->node;
	struct head old, to;

	if (!e)
		window_give_up("error", "not enough memory");
	*e = (struct element){node, me->operations};
	me->inserted += e->number;
	node->element = e;
	call_load(kind, 0, list.head, &old);
	do {
		/* Relaxed: a thread that reads it found the node in a head, and the exchange that
		 * stored that follows. */
		__atomic_store_n(&node->next, old.first, __ATOMIC_RELAXED);
		change(kind, &to, &old, node, 1);
	} while (!call_cas(kind, 0, list.head, &old, &to));
	me->operations++;
}

INLINE void take_away(struct member *me, enum kind kind)
{
	struct head old, to;
	struct element *e;

	call_load(kind, 0, list.head, &old);
	do {
		if (!old.first) {
			me->wrong = true;
			return;
		}
		change(kind, &to, &old, __atomic_load_n(&old.first->next, __ATOMIC_RELAXED), -1);
	} while (!call_cas(kind, 0, list.head, &old, &to));
	me->node = old.first;
	me->operations++;
	e = old.first->element;
	old.first->element = NULL;
	if (!e || e->node != old.first) { /* another thread removed it, too */
		me->wrong = true;
		return;
	}
	me->removed += e->number;
	free(e);
}

INLINE void loop(struct window_thread *t, enum kind kind, bool timed)
{
	struct member me = list.members[t->index];

	while (!window_is_over(t->window) && !me.wrong) {
		uint64_t began = timed ? window_ns() : 0;

		insert(&me, kind);
		if (timed) {
			window_note(began);
			began = window_ns();
		}
		take_away(&me, kind);
		if (timed)
			window_note(began);
	}
	list.members[t->index] = me;
	t->done = me.operations;
}

static void work_16(struct window_thread *t) { loop(t, SIZED_16, false); }
static void timed_16(struct window_thread *t) { loop(t, SIZED_16, true); }
static void work_24(struct window_thread *t) { loop(t, GENERIC_24, false); }
static void timed_24(struct window_thread *t) { loop(t, GENERIC_24, true); }

struct loops list_loops(enum kind kind)
{
	if (kind == SIZED_16)
		return (struct loops){work_16, timed_16};
	if (kind == GENERIC_24)
		return (struct loops){work_24, timed_24};
	return (struct loops){NULL, NULL};
}

void list_begin(void *head, unsigned threads)
{
	struct node *nodes = aligned_alloc(64, threads * sizeof(*nodes));

	list.head = head;
	list.members = aligned_alloc(LINE, threads * sizeof(*list.members));
	if (!nodes || !list.members)
		window_give_up("error", "not enough memory");
	memset(list.members, 0, threads * sizeof(*list.members));
	for (unsigned i = 0; i < threads; i++)
		list.members[i].node = &nodes[i];
}

/* The list is empty, each change counted by the tag, and each element removed once. */
const char *list_check(unsigned threads)
{
	uint64_t operations = 0, left = 0;
	bool wrong = false;

	for (unsigned i = 0; i < threads; i++) {
		operations += list.members[i].operations;
		left += list.members[i].inserted - list.members[i].removed;
		wrong |= list.members[i].wrong;
	}
	wrong |= left || list.head->first || list.head->tag != operations;
	wrong |= selected.size == sizeof(*list.head) && list.head->count;
	return wrong ? "wrong result: the list lost an element" : NULL;
}
