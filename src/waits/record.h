/* SPDX-License-Identifier: MIT */
/* record: what a wait adds to the file of its process. All of it may be called in signal handlers,
 * allocates nothing, takes no lock that a thread could wait for, and leaves errno alone. */
#ifndef NEARCPU_WAITS_RECORD_H
#define NEARCPU_WAITS_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "waits/format.h"

#define NEAR__WAITS_HELD 4 /* locks that a thread has waited for and holds, with their begin */

/* Of the thread. All zeros: new. */
struct near__waits_self {
	uint32_t tid, thread;
	bool inside; /* in a function of this library that records: what it calls, or a handler that
			interrupts it, records nothing */
	uint8_t held; /* how many of the following are not NULL */
	struct near__waits_lock *holds[NEAR__WAITS_HELD];
};
extern __thread struct near__waits_self near__waits_self
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* One wait, on the stack of the thread. */
struct near__wait {
	enum near__wait_kind kind;
	const void *lock, *caller; /* where the call of the lock's function returns to */
	uint32_t holder;           /* its tid, or 0 */
	uint32_t is_since;
	uint64_t begin, held_ns;
	struct near__waits *file; /* NULL: nothing is recorded */
	struct near__waits_site *site;
	struct near__waits_lock *known;
};

/* The lock is held, and the thread is about to wait. */
void near__wait_begin(struct near__wait *w);

/* HOLDS: it has the lock, which no other thread has. ERROR: it did not wait. */
enum near__wait_end { NEAR__WAIT_HAS, NEAR__WAIT_HOLDS, NEAR__WAIT_FAILED, NEAR__WAIT_ERROR };
void near__wait_end(struct near__wait *w, enum near__wait_end how);

/* Before the thread releases a lock; then after it. */
void near__release_begin(struct near__wait *w, const void *lock, const void *caller);
void near__release_end(struct near__wait *w);

/* The file of this process, for recording; NULL: off, or none. file.c. */
struct near__waits *near__waits_file(void);

/* Whether waits are recorded. */
bool near__waits_on(void);

void near__waits_forget_locks(void);

/* There is one more site: the file may need the mappings again. file.c. */
void near__waits_add_site(struct near__waits *f);

#endif
