/* SPDX-License-Identifier: MIT */
/* inline: at -O2 none of the operations is left as a function of its own. */
#include <nearcpu/counter.h>
#include <nearcpu/refcount.h>
#include <nearcpu/shared_counters.h>
#include <nearcpu/stack.h>

void *use(struct near_counter *c, struct near_refcount *r, struct near_shared_counters *h,
	  struct near_stack *s, struct near_stack_node *n);

void *use(struct near_counter *c, struct near_refcount *r, struct near_shared_counters *h,
	  struct near_stack *s, struct near_stack_node *n)
{
	near_counter_add(c, 1);
	near_counter_add(c, 2);
	near_shared_counters_add(h, 0, 1);
	near_shared_counters_add(h, 1, 1);
	near_refcount_get(r);
	near_refcount_get(r);
	if (near_refcount_try_get(r) && near_refcount_try_get_live(r))
		near_refcount_put(r);
	near_refcount_put(r);
	near_stack_push(s, n);
	near_stack_push(s, near_stack_pop(s));
	near_stack_push_chain(s, n, n);
	return near_stack_pop(s);
}
