/* SPDX-License-Identifier: MIT */
/* A wait that a token of cancellation can end. */
#ifndef NEARCPU_CANCEL_INTERNAL_H
#define NEARCPU_CANCEL_INTERNAL_H

#include <nearcpu/cancel.h>

struct near__cancel_wait {
	struct near__cancel_wait *next, **link;
	uint32_t *word; /* the futex of the waiter, see lot.h */
};

/* From here on, setting the token sets NEAR__CANCELLED in *word. -ECANCELED: it is set. */
int near__cancel_join(struct near_cancel *c, struct near__cancel_wait *wait, uint32_t *word);

/* When this returns, the token does not access `wait` or its word any more. A late futex call may
 * still use the address, where another futex can be by then. */
void near__cancel_leave(struct near_cancel *c, struct near__cancel_wait *wait);

#endif
