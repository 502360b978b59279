/* SPDX-License-Identifier: MIT */
/* A wait that a token of cancellation can end. */
#ifndef NEARCPU_CANCEL_INTERNAL_H
#define NEARCPU_CANCEL_INTERNAL_H

#include <nearcpu/cancel.h>

struct near__cancel_wait {
	struct near__cancel_wait *next, **link;
	uint32_t *word; /* the futex of the waiter, see lot.h */
};

/* From here on the token pokes *word when it is set. -ECANCELED: it is. */
int near__cancel_join(struct near_cancel *c, struct near__cancel_wait *wait, uint32_t *word);

/* When this returns, the token touches neither `wait` nor its word, but for a futex call that may
 * come late and find another futex there. */
void near__cancel_leave(struct near_cancel *c, struct near__cancel_wait *wait);

#endif
