/* SPDX-License-Identifier: MIT */
/* near_stack: an intrusive stack of free objects, one list per slot.
 *
 * Cost:      push and pop about 1 ns each, no atomic instruction. A pop that finds the local slot
 *            empty searches the fallback lists, then, at most once a millisecond for each stack,
 *            takes another slot's list: two membarriers, which interrupt all CPUs that run this
 *            process. drain and steal make two for every 256 slots in use.
 * Memory:    16 bytes per slot in use, and the handle. The link is the node's own.
 * Safety:    any thread. push: signal handlers too. Fork: the child keeps its copy of every list.
 *            A node may be freed or unmapped once it was popped. errno is left alone.
 * Order:     a pop sees what was written to the node before its push.
 * Fallback:  as many shared lists as CPUs; push by CAS, pop with a lock.
 *
 * A stack holds what each CPU frees and allocates; it is not a way to hand objects to other
 * threads: pop may return NULL while other slots hold nodes. steal searches them all, but no list
 * that another thread's steal or pop moves at the same time.
 *
 * Concurrent with:   push  pop  pop_all  steal  drain  destroy
 *            each     yes  yes    yes     yes    yes     no
 *
 *     struct item { struct near_stack_node link; int payload; };
 *     struct near_stack free_items;
 *     near_stack_init(&free_items);
 *     near_stack_push(&free_items, &item->link);
 *     struct near_stack_node *n = near_stack_pop(&free_items);
 *
 * Source: the per-CPU free list of rseq tutorials (librseq's cpu-local list); differs in that empty
 * slots are refilled from others, and all lists can be taken while threads push and pop.
 */
#ifndef NEARCPU_STACK_H
#define NEARCPU_STACK_H

#include <nearcpu/percpu.h>

NEAR__BEGIN_DECLS

/* Part of the caller's object. Free to use while the object is not on a stack. */
struct near_stack_node {
	struct near_stack_node *next;
};

/* Private. The copy of a slot is its head, and at 8 its gate (4 bytes); of a fallback slot its
 * head. */
struct near_stack {
	void *p;
	uint64_t stolen_at; /* CLOCK_MONOTONIC in ns of the last steal by a pop */
};

/* Returns 0 or -ENOMEM. */
NEAR_API int near_stack_init(struct near_stack *s);

/* Frees what the stack itself holds, not the nodes: drain it first. Requires that no operation
 * runs. */
NEAR_API void near_stack_destroy(struct near_stack *s);

enum { NEAR__EMPTY = NEAR_SEQ_COMMITTED + 1 }; /* of pop and pop_all: no node */

NEAR_API void near__stack_push_slow(struct near_stack *s, struct near_stack_node *first,
				    struct near_stack_node *last);
NEAR_API struct near_stack_node *near__stack_pop_slow(struct near_stack *s);

/* last->next = head; head = first commits. `last` is private to the caller until then, so writing
 * it again is harmless. The thread that pops it runs on this slot later, or took the slot by gate
 * and fence: both order the link before the head. */
NEAR__INLINE bool near__stack_try_push(void *p, struct near_stack_node *first,
				       struct near_stack_node *last)
{
	uint64_t at, head;

	return NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, p)
		NEAR_BRANCH_MEM4_NE(at, 8, 1, near_failed)
		NEAR_LOAD8(head, at, 0)
		NEAR_STORE8(head, last, 0)
		NEAR_COMMIT8(first, at, 0),
		NEAR_OUT(at, head), NEAR_IN(p, first, last));
}

/* head = list commits, if head is NULL: a list whose end is not known. */
NEAR__INLINE bool near__stack_try_put(void *p, struct near_stack_node *list)
{
	uint64_t at, head;

	return NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, p)
		NEAR_BRANCH_MEM4_NE(at, 8, 1, near_failed)
		NEAR_LOAD8(head, at, 0)
		NEAR_BRANCH_NONZERO(head, near_failed)
		NEAR_COMMIT8(list, at, 0),
		NEAR_OUT(at, head), NEAR_IN(p, list));
}

/* node = head; head = node->next commits. node->next can be read: no other thread takes the node
 * off this list while the sequence runs, since that aborts it. */
NEAR__INLINE int near__stack_try_pop(void *p, struct near_stack_node **node)
{
	struct near_stack_node *head;
	uint64_t at, next;
	int result = NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, p)
		NEAR_BRANCH_MEM4_NE(at, 8, 1, near_failed)
		NEAR_LOAD8(head, at, 0)
		NEAR_BRANCH_ZERO(head, NEAR__EMPTY)
		NEAR_LOAD8(next, head, 0)
		NEAR_COMMIT8(next, at, 0),
		NEAR_OUT(at, head, next), NEAR_IN(p), NEAR__EMPTY);

	if (result == NEAR_SEQ_COMMITTED)
		*node = head;
	return result;
}

/* list = head; head = NULL commits. */
NEAR__INLINE int near__stack_try_pop_all(void *p, struct near_stack_node **list)
{
	struct near_stack_node *head;
	uint64_t at;
	int result = NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, p)
		NEAR_BRANCH_MEM4_NE(at, 8, 1, near_failed)
		NEAR_LOAD8(head, at, 0)
		NEAR_BRANCH_ZERO(head, NEAR__EMPTY)
		NEAR_COMMIT8(none, at, 0),
		NEAR_OUT(at, head), NEAR_IN(p, (none, 0)), NEAR__EMPTY);

	if (result == NEAR_SEQ_COMMITTED)
		*list = head;
	return result;
}

/* Pushes a node that is on no stack. */
NEAR_INLINE void near_stack_push(struct near_stack *s, struct near_stack_node *node)
{
	NEAR__CHECK_READY(s->p, s);
	NEAR__TSAN_RELEASE(node);
	if (__builtin_expect(!near__stack_try_push(s->p, node, node), 0))
		near__stack_push_slow(s, node, node);
}

/* Pushes a chain first ... last, linked by next, in one step; pops return first first. */
NEAR_INLINE void near_stack_push_chain(struct near_stack *s, struct near_stack_node *first,
				       struct near_stack_node *last)
{
	NEAR__CHECK_READY(s->p, s);
	for (struct near_stack_node *n = first, *next; NEAR__TSAN && n != last; n = next) {
		next = n->next;
		NEAR__TSAN_RELEASE(n);
	}
	NEAR__TSAN_RELEASE(last);
	if (__builtin_expect(!near__stack_try_push(s->p, first, last), 0))
		near__stack_push_slow(s, first, last);
}

/* Pops a node. NULL: the local slot and the fallback lists are empty, and so was the slot that this
 * pop could take, or none was due. */
NEAR_INLINE struct near_stack_node *near_stack_pop(struct near_stack *s)
{
	struct near_stack_node *node;

	NEAR__CHECK_READY(s->p, s);
	if (__builtin_expect(near__stack_try_pop(s->p, &node) != NEAR_SEQ_COMMITTED, 0))
		node = near__stack_pop_slow(s);
	if (node)
		NEAR__TSAN_ACQUIRE(node);
	return node;
}

/* Takes the whole list of the local slot, or, if that is empty, a fallback list: linked by next,
 * NULL if both are empty. */
NEAR_API struct near_stack_node *near_stack_pop_all(struct near_stack *s);

/* Pops a node, taking other slots' lists if it must. NULL: it found each list empty, at a moment of
 * its own. The stack need not be: what another thread's steal or pop has taken from a slot is in no
 * list until it is shared out. This does not wait for it: that thread may not run for long. */
NEAR_API struct near_stack_node *near_stack_steal(struct near_stack *s);

/* Takes the lists of all slots, as steal finds them: linked by next, NULL if all are empty. */
NEAR_API struct near_stack_node *near_stack_drain(struct near_stack *s);

NEAR__END_DECLS

#endif
