/* SPDX-License-Identifier: MIT */
/* self: the words that every layer knows of its thread, struct near__thread in rseq.h. src/kernel
 * decides what is in them. */
#ifndef NEARCPU_SELF_H
#define NEARCPU_SELF_H

#include <nearcpu/rseq.h>

/* near__thread.state. A thread that leaves LIVE other than by vfork, or by clone with CLONE_VFORK,
 * never returns to it. */
enum near__thread_state {
	NEAR__NEW, /* nothing tried yet */
	NEAR__THREAD_LIVE = NEAR__LIVE,
	NEAR__DEAD, /* no registration to be had, or it was taken away */
	/* From here on see near__storage_is_own. */
	NEAR__VFORKED, /* a vfork child runs on this thread's memory; known to vfork's assembly */
	NEAR__CLONED,  /* a child of clone and this thread run on its memory at the same time */
};

/* A thread that is not live has its `area` here or in a copy of its own; its sequences store
 * rseq_cs there, which nothing reads. The ids name slots that are never open. */
extern NEAR__DATA struct near__area near__dead NEAR__STATE(near__dead);

/* False: a child of vfork or clone runs on this thread-local storage. It may be killed at any
 * instruction, and the thread continues with what is stored there; or both run at the same time. So
 * nothing may be stored there that must be taken back later. */
static inline bool near__storage_is_own(void)
{
	return near__self.state < NEAR__VFORKED;
}

#endif
