/* SPDX-License-Identifier: MIT */
/* Nodes by number, for a stack in one thread. */
#ifndef NEARCPU_TESTS_NODES_H
#define NEARCPU_TESTS_NODES_H

#include <nearcpu/stack.h>

#include "fences.h"
#include "slots.h"

#define NODES 1000
static struct near_stack_node nodes[NODES];
static unsigned seen[NODES];

static inline struct near_stack made(void)
{
	struct near_stack s;

	memset(&s, 0x5a, sizeof(s));
	errno = UNIT_ERRNO;
	assert_int_equal(near_stack_init(&s), 0);
	assert_int_equal(errno, UNIT_ERRNO);
	memset(seen, 0, sizeof(seen));
	fences_made();
	return s;
}

static inline void done(struct near_stack *s)
{
	slots_leave();
	near_stack_destroy(s);
	assert_null(s->p);
}

static inline bool live(void)
{
	return near__process.usable;
}

static inline void push(struct near_stack *s, unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		near_stack_push(s, &nodes[i]);
}

/* Counts the nodes of a list; each must be one that was not seen yet. */
static inline unsigned note_list(const struct near_stack_node *list)
{
	unsigned n = 0;

	for (; list; list = list->next, n++) {
		assert_true(list >= nodes && list < nodes + NODES);
		assert_int_equal(seen[list - nodes]++, 0);
	}
	return n;
}

static inline void expect_pops(struct near_stack *s, unsigned from, int step, unsigned n)
{
	for (unsigned i = 0; i < n; i++, from += (unsigned)step)
		assert_ptr_equal(near_stack_pop(s), &nodes[from]);
}

#endif
