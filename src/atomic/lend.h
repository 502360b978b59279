/* SPDX-License-Identifier: MIT */
/* Locks that are lent. A signal handler that must wait for another thread's lock stands in the
 * way of those who wait for what the code holds that it interrupted; among these may be a handler
 * of that other thread, and both would wait for ever. So, before a handler sleeps, it lends the
 * locks of the sections that it interrupted; who wants one borrows it, takes the section back as
 * the holder's own handler would (help.c), does his operation, and gives it back. When the
 * handler has done its own operation, it claims back what it lent, and waits for a borrower who
 * has not done yet.
 *
 * `lent` of a lock:
 *   KEPT      the holder has it, or nobody.
 *   LENT      its holder waits in a handler; whoever changes this to BORROWED has the lock.
 *   BORROWED  by one who has blocked his signals, holds what else he needs, and sleeps no more
 *             before he has changed it to LENT again.
 *   CLAIMED   as BORROWED, and the holder sleeps until it is LENT.
 *
 * Who can be where, while a lock is not KEPT:
 *   - the holder's thread stands in near__take_or_borrow, or behind it, or in near__take_others,
 *     with signals blocked, up to near__claim_all. So its section stands still, and so does the
 *     memory of it.
 *   - a borrower: alone, by the CAS. Its acquire pairs with the release of the lending or of the
 *     borrower before, and shows him what the section and those before him have done. Another
 *     signal handler of his would find the lock held by another thread, and wait: hence blocked.
 *   - those who wait: are woken when it is lent or given back, by the protocol of table.h, in
 *     which LENT counts as free.
 *   - a fork: holds all locks, which it takes like an operation, but borrows none: then none is
 *     lent. (It lends while it waits.) Two handlers that fork, each within a section that the
 *     other waits for, would wait for ever. A chain of handlers ends: who sleeps has lent all that
 *     his thread held before, and holds no lock of the operation that he waits for. */
#ifndef NEARCPU_ATOMIC_LEND_H
#define NEARCPU_ATOMIC_LEND_H

#include "table.h"

/* Those that one handler has lent, a bit each. */
struct near__loan {
	uint64_t set[NEAR__ATOMIC_LOCKS / 64];
};

/* Whether this thread holds a lock: in a handler within a section. */
bool near__holds_any(unsigned long mine);

/* Lends all locks that this thread holds and has not lent; adds them to the loan. Whether this
 * thread has lent any. */
bool near__lend_all(struct near__loan *loan, unsigned long mine);

/* Ends the loan. */
void near__claim_all(const struct near__loan *loan);

static inline bool near__is_lent(const struct near__atomic_lock *l)
{
	return __atomic_load_n(&l->lent, __ATOMIC_SEQ_CST) == NEAR__LENT;
}

/* Acquire: pairs with the release of near__give_back, and of near__lend_all. The fence: as in
 * near__try_take. */
static inline bool near__borrow(struct near__atomic_lock *l)
{
	uint32_t lent = NEAR__LENT;

	if (!__atomic_compare_exchange_n(&l->lent, &lent, NEAR__BORROWED, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return false;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return true;
}

void near__give_back(struct near__atomic_lock *l);

#endif
