/* SPDX-License-Identifier: MIT */
/* probe: events of lower layers, which src/trace records if it is in the process. A layer does not
 * call upwards: it loads a word, and calls by a pointer that src/trace has stored before. In the
 * same way malloc, whose library does not contain the locks, calls the lock-order checker. */
#ifndef NEARCPU_PROBE_H
#define NEARCPU_PROBE_H

#include <nearcpu/api.h>
#include <stdint.h>

#include "base/compiler.h"

enum near__probe_id {
	NEAR__PROBE_SLEEP,      /* a waiter of the parking lot; nothing */
	NEAR__PROBE_WOKEN,      /* the same; the error, or 0 */
	NEAR__PROBE_WAIT,       /* a mutex that is held; nothing */
	NEAR__PROBE_LOCKED,     /* the same; the error, or 0 */
	NEAR__PROBE_PERIOD,     /* a domain; the number of the grace period that begins */
	NEAR__PROBE_PERIOD_END, /* the same */
	NEAR__PROBE_EXTEND,     /* an extent of malloc; its pages from now on */
	NEAR__PROBE_DISCARD,    /* pages of malloc that go back to the system; bytes */
	NEAR__TRACED_PROBES,
	/* src/locks/lockdep.c: a block of malloc, or its end, that is about to be freed; bytes.
	 * With lock_check alone: the fast paths of free have no probe. */
	NEAR__PROBE_FREE = NEAR__TRACED_PROBES,
	/* src/waits/own_locks.c, if it is preloaded. */
	NEAR__PROBE_LOCK_WAIT, /* a mutex that is held, or NULL: in the lot; the holder's id */
	NEAR__PROBE_LOCK_END,  /* the same; the error, or 0 */
	NEAR__PROBES
};

/* 16 bytes on all machines. */
struct near__probe {
	uint32_t enabled; /* atomic; stored after `hit`, a release */
	uint32_t unused;
	union {
		void (*hit)(const void *object, uint64_t n);
		uint64_t pad;
	};
};
extern NEAR__DATA struct near__probe near__probes[NEAR__PROBES] NEAR__STATE(near__probes);

/* The function may be called shortly after the probe was switched off. */
static inline void near__probe(enum near__probe_id id, const void *object, uint64_t n)
{
	if (NEAR__UNLIKELY(__atomic_load_n(&near__probes[id].enabled, __ATOMIC_ACQUIRE)))
		near__probes[id].hit(object, n);
}

#endif
