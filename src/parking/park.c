/* SPDX-License-Identifier: MIT */
/* near_park and near_unpark: the parking lot with callbacks. */
#include <nearcpu/park.h>

#include <errno.h>

#include "base/valgrind.h"
#include "parking/lot.h"

/* Programs change the word that they park on by atomics, which valgrind's tools report as races. */
#define WORD 4

static void call_left(struct near__waiter *w, bool others)
{
	struct near_park *p = w->arg;

	p->left(p->arg, w->address, others);
}

int near_park(const void *address, struct near_park *p)
{
	struct near__waiter w = {
		.address = address,
		.space = NEAR__SPACE_PARK,
		.mark = p->mark,
		.left = p->left ? call_left : NULL,
		.arg = p,
	};
	struct near__bucket *b;
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, p->clock, p->deadline, p->cancel);
	bool go_on;

	if (r)
		return r;
	near__valgrind_ignore(address, WORD);
	b = near__lot_lock(address);
	go_on = !p->validate || p->validate(p->arg);
	if (go_on)
		near__lot_append(b, &w);
	near__lot_unlock(b);
	if (!go_on)
		return -EAGAIN;
	if (p->before_sleep)
		p->before_sleep(p->arg);
	r = near__lot_sleep(&w, &timeout);
	if (!r)
		p->token = w.token;
	return r;
}

/* Under the locks: takes and moves waiters; `more` if some are left. */
static void sort_out(struct near__bucket *locked[2], const void *address,
		     const struct near_unpark *u, size_t requeue, struct near__taken *t,
		     struct near_unparked *found)
{
	struct near__waiter *w = near__lot_first(locked[0], address, NEAR__SPACE_PARK), *next;

	for (; w; w = next) {
		enum near_park_choice choice = NEAR_PARK_CHOOSE;

		next = near__lot_next(w);
		if (found->woken == u->wake && found->requeued == requeue)
			choice = NEAR_PARK_STOP;
		else if (u->choose)
			choice = u->choose(u->arg, w->mark);
		found->more |= choice != NEAR_PARK_CHOOSE;
		if (choice == NEAR_PARK_STOP)
			return;
		if (choice == NEAR_PARK_CHOOSE && found->woken < u->wake) {
			near__lot_take_into(t, locked[0], w);
			found->woken++;
		} else if (choice == NEAR_PARK_CHOOSE) {
			near__lot_move(locked[0], locked[1], w, u->to, NEAR__SPACE_PARK);
			found->requeued++;
		}
	}
}

int near_unpark_with(const void *address, const struct near_unpark *u, struct near_unparked *out)
{
	struct near_unparked found = {0};
	struct near__taken t = {.first = NULL, .end = &t.first};
	struct near__bucket *locked[2];
	uintptr_t token = u->token;
	/* A waiter that is moved within its queue would be found again and again. */
	size_t requeue = u->to == address ? 0 : u->requeue;
	bool go_on;

	near__lot_lock_both(address, requeue ? u->to : address, locked);
	near__valgrind_ignore(address, WORD);
	go_on = !u->validate || u->validate(u->arg);
	if (go_on)
		sort_out(locked, address, u, requeue, &t, &found);
	if (go_on && u->decide)
		token = u->decide(u->arg, &found);
	for (struct near__waiter *w = t.first; w; w = w->next)
		w->token = token;
	near__lot_unlock_both(locked);
	found.awake = (unsigned)near__lot_wake_all(t.first);
	if (out)
		*out = found;
	return go_on ? 0 : -EAGAIN;
}

size_t near_unpark(const void *address, size_t n, uintptr_t token)
{
	struct near_unpark u = {.wake = n, .token = token};
	struct near_unparked found;

	near_unpark_with(address, &u, &found);
	return found.woken;
}
