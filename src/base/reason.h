/* SPDX-License-Identifier: MIT */
/* reason: why the calling thread's last call that failed has failed, as a sentence.
 *
 * Each thread has one reason, with the object that the call was about, in its block (block.h). So
 * threads that fail concurrently on one object each find their own reason, and none is lost with an
 * object that could not be opened. The child of fork has that of the thread that forked. A thread
 * for which there is no memory for a block stores none.
 *
 * A call that succeeds keeps the reason that there was: it exchanges the reason for none when it
 * begins, and exchanges it back unless it fails. So does an event or a signal handler's call, which
 * may come at any moment of another call: that call finds what it stored.
 *
 * A child of vfork runs on the storage of its parent, perhaps concurrently with it: it
 * stores no reason. */
#ifndef NEARCPU_REASON_H
#define NEARCPU_REASON_H

struct near__reason {
	const void *object;   /* NULL: there is no reason */
	const char *sentence; /* constant; NULL: what strerror(3) has for `error` */
	int error;            /* a negative errno */
};

/* Stores why the call about `object` fails. Returns `error`. */
int near__reason_set(const void *object, int error, const char *sentence);

/* The reason that was stored for another object is that for `object`, too. Returns `error`. */
int near__reason_pass_on(const void *object, int error);

/* NULL: the thread's last failure was not about this object. */
const char *near__reason_of(const void *object);

/* Stores `reason`, and returns the one that there was. */
struct near__reason near__reason_exchange(struct near__reason reason);

#endif
