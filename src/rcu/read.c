/* SPDX-License-Identifier: MIT */
/* near_rcu: the slow paths of readers; src/rcu/rcu.h has the argument. */
#include "rcu/rcu.h"

#include <limits.h>
#include <unistd.h>

#include "base/futex.h"

/* Release: a sequence that finds the word open may write to the slot, and the sums have its bit. */
static void open_word(uint64_t *word)
{
	uint64_t unopened = 0;

	__atomic_compare_exchange_n(word, &unopened, NEAR__RCU_OPEN, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

static void open_words(struct near_rcu *d, uint32_t slot)
{
	for (int i = 0; i < 2; i++) {
		open_word(&near__rcu_slot(d, slot)->in[i]);
		open_word(&near__rcu_slot(d, slot)->out[i]);
	}
}

/* Opens the local slot, unless this thread must not use it. With rcu_check:1 none is opened: all
 * readers make calls. */
static bool reader_open_slot(struct near_rcu *d)
{
	uint32_t slot = near__rcu_checks() ? NEAR__NO_SLOT : near__slot_open(d->slots);

	if (slot != NEAR__NO_SLOT)
		open_words(d, slot);
	return slot != NEAR__NO_SLOT;
}

void near__rcu_open_ahead(struct near_rcu *d, uint32_t slot)
{
	if (near__process.usable && !near__rcu_checks() && near__slot_open_at(d->slots, slot))
		open_words(d, slot);
}

static void wake_if_asleep(struct near_rcu *d)
{
	if (__atomic_load_n(&d->sleeps, __ATOMIC_SEQ_CST))
		near__rcu_wake(d);
}

static uint64_t count_in_by_atomic(struct near_rcu *d)
{
	struct near__rcu_slot *s = near__fallback(d->slots);

	for (;;) {
		uint64_t phase = __atomic_load_n(&d->phase, __ATOMIC_SEQ_CST);
		uint64_t *word = &s->in[near__rcu_index(d, phase)];

		__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&d->phase, __ATOMIC_SEQ_CST) == phase)
			return phase;
		__atomic_fetch_sub(word, 1, __ATOMIC_SEQ_CST);
		wake_if_asleep(d);
	}
}

uint64_t near__rcu_count_in(struct near_rcu *d)
{
	uint64_t phase;

	if (NEAR__TRY(reader_open_slot(d), near__rcu_try_enter(d, &phase)))
		return phase;
	return count_in_by_atomic(d);
}

void near__rcu_count_out(struct near_rcu *d, uint64_t token)
{
	struct near__rcu_slot *s;

	if (!NEAR__TRY(reader_open_slot(d), near__rcu_try_exit(token))) {
		s = near__fallback(d->slots);
		/* Sequentially consistent: the load of `sleeps` stays behind. A release: pairs with
		 * the acquire of the driver. */
		__atomic_fetch_add(&s->out[near__rcu_index(d, token)], 1, __ATOMIC_SEQ_CST);
	}
	wake_if_asleep(d);
}

uint64_t near__rcu_enter_slow(struct near_rcu *d)
{
	uint64_t token = near__rcu_count_in(d);

	return near__rcu_checks() ? near__rcu_record(d, token, __builtin_return_address(0)) : token;
}

void near__rcu_exit_slow(struct near_rcu *d, uint64_t at)
{
	NEAR__WATCHED_RELEASE(&d->slots);
	near__rcu_count_out(d, near__rcu_checks() ? near__rcu_unrecord(d, at) : at);
}

/* Of those that find the word set, one wakes. */
void near__rcu_wake(struct near_rcu *d)
{
	if (__atomic_exchange_n(&d->sleeps, 0, __ATOMIC_SEQ_CST))
		near__futex_wake(&d->sleeps, INT_MAX, false);
}

uint64_t near__rcu_inside(const struct near_rcu *d, unsigned i)
{
	uint64_t n = 0;

	for (unsigned s = 0; near_percpu_next(d->slots, &s); s++) {
		const struct near__rcu_slot *slot = near__rcu_slot(d, s);

		n -= near__rcu_count(&slot->out[i], __ATOMIC_RELAXED);
		n += near__rcu_count(&slot->in[i], __ATOMIC_RELAXED);
	}
	return n;
}
