/* SPDX-License-Identifier: MIT */
/* The operations of near_rcu. A version is a number; its updater marks it as freed after a grace
 * period, and a section that finds it marked has failed. Calls wake no worker: rcu_batch runs their
 * callbacks. */
#include "objects.h"

#include <stdlib.h>
#include <string.h>

#include "percpu/percpu.h"
#include "rcu/rcu.h"

#define R OBJ.rcu

__attribute__((noinline)) static near_rcu_token enter(void)
{
	return near_rcu_enter(&R.domain);
}

__attribute__((noinline)) static void leave(near_rcu_token t)
{
	near_rcu_exit(&R.domain, t);
}

static void read_inside(void)
{
	unsigned version = near_rcu_dereference(R.version);

	R.failed |= __atomic_load_n(&R.freed[version], __ATOMIC_RELAXED);
	R.failed |= __atomic_load_n(&R.freed[version], __ATOMIC_RELAXED);
}

void rcu_read(struct actor *me)
{
	near_rcu_token t = enter();

	read_inside();
	leave(t);
}

void rcu_read_slow(struct actor *me)
{
	near_rcu_token t = {near__rcu_enter_slow(&R.domain)};

	read_inside();
	near__rcu_exit_slow(&R.domain, t.at);
}

void rcu_read_nested(struct actor *me)
{
	near_rcu_read_lock(&R.domain);
	near_rcu_read_lock(&R.domain);
	read_inside();
	near_rcu_read_unlock(&R.domain);
	read_inside();
	near_rcu_read_unlock(&R.domain);
}

static void leave_slow(struct actor *me)
{
	near__rcu_exit_slow(&R.domain, R.left_open[me->id].at);
}

/* Counted in on a slot where there is one, counted out on a fallback slot. */
void rcu_leave_fallback(struct actor *me)
{
	R.left_open[me->id] = enter();
	read_inside();
	not_live(leave_slow, me);
}

void rcu_synchronize(struct actor *me)
{
	unsigned version = 1 + me->id;
	unsigned old = __atomic_exchange_n(&R.version, version, __ATOMIC_ACQ_REL);

	near_rcu_synchronize(&R.domain);
	__atomic_store_n(&R.freed[old], true, __ATOMIC_RELAXED);
}

static void called(struct near_rcu_head *head)
{
	R.ran[head - R.heads]++;
}

void rcu_call(struct actor *me)
{
	if (me->called == OPS_CALLS)
		abort();
	near_rcu_call(&R.domain, &R.heads[me->id * OPS_CALLS + me->called++], called, 1);
}

/* What the domain's worker would do. */
void rcu_batch(struct actor *me)
{
	near__rcu_work_here(&R.domain);
}

/* ---- what the objects need ---- */

static void read_nothing(void)
{
	near_rcu_read_lock(&R.domain);
	near_rcu_read_unlock(&R.domain);
}

static void enter_slots(void)
{
	leave(enter());
	read_nothing();
	near__counter_add_slow(R.domain.called.p, 0); /* opens the slot of what is counted */
}

/* The thread and the domain get what near_rcu_read_lock needs, and as with rcu_check:1 no slot is
 * opened: neither the domain's nor, of what the slot has in common, that of other objects. */
static void enter_closed(void)
{
	int check = near__process.conf.rcu_check;

	near__process.conf.rcu_check = 1;
	read_nothing();
	near__process.conf.rcu_check = check;
}

/* No callback is due any more. */
static void destroy(void)
{
	R.domain.pushed = NULL;
	for (unsigned s = 0; near_percpu_next(R.domain.slots, &s); s++)
		memset(near__rcu_slot(&R.domain, s)->calls, 0, 2 * sizeof(uint64_t));
	near_rcu_destroy(&R.domain);
}

static bool create(void)
{
	memset(&R, 0, sizeof(R));
	if (near_rcu_init(&R.domain, NULL))
		return false;
	R.domain.call_wakes = NEAR__RCU_NO_CALL;
	return true;
}

/* Bounded, should a list have become a ring. False: a head is there twice, or what is there is
 * none. */
static bool mark(unsigned char *seen, const struct near_rcu_head *list)
{
	for (const struct near_rcu_head *h = list; h; h = h->next)
		if (h < R.heads || h >= R.heads + 2 * OPS_CALLS || seen[h - R.heads]++)
			return false;
	return true;
}

static bool mark_all(unsigned char *seen)
{
	bool good = mark(seen, R.domain.pushed);

	for (unsigned s = 0; near_percpu_next(R.domain.slots, &s); s++)
		for (unsigned i = 0; i < 2 && good && !near_percpu_is_fallback(s); i++)
			good = mark(seen, (const struct near_rcu_head *)(uintptr_t)near__rcu_slot(
						  &R.domain, s)
						  ->calls[i]);
	return good;
}

static uint64_t sum(bool in)
{
	uint64_t n = 0;

	for (unsigned s = 0; near_percpu_next(R.domain.slots, &s); s++) {
		const struct near__rcu_slot *slot = near__rcu_slot(&R.domain, s);

		for (unsigned i = 0; i < 2; i++)
			n += near__rcu_count(in ? &slot->in[i] : &slot->out[i], __ATOMIC_RELAXED);
	}
	return n;
}

static const char *conserved(const struct actor *a, const struct actor *b)
{
	unsigned char seen[2 * OPS_CALLS] = {0};

	if (R.failed)
		return "a section found a version that was freed";
	if (sum(true) != sum(false))
		return "a section was not counted out, or twice";
	if (R.domain.drives || R.domain.begun != R.domain.done)
		return "a grace period has no end";
	if (!mark_all(seen))
		return "a callback is in two lists, or it is none";
	for (unsigned i = 0; i < 2 * OPS_CALLS; i++) {
		const struct actor *of = i < OPS_CALLS ? a : b;

		if (seen[i] + R.ran[i] != (i % OPS_CALLS < of->called))
			return "a callback is lost, or was called twice";
	}
	return NULL;
}

/* Which callbacks are in a list: a bit for each. */
static void describe(struct ops_text *t, const struct actor *a, const struct actor *b)
{
	unsigned char seen[2 * OPS_CALLS] = {0};
	uint64_t bits = 0;

	mark_all(seen);
	for (unsigned i = 0; i < 2 * OPS_CALLS; i++)
		bits |= (uint64_t)(seen[i] != 0) << i;
	put_field(t, " calls ", (int64_t)bits);
}

const struct ops_kind kind_rcu = {
	.create = create,
	.enter = enter_slots,
	.enter_closed = enter_closed,
	.destroy = destroy,
	.describe = describe,
	.conserved = conserved,
};
