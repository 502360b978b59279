/* SPDX-License-Identifier: MIT */
/* near_refcount: a reference count that is per CPU until it is killed, and exact from then on.
 *
 * While the object is in service nothing checks whether the count is zero: get and put change the
 * copy of the local slot. kill drops the initial reference and adds the copies up into one atomic
 * count; when that reaches zero the release callback runs, once.
 *
 * Cost:      get and put about 1 ns each, no atomic instruction; after kill one atomic instruction.
 *            kill makes one membarrier, for as many counts as it is given, and revive another:
 *            they interrupt all CPUs that run this process.
 * Memory:    16 bytes per slot in use, and the handle.
 * Safety:    any thread. get, put, try_get: signal handlers too. Fork: the child has its own count.
 *            errno is left alone.
 * Order:     what a thread did before its put happens before the release callback.
 * Fallback:  one word per CPU, changed by CAS; after kill the same exact count.
 * Misuse:    a put below zero, a get from zero, a second kill, a revive without kill stop the
 *            program; while the count is per CPU a put too many is seen at kill.
 *
 * Concurrent with:   get   put  try_get  kill  revive  destroy
 *            get, put, try_get
 *                    yes   yes    yes    yes     yes      no
 *            kill    yes   yes    yes     no      no      no
 *            revive  yes   yes    yes     no      no      no
 *
 *     static void gone(struct near_refcount *r) { ... }      // the last reference is put
 *     struct near_refcount ref;
 *     near_refcount_init(&ref, gone);                        // one reference, the owner's
 *     near_refcount_get(&ref);      // by any thread: the owner is still there
 *     near_refcount_put(&ref);
 *     near_refcount_kill(&ref);     // drops the owner's
 *
 * Source: the kernel's percpu_ref; differs in that kill is complete when it returns, and fences
 * running sequences instead of waiting for an RCU grace period.
 */
#ifndef NEARCPU_REFCOUNT_H
#define NEARCPU_REFCOUNT_H

#include <nearcpu/detail/gated.h>
#include <nearcpu/percpu.h>

NEAR__BEGIN_DECLS

/* Private. The copy of a slot is its count and, at 8, its gate (4 bytes). */
struct near_refcount {
	void *p;
	int64_t exact; /* what the copies do not hold; with a bias while they count */
	uint32_t mode; /* changed under the lock of the gates */
	void (*release)(struct near_refcount *r);
};

/* Starts with one reference, which kill drops. release (may be NULL) runs in the thread that puts
 * the last one; it may destroy and free r. Returns 0 or -ENOMEM. */
NEAR_API int near_refcount_init(struct near_refcount *r, void (*release)(struct near_refcount *r));

/* Frees the copies. Requires that no operation runs or will. */
NEAR_API void near_refcount_destroy(struct near_refcount *r);

NEAR_API void near__refcount_get_slow(struct near_refcount *r);
NEAR_API bool near__refcount_try_get_slow(struct near_refcount *r, bool live);
NEAR_API void near__refcount_put_slow(struct near_refcount *r);

/* Takes a reference. Requires that another one is held until this returns. */
NEAR_INLINE void near_refcount_get(struct near_refcount *r)
{
	NEAR__CHECK_READY(r->p, r);
	if (__builtin_expect(!near__add_behind_gate(r->p, 1), 0))
		near__refcount_get_slow(r);
}

/* Takes a reference unless the count has reached zero. */
NEAR_INLINE bool near_refcount_try_get(struct near_refcount *r)
{
	NEAR__CHECK_READY(r->p, r);
	return __builtin_expect(near__add_behind_gate(r->p, 1), 1) ||
	       near__refcount_try_get_slow(r, false);
}

/* Takes a reference unless kill was called. */
NEAR_INLINE bool near_refcount_try_get_live(struct near_refcount *r)
{
	NEAR__CHECK_READY(r->p, r);
	return __builtin_expect(near__add_behind_gate(r->p, 1), 1) ||
	       near__refcount_try_get_slow(r, true);
}

/* Drops a reference. After kill, dropping the last one runs the release callback. */
NEAR_INLINE void near_refcount_put(struct near_refcount *r)
{
	void *p = r->p; /* nothing of *r is read once the reference may have been put */

	NEAR__CHECK_READY(p, r);
	NEAR__TSAN_RELEASE(r);
	if (__builtin_expect(!near__add_behind_gate(p, -1), 0))
		near__refcount_put_slow(r);
}

/* Drops the initial reference and makes the count exact. Returns when no get or put goes to a slot
 * any more. The release callback runs here if this was the last reference. */
NEAR_API void near_refcount_kill(struct near_refcount *r);

/* The same for n counts, none of them twice, by one membarrier. Callbacks run when all are exact,
 * in the order of `refs`, which they may not change. */
NEAR_API void near_refcount_kill_many(struct near_refcount *const *refs, size_t n);

/* Takes a killed count into service again, with a new initial reference: after the release
 * callback has returned, or while the caller holds a reference. */
NEAR_API void near_refcount_revive(struct near_refcount *r);

/* True from the moment on at which the last reference was put, until revive. The release callback
 * may not have run yet. */
NEAR_API bool near_refcount_is_zero(const struct near_refcount *r);

NEAR__END_DECLS

#endif
