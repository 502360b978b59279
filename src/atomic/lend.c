/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "lend.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129

bool near__holds_any(unsigned long mine)
{
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++)
		if (near__holds(&near__atomic_table.locks[i], mine))
			return true;
	return false;
}

bool near__lend_all(struct near__loan *loan, unsigned long mine)
{
	bool any = false;

	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++) {
		struct near__atomic_lock *l = &near__atomic_table.locks[i];

		/* Relaxed: only the holder's thread makes it anything but KEPT. */
		if (!near__holds(l, mine))
			continue;
		any = true;
		if (__atomic_load_n(&l->lent, __ATOMIC_RELAXED) != NEAR__KEPT)
			continue;
		__atomic_store_n(&l->lent, NEAR__LENT, __ATOMIC_SEQ_CST);
		loan->set[i / 64] |= (uint64_t)1 << i % 64;
		near__pass_on(l);
	}
	return any;
}

void near__give_back(struct near__atomic_lock *l)
{
	int saved_errno = errno;

	/* Release: pairs with the next borrower's acquire, or the holder's. */
	if (__atomic_exchange_n(&l->lent, NEAR__LENT, __ATOMIC_SEQ_CST) == NEAR__CLAIMED)
		syscall(SYS_futex, &l->lent, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	near__pass_on(l);
	errno = saved_errno;
}

static void claim(struct near__atomic_lock *l)
{
	int saved_errno = errno;
	uint32_t seen = NEAR__LENT;

	while (!__atomic_compare_exchange_n(&l->lent, &seen, NEAR__KEPT, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST)) {
		if (seen == NEAR__BORROWED &&
		    !__atomic_compare_exchange_n(&l->lent, &seen, NEAR__CLAIMED, false,
						 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
			seen = NEAR__LENT;
			continue;
		}
		syscall(SYS_futex, &l->lent, FUTEX_WAIT_PRIVATE, NEAR__CLAIMED, NULL, NULL, 0);
		seen = NEAR__LENT;
	}
	errno = saved_errno;
}

void near__claim_all(const struct near__loan *loan)
{
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++)
		if (loan->set[i / 64] >> i % 64 & 1)
			claim(&near__atomic_table.locks[i]);
}
