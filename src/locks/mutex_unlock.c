/* SPDX-License-Identifier: MIT */
/* How near_mutex is let go of; src/locks/mutex.h has the argument. */
#include "mutex.h"
#include "pace.h"
#include "slice.h"
#include "ground/tsan.h"

#define PATIENCE_NS 1000000
/* Of a thread, while one who was woken is on its way. A look costs some 100 ns, an unlock 10. */
#define UNLOCKS_A_LOOK 32

/* Who stands in the queue. */
struct survey {
	struct near__waiter *locker, *awaiter; /* the first; the first whose condition is true */
	unsigned lockers, awaiters;            /* counted up to what matters */
};

static bool is_true(struct near__waiter *awaiter)
{
	if (!awaiter->condition(awaiter->arg))
		awaiter->true_since = 0;
	else if (!awaiter->true_since)
		awaiter->true_since = (uint64_t)near__now(CLOCK_MONOTONIC);
	return awaiter->true_since;
}

static struct survey survey(struct near__bucket *b, const struct near_mutex *m, uint32_t flags)
{
	struct near__waiter *w = near__lot_first(b, m, NEAR__SPACE_MUTEX);
	struct survey s = {NULL, NULL, 0, 0};

	for (; w; w = near__lot_next(w)) {
		if (w->kind == LOCKER) {
			s.locker = s.lockers++ ? s.locker : w;
		} else {
			s.awaiters++;
			if (!s.awaiter && is_true(w))
				s.awaiter = w;
		}
		if (s.lockers > 1 && (!(flags & AWAITED) || (s.awaiter && s.awaiters > 1)))
			break;
	}
	return s;
}

static bool is_old(const struct near__waiter *w)
{
	return (uint64_t)near__now(CLOCK_MONOTONIC) - w->since > PATIENCE_NS;
}

/* Of both who are first of their kind. One whose condition is true waits for the mutex since it was
 * seen to be true: neither kind keeps the other waiting for long. */
static bool locker_comes_first(const struct survey *s, bool fair)
{
	if (!s->locker || !(fair || is_old(s->locker)))
		return false;
	return !s->awaiter || s->locker->since <= s->awaiter->true_since;
}

/* What an unlock does. */
struct plan {
	struct near__waiter *taken; /* NULL: nobody */
	uint32_t token;
	uint32_t next; /* of the word */
};

/* An old waiter comes first, then one whose condition is true, then any; unless one is on its way
 * already. Under the bucket's lock. */
static struct plan plan(struct near__bucket *b, const struct near_mutex *m, uint32_t seen,
			bool fair)
{
	uint32_t flags = flags_of(seen), owner = 0;
	struct survey s = survey(b, m, flags);
	struct plan p = {NULL, HANDED, 0};

	if (locker_comes_first(&s, fair)) {
		p.taken = s.locker;
	} else if (s.awaiter) {
		p.taken = s.awaiter;
	} else if (s.locker && !(flags & WAKING)) {
		p.taken = s.locker;
		p.token = CHOSEN;
		flags |= WAKING;
	}
	if (p.taken && p.token == HANDED)
		owner = p.taken->owner;
	s.lockers -= p.taken && p.taken == s.locker;
	s.awaiters -= p.taken && p.taken == s.awaiter;
	flags &= WAKING | WARY;
	p.next = compose(owner, flags | (s.lockers ? PARKED : 0) | (s.awaiters ? AWAITED : 0));
	return p;
}

static void unlock_by_queue(struct near_mutex *m, bool fair)
{
	struct near__bucket *b = near__lot_lock(m);
	uint32_t seen = look(m);
	struct plan p;

	do {
		p = plan(b, m, seen, fair);
		NEAR__TSAN_RELEASE(m); /* after the conditions that were asked */
	} while (!change(m, &seen, p.next, __ATOMIC_RELEASE));
	/* From here on the mutex may be gone; its address is only a name. */
	if (p.taken) {
		p.taken->token = p.token;
		near__lot_take(b, p.taken);
	}
	near__lot_unlock(b);
	if (p.taken)
		near__lot_wake(p.taken);
}

/* How many calm unlocks pay for a fence; 1: none is waited for. A fence interrupts each CPU that
 * runs a thread of the process, and takes about 1 us of its time. A mutex that is WARY costs about
 * 10 ns more each time. With two CPUs the other one is the one that the fence is for. */
#define CALM_FOR_EACH_CPU 100
#define FEW_CPUS 2

/* Relaxed: all threads find the same. */
static uint32_t calm_needed(void)
{
	uint32_t n = __atomic_load_n(&near__lot.calm_needed, __ATOMIC_RELAXED);

	if (!n && near__process_init()) {
		n = near__process.cpus <= FEW_CPUS ? 1 : near__process.cpus * CALM_FOR_EACH_CPU;
		__atomic_store_n(&near__lot.calm_needed, n, __ATOMIC_RELAXED);
	}
	return n;
}

uint32_t near__mutex_with_first(uint32_t flags)
{
	return !flags && calm_needed() > 1 ? WARY : 0;
}

/* Of a mutex that is WARY and nothing else: whether to end that. The thread counts for all its
 * mutexes, as there is no room in the word. */
static bool is_calm_for_long(void)
{
	static __thread uint32_t calm __attribute__((tls_model("initial-exec")));

	if (++calm < calm_needed())
		return false;
	calm = 0;
	return true;
}

/* Aborts the sequence of an owner who has not seen a bit yet that was just set. False: it had
 * stored its 0, so that the bit is lost. */
bool near__mutex_is_told(const struct near_mutex *m)
{
	/* A word under a name from before a fork is that of no sequence that could be under way; to
	 * fence then is merely not needed. */
	if (owner_of(look(m)) == near__owner_now())
		return true;
	/* Whether any thread is ever live must be decided before it is asked. (Where this is part
	 * of the decision itself none is live yet, and who is later has seen the bit: it acquires
	 * the decision.) */
	near__process_init();
	near__fence();
	/* Relaxed: a count. */
	__atomic_fetch_add(&near__lot.fences, 1, __ATOMIC_RELAXED);
	return flags_of(look(m)) & PARKED;
}

/* Who is chosen, if nobody will look into the queue. *told: or else the word has PARKED now. */
static struct near__waiter *tell(struct near_mutex *m, struct near__waiter *first, uint32_t others,
				 bool *told)
{
	uint32_t seen = look(m), next, flags;
	struct near__waiter *taken;

	do {
		uint32_t owner = owner_of(seen);

		flags = flags_of(seen);
		taken = owner || flags & WAKING ? NULL : first;
		next = taken ? compose(0, (flags & (AWAITED | WARY)) | WAKING | others)
			     : compose(owner, flags | PARKED | near__mutex_with_first(flags));
	} while (!change(m, &seen, next, __ATOMIC_RELAXED));
	*told = taken || flags || near__mutex_is_told(m);
	return taken;
}

/* No condition is asked here: nobody needs to hold the mutex. */
struct near__waiter *near__mutex_admit(struct near__bucket *b, struct near_mutex *m)
{
	struct near__waiter *w = near__lot_first(b, m, NEAR__SPACE_MUTEX), *first = NULL, *taken;
	uint32_t others = 0;
	bool told;

	for (; w && !others; w = near__lot_next(w))
		if (w->kind == LOCKER && !first)
			first = w;
		else if (w->kind == LOCKER)
			others = PARKED;
	do
		taken = tell(m, first, others, &told);
	while (!told);
	if (taken) {
		taken->token = CHOSEN;
		near__lot_take(b, taken);
	}
	return taken;
}

/* While the chosen one is on its way: for it may take long, and the others grow old. */
static bool is_time_to_look(void)
{
	static __thread uint32_t unlocks __attribute__((tls_model("initial-exec")));

	return ++unlocks % UNLOCKS_A_LOOK == 0;
}

static bool must_look_into_queue(uint32_t flags, bool fair)
{
	if (flags & AWAITED)
		return true;
	return flags & PARKED && (fair || !(flags & WAKING) || is_time_to_look());
}

static void let_go(struct near_mutex *m, uint32_t seen, bool fair)
{
	uint32_t flags;

	do {
		flags = flags_of(seen);
		if (must_look_into_queue(flags, fair)) {
			unlock_by_queue(m, fair);
			return;
		}
		if (flags == WARY && is_calm_for_long())
			flags = 0;
		NEAR__TSAN_RELEASE(m);
		/* Release: pairs with the acquire of whoever takes the mutex next. */
	} while (!change(m, &seen, compose(0, flags), __ATOMIC_RELEASE));
}

static void count_down(void)
{
	if (near__owner >= NEAR__EXPECTED)
		near__owner -= NEAR__EXPECTED;
}

void near__mutex_unlocked(const struct near_mutex *m)
{
	count_down();
	near__slice_end();
	near__pace_unlocked(m);
}

void near__mutex_unlock_slow(struct near_mutex *m, bool fair)
{
	uint32_t seen = look(m);

	count_down();
	check_alive(seen);
	if (!owner_of(seen))
		near__die("near_mutex_unlock: the mutex is not held");
	if (!near__owner_is_me(owner_of(seen)))
		near__die("near_mutex_unlock: another thread holds the mutex");
	near__order_unlocked(m);
	let_go(m, seen, fair);
	near__slice_end();
	near__pace_unlocked(m);
}

void near_mutex_unlock_fair(struct near_mutex *m)
{
	near__mutex_unlock_slow(m, true);
}

void near_mutex_destroy(struct near_mutex *m)
{
	struct near__bucket *b = near__lot_lock(m);
	uint32_t seen = look(m);
	bool in_use = owner_of(seen) || flags_of(seen) & WAKING ||
		      near__lot_first(b, m, NEAR__SPACE_MUTEX) ||
		      !__atomic_compare_exchange_n(&m->word, &seen, DESTROYED, false,
						   __ATOMIC_RELAXED, __ATOMIC_RELAXED);

	near__lot_unlock(b);
	check_alive(seen);
	if (in_use)
		near__die("near_mutex_destroy: the mutex is held, or waited for");
	near__order_forget(m);
}
