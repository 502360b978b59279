/* SPDX-License-Identifier: MIT */
/* near_rcu_list: a doubly linked list that is read while it is changed.
 *
 * Nodes are members of the user's objects. Readers walk forward within a section of near_rcu; they
 * write nothing and wait for nothing. The user serializes changes, by a lock or by one thread that
 * makes them, and frees what was removed or replaced after a grace period.
 *
 * Cost:      a step of a reader is one load; a change is a few stores; count is a load.
 * Memory:    two words for each node; the list has three.
 * Safety:    first, next, count: any thread, signal handlers. All else: the updater.
 * Order:     an updater's stores to an object before its insertion are seen by readers that find
 *            it.
 * Misuse:    a node that is removed or replaced again stops the program with one line on standard
 *            error, unless its memory was reused.
 * Fork:      the child has a copy. A change by another thread at the fork is half done in it: hold
 *            the lock that serializes changes while the process forks.
 * Fallback:  needs no rseq; the same code everywhere.
 *
 * A walk finds each node that is in the list from its begin to its end, once. A node that is
 * inserted or removed during the walk may be found or not. From a removed node a walk continues
 * with those that followed it; so a node must not be inserted again before a grace period has
 * ended.
 *
 * Concurrent with:    first, next, count   changes   grace period
 *     first, next ...         yes            yes         yes
 *     changes                 yes            no          yes
 *
 *     struct route { struct near_rcu_list_node node; ... };
 *     static struct near_rcu_list routes;               // zero is an empty list
 *
 *     near_rcu_list_insert_last(&routes, &r->node);       // with the updater's lock
 *
 *     near_rcu_token t = near_rcu_enter(&rcu);          // readers
 *     for (struct near_rcu_list_node *n = near_rcu_list_first(&routes); n;
 *          n = near_rcu_list_next(n))
 *             ...
 *     near_rcu_exit(&rcu, t);
 *
 * Source: the kernel's rculist. Differs in that the ends are null, so that zero is an empty list,
 * and in that it is counted.
 */
#ifndef NEARCPU_RCU_LIST_H
#define NEARCPU_RCU_LIST_H

#include <nearcpu/rcu.h>

NEAR__BEGIN_DECLS

/* Private, as is the list: `next` is loaded by readers, all else belongs to the updater. */
struct near_rcu_list_node {
	struct near_rcu_list_node *next;
	struct near_rcu_list_node *prev; /* of a removed one: itself */
};

struct near_rcu_list {
	struct near_rcu_list_node *first, *last;
	size_t count;
};

NEAR_API void near__rcu_list_misused(void) __attribute__((noreturn));

/* The first node, or NULL. */
NEAR_INLINE struct near_rcu_list_node *near_rcu_list_first(const struct near_rcu_list *l)
{
	return near_rcu_dereference(l->first);
}

/* The one that follows n, or NULL. */
NEAR_INLINE struct near_rcu_list_node *near_rcu_list_next(const struct near_rcu_list_node *n)
{
	return near_rcu_dereference(n->next);
}

/* How many there are; exact for the updater, else at the moment of the load. */
NEAR_INLINE size_t near_rcu_list_count(const struct near_rcu_list *l)
{
	return __atomic_load_n(&l->count, __ATOMIC_RELAXED);
}

/* Between two neighbours, of which either may be NULL. The release publishes n; the updater alone
 * loads `prev`. */
NEAR__INLINE void near__rcu_list_link(struct near_rcu_list *l, struct near_rcu_list_node *prev,
				      struct near_rcu_list_node *n, struct near_rcu_list_node *next)
{
	n->prev = prev;
	/* Relaxed: published below. A reader may be at n if it replaces itself; see replace. */
	__atomic_store_n(&n->next, next, __ATOMIC_RELAXED);
	if (next)
		next->prev = n;
	else
		l->last = n;
	near_rcu_assign(*(prev ? &prev->next : &l->first), n);
}

/* Stores relaxed: a count orders nothing. */
NEAR__INLINE void near__rcu_list_add(struct near_rcu_list *l, size_t n)
{
	__atomic_store_n(&l->count, l->count + n, __ATOMIC_RELAXED);
}

/* Inserts n behind `at`, or as the first one if `at` is NULL. */
NEAR_INLINE void near_rcu_list_insert_after(struct near_rcu_list *l, struct near_rcu_list_node *at,
					    struct near_rcu_list_node *n)
{
	near__rcu_list_link(l, at, n, at ? at->next : l->first);
	near__rcu_list_add(l, 1);
}

/* Inserts n ahead of `at`, or as the last one if `at` is NULL. */
NEAR_INLINE void near_rcu_list_insert_before(struct near_rcu_list *l, struct near_rcu_list_node *at,
					     struct near_rcu_list_node *n)
{
	near__rcu_list_link(l, at ? at->prev : l->last, n, at);
	near__rcu_list_add(l, 1);
}

NEAR_INLINE void near_rcu_list_insert_first(struct near_rcu_list *l, struct near_rcu_list_node *n)
{
	near_rcu_list_insert_after(l, NULL, n);
}

NEAR_INLINE void near_rcu_list_insert_last(struct near_rcu_list *l, struct near_rcu_list_node *n)
{
	near_rcu_list_insert_before(l, NULL, n);
}

/* n takes the place of `old`, at once: a walk finds one of them. */
NEAR_INLINE void near_rcu_list_replace(struct near_rcu_list *l, struct near_rcu_list_node *old,
				       struct near_rcu_list_node *n)
{
	struct near_rcu_list_node *prev = old->prev;

	if (__builtin_expect(prev == old, 0))
		near__rcu_list_misused();
	/* Ahead of the link: n may be `old`, which stays then. */
	old->prev = old;
	near__rcu_list_link(l, prev, n, old->next);
}

/* Takes n out. Its memory belongs to readers until a grace period has ended. */
NEAR_INLINE void near_rcu_list_remove(struct near_rcu_list *l, struct near_rcu_list_node *n)
{
	if (__builtin_expect(n->prev == n, 0))
		near__rcu_list_misused();
	if (n->next)
		n->next->prev = n->prev;
	else
		l->last = n->prev;
	/* Release: what n->next points to was published before, by another change perhaps. */
	near_rcu_assign(*(n->prev ? &n->prev->next : &l->first), n->next);
	n->prev = n;
	near__rcu_list_add(l, (size_t)-1);
}

NEAR__END_DECLS

#endif
