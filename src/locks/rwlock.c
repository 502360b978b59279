/* SPDX-License-Identifier: MIT */
/* near_rwlock: init, destroy, and what readers and writers share; src/locks/rwlock.h has the
 * argument. */
#include "locks/rwlock.h"

#include <errno.h>
#include <string.h>

#include "base/reserved.h"
#include "locks/lockdep.h"
#include "percpu/gate.h"

int near_rwlock_init(struct near_rwlock *l, const struct near_rwlock_options *options)
{
	enum near_rwlock_policy policy = options ? options->policy : NEAR_RWLOCK_READERS_FIRST;
	size_t size = sizeof(struct near__gated_count);
	void *copies;
	int r;

	memset(l, 0, sizeof(*l));
	if (options && !NEAR__RESERVED_ARE_ZERO(options))
		return -EINVAL;
	if (policy != NEAR_RWLOCK_READERS_FIRST && policy != NEAR_RWLOCK_WRITERS_FIRST)
		return -EINVAL;
	l->policy = policy;
	if (!near__process_init() || !near__process.usable)
		return 0;
	r = near_percpu_alloc(size, size, &copies);
	if (r)
		return r;
	l->copies = copies;
	l->word = BIASED;
	return 0;
}

/* Readers that were lost at a fork do not keep the child from destroying the lock. */
void near_rwlock_destroy(struct near_rwlock *l)
{
	struct near__bucket *b;
	uint64_t seen;
	bool in_use;

	near__rwlock_check(l);
	b = near__lot_lock(l);
	seen = NEAR__LOAD_RELAXED(&l->word);
	in_use = writers_of(seen) || near__lot_first(b, l, NEAR__SPACE_RWLOCK) ||
		 (readers_of(seen) + near__rwlock_sum(l, false) && !(seen & LOST_READERS));
	__atomic_store_n(&l->word, DESTROYED, __ATOMIC_RELAXED);
	near__lot_unlock(b);
	if (in_use)
		near__die("near_rwlock_destroy: the lock is held, or waited for");
	near__lockdep_destroyed(l);
	near_percpu_free(l->copies);
	l->copies = NULL;
}

void near__rwlock_check_writer(const struct near_rwlock *l, bool for_reading)
{
	uint32_t owner = __atomic_load_n(&l->writers.word, __ATOMIC_RELAXED) & NEAR__MUTEX_OWNER;

	if (owner && near__owner_is_me(owner))
		near__die(for_reading ? "near_rwlock_read_lock: this thread holds the lock for "
					"writing"
				      : "near_rwlock_write_lock: this thread holds the lock "
					"already");
	if (near__owner_lost_at_fork(&l->writers.word))
		near__die("near_rwlock: the writer is a thread of the parent process, "
			  "which the fork did not copy");
}

void near__rwlock_wake_writer(const struct near_rwlock *l)
{
	struct near__bucket *b = near__lot_lock(l);
	struct near__waiter *w = near__lot_first(b, l, NEAR__SPACE_RWLOCK);

	while (w && w->kind != SLEEPING_WRITER)
		w = near__lot_next(w);
	if (w)
		near__lot_take(b, w);
	near__lot_unlock(b);
	near__lot_wake(w);
}
