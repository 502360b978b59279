/* SPDX-License-Identifier: MIT */
/* The slow paths of near_refcount, kill and revive: the smallest user of gate.h.
 *
 * A reference is counted in one of three places: the copy of a live slot (by sequences, gate open),
 * the word of a fallback slot (by CAS, state in the word), or `exact`. While the copies count,
 * `exact` holds a bias that keeps it away from zero, so an operation may go there at any time: one
 * that found its gate closed by a kill, and comes to `exact` only after a revive, is counted all
 * the same. */
#include <nearcpu/refcount.h>

#include <string.h>

#include "base/tsan.h"
#include "percpu/gate.h"
#include "percpu/percpu.h"

#define BIAS ((int64_t)1 << 62)

enum mode { PER_CPU, KILLED };

/* The word of a fallback slot: the state in the low two bits, the count above. */
#define STATE_MASK 3u
#define COUNT_SHIFT 2

int near_refcount_init(struct near_refcount *r, void (*release)(struct near_refcount *r))
{
	void *p;
	size_t size = sizeof(struct near__gated_count);
	int e = near_percpu_alloc(size, size, &p);

	if (e)
		return e;
	memset(r, 0, sizeof(*r));
	r->p = p;
	r->exact = BIAS + 1;
	r->mode = PER_CPU;
	r->release = release;
	return 0;
}

void near_refcount_destroy(struct near_refcount *r)
{
	near_percpu_free(r->p);
	r->p = NULL;
}

static bool is_per_cpu(const void *r)
{
	return ((const struct near_refcount *)r)->mode == PER_CPU;
}

/* Opens or closes a fallback word that was never used; again under the lock. */
static bool start_fallback(struct near_refcount *r, uint64_t *word)
{
	uint64_t fresh = NEAR__UNOPENED;

	if (!near__gates_try_lock())
		return false;
	__atomic_compare_exchange_n(word, &fresh, r->mode == PER_CPU ? NEAR__OPEN : NEAR__CLOSED,
				    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	near__gates_unlock();
	return true;
}

/* Release: pairs with the exchange in kill, so that what was done before a put is seen by the
 * thread that finds the total zero. Acquire: pairs with the store in revive, for a try_get by a
 * thread that had no reference; where sequences run, its fence does as much. False: use `exact`. */
static bool add_to_fallback(struct near_refcount *r, int64_t n)
{
	uint64_t *word = near__fallback(r->p);
	uint64_t was = __atomic_load_n(word, __ATOMIC_RELAXED);

	for (;;) {
		if ((was & STATE_MASK) == NEAR__CLOSED)
			return false;
		if ((was & STATE_MASK) == NEAR__UNOPENED) {
			if (!start_fallback(r, word))
				return false;
			was = __atomic_load_n(word, __ATOMIC_RELAXED);
		} else if (__atomic_compare_exchange_n(word, &was,
						       was + ((uint64_t)n << COUNT_SHIFT), true,
						       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			return true;
		}
	}
}

/* For ThreadSanitizer, which does not see a put's commit: all that the thread did before. */
static bool add_by_sequence(struct near_refcount *r, void *p, int64_t n)
{
	if (NEAR__TSAN_HERE && n < 0)
		NEAR__TSAN_RELEASE(r);
	return near__add_behind_gate(p, n);
}

/* Counts n in a slot or a fallback word. False: use `exact`. */
static bool add_per_cpu(struct near_refcount *r, int64_t n)
{
	void *p = r->p;

	return NEAR__TRY(near__gated_open_local(p, is_per_cpu, r), add_by_sequence(r, p, n)) ||
	       add_to_fallback(r, n);
}

static void refcount_release(struct near_refcount *r)
{
	NEAR__TSAN_ACQUIRE(r);
	if (r->release)
		r->release(r);
}

/* Adds n to the exact count: acq_rel, so that the last put sees what was done before all others. */
static void add_exact(struct near_refcount *r, int64_t n)
{
	int64_t now = __atomic_add_fetch(&r->exact, n, __ATOMIC_ACQ_REL);

	if (now < 0)
		near__die("near_refcount_put: more references put than were taken");
	if (now == 0)
		refcount_release(r);
}

void near__refcount_get_slow(struct near_refcount *r)
{
	if (add_per_cpu(r, 1))
		return;
	/* Relaxed: the caller already has access to the object. */
	if (__atomic_fetch_add(&r->exact, 1, __ATOMIC_RELAXED) <= 0)
		near__die("near_refcount_get: the count has been zero (use near_refcount_try_get)");
}

bool near__refcount_try_get_slow(struct near_refcount *r, bool live)
{
	int64_t was;

	/* Not killed at this moment, so the reference may count as taken now, wherever it goes. */
	if (live && __atomic_load_n(&r->mode, __ATOMIC_ACQUIRE) != PER_CPU)
		return false;
	if (add_per_cpu(r, 1))
		return true;
	was = __atomic_load_n(&r->exact, __ATOMIC_RELAXED);
	while (was > 0)
		if (__atomic_compare_exchange_n(&r->exact, &was, was + 1, true, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return true;
	return false;
}

void near__refcount_put_slow(struct near_refcount *r)
{
	NEAR__WATCHED_RELEASE(r);
	if (!add_per_cpu(r, -1))
		add_exact(r, -1);
}

/* Moves what the copies hold to `exact`, which the bias still keeps from zero. The gates were shut,
 * and after the fence no sequence changes a copy; a fallback word is taken and closed in one
 * exchange. A copy that was never opened stays so: the thread that opens it takes the lock and
 * finds the mode changed. */
static void collect_copies(struct near_refcount *r)
{
	int64_t total = 0;

	for (unsigned s = 0; near_percpu_next(r->p, &s); s++) {
		struct near__gated_count *c = near__gated_count(r->p, s);

		if (near_percpu_is_fallback(s)) {
			uint64_t was =
				__atomic_exchange_n((uint64_t *)c, NEAR__CLOSED, __ATOMIC_ACQ_REL);

			total += (int64_t)was >> COUNT_SHIFT;
		} else {
			total += c->count;
			c->count = 0;
		}
	}
	/* As in add_exact: what was done before a put that was counted in a copy is seen by the
	 * last put. */
	__atomic_fetch_add(&r->exact, total, __ATOMIC_ACQ_REL);
}

/* Without the lock: a handler of SIGABRT may fork. */
__attribute__((noreturn, cold)) static void refcount_stop(const char *what)
{
	near__gates_unlock();
	near__die(what);
}

void near_refcount_kill_many(struct near_refcount *const *refs, size_t n)
{
	near__gates_lock();
	for (size_t i = 0; i < n; i++) {
		if (refs[i]->mode != PER_CPU)
			refcount_stop("near_refcount_kill: already killed");
		__atomic_store_n(&refs[i]->mode, KILLED, __ATOMIC_RELEASE);
		near__gated_shut(refs[i]->p);
	}
	if (n)
		near__fence();
	for (size_t i = 0; i < n; i++)
		collect_copies(refs[i]);
	near__gates_unlock();
	/* From here on `exact` is the count. */
	for (size_t i = 0; i < n; i++)
		add_exact(refs[i], -BIAS - 1);
}

void near_refcount_kill(struct near_refcount *r)
{
	near_refcount_kill_many(&r, 1);
}

/* The counts were cleared by kill; a fresh slot of one that was never opened needs nothing. */
void near_refcount_revive(struct near_refcount *r)
{
	near__gates_lock();
	if (r->mode != KILLED)
		refcount_stop("near_refcount_revive: not killed");
	__atomic_fetch_add(&r->exact, BIAS + 1, __ATOMIC_ACQ_REL);
	near__gated_reopen(r->p);
	for (unsigned s = near__first_fallback(); near_percpu_next(r->p, &s); s++)
		__atomic_store_n((uint64_t *)near_percpu_at(r->p, s), NEAR__OPEN, __ATOMIC_RELEASE);
	__atomic_store_n(&r->mode, PER_CPU, __ATOMIC_RELEASE);
	near__gates_unlock();
}

bool near_refcount_is_zero(const struct near_refcount *r)
{
	return __atomic_load_n(&r->exact, __ATOMIC_ACQUIRE) == 0;
}
