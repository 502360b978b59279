/* SPDX-License-Identifier: MIT */
/* near_sem: units, and flags for sleepers.
 *
 * A unit goes to the first thread that takes it, as long as that keeps no sleeper waiting for long:
 * a thread that runs takes it immediately, a sleeper has to be woken. So a post adds its unit and
 * wakes the first sleeper, a designated waker, which then competes. If near__lot_is_due, the post
 * also sets RESERVED: threads that arrive leave the last unit to the designated waker, for
 * NEAR__RESERVED_NS; then they take it, which ends the reservation. No unit is ever given to a
 * thread that does not run: it might be suspended (lot.h).
 *
 * SLEEPERS is set while threads are in the queue, or it was left by threads that gave up. A sleeper
 * sets it and enters the queue under the bucket's lock, while there is no unit for it. A post that
 * finds the flag adds its unit under that lock, and clears the flag if it leaves the queue empty. A
 * post that does not find it adds its unit in one change, which fails if the flag was set before.
 * So no thread sleeps without the flag, and no post overlooks a sleeper.
 *
 * While threads are in the queue, there are at least as many designated wakers as units:
 *
 *   - There are no units when a thread enters the queue, or one that is reserved.
 *   - A post that adds a unit designates the first sleeper; except that one designated waker is
 *     enough for the first unit. The bucket records that there is one (`waking`): the last one that
 *     was designated, until any designated waker of the semaphore takes the lock. Two semaphores of
 *     a bucket overwrite each other's record: then a post wakes a sleeper too many.
 *   - A designated waker takes the lock, erases the record, and takes a unit; or there is none, and
 *     it enters the queue again, sorted by its age. It does not give up before: a deadline that has
 *     passed ends its next sleep.
 *
 * So if designated wakers find no unit, running threads have taken them all, and their posts find
 * the flag.
 *
 * A designated waker that is suspended: if it was not asleep when it was woken, the post designates
 * the next sleeper, too. And a thread that enters the queue while one is recorded, or has a
 * reservation, sleeps for NEAR__RELIANCE_NS or NEAR__RESERVED_NS at most; then it leaves the queue
 * and is a designated waker itself.
 *
 * A sleeper that gives up leaves the queue, and then takes a unit if there is one, as a running
 * thread does: the designated waker may be delayed for longer than the wait.
 *
 * A signal handler may post, whatever it interrupted. If that was a section of the lot (lot.c), the
 * handler adds its unit and designates no sleeper. When the interrupted thread leaves its section,
 * it designates as many sleepers as there are units. A sleeper that enters the queue later finds
 * the unit. models/words.pml has this handler. What was
 * not chosen: a futex in the semaphore would need no lock, but would not give units to sleepers in
 * their order, nor could a token end a single wait; to block signals in each section takes two
 * system calls: a wait and a post of two threads in turn took 4.2 us instead of 2.5.
 *
 * A post accesses the semaphore for the last time by the change that adds the unit, unless there
 * are sleepers in the queue. */
#include <nearcpu/sem.h>

#include <errno.h>

#include "base/cas.h"
#include "base/spin.h"
#include "locks/locks_state.h"
#include "parking/lot.h"

#define SLEEPERS 1u
#define UNIT 2u
#define RESERVED (1u << 31)
_Static_assert(NEAR_SEM_MAX *UNIT == RESERVED - UNIT, "the units are between the flags");

/* Longer than NEAR__SPIN_NS: with 600 ns instead of 160, two threads took a unit 2.0 times as often
 * to hold it for 1 ns, and 1.14 times to hold it for 100 ns; eight threads 1.9 times for 1 ns
 * (Intel Xeon, Granite Rapids class, 2 CPUs). */
#define FIRST_PAUSE_NS 600

/* How a thread tries to take a unit: one that arrives leaves a reserved one alone. */
enum taker { ARRIVING, INSISTING, DESIGNATED_WAKER };

static uint32_t units_of(uint32_t word)
{
	return (word & ~RESERVED) / UNIT;
}

static bool has_unit(uint32_t word, enum taker as)
{
	if (NEAR__LIKELY(!(word & RESERVED)))
		return word >= UNIT;
	return units_of(word) > (as == ARRIVING);
}

/* A reservation ends with the last unit, or with a unit for a designated waker. */
static uint32_t without_unit(uint32_t word, enum taker as)
{
	uint32_t next = word - UNIT;

	if (NEAR__LIKELY(!(word & RESERVED)))
		return next;
	return as == DESIGNATED_WAKER || !units_of(next) ? next & ~RESERVED : next;
}

static inline __attribute__((always_inline)) bool sem_take(struct near_sem *s, enum taker as)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&s->word);

	/* Acquire: pairs with the release in near_sem_post. */
	while (has_unit(seen, as))
		if (NEAR__CAS(&s->word, &seen, without_unit(seen, as), __ATOMIC_ACQUIRE)) {
			NEAR__TSAN_ACQUIRE(s);
			return true;
		}
	return false;
}

bool near_sem_try_wait(struct near_sem *s)
{
	return sem_take(s, INSISTING);
}

/* Takes a unit, or else sets the flag. *next: what it stored. */
static bool take_or_announce(struct near_sem *s, enum taker as, uint32_t *next)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&s->word);
	bool takes;

	do {
		takes = has_unit(seen, as);
		*next = takes ? without_unit(seen, as) : seen | SLEEPERS;
		/* Acquire: pairs with the release in near_sem_post. */
	} while (!NEAR__CAS(&s->word, &seen, *next, __ATOMIC_ACQUIRE));
	return takes;
}

/* How long a thread that enters the queue relies on a designated waker. */
static int64_t sem_reliance(const struct near__bucket *b, const struct near_sem *s, uint32_t word)
{
	if (word & RESERVED)
		return NEAR__RESERVED_NS;
	return b->waking == s ? NEAR__RELIANCE_NS : NEAR__NEVER;
}

/* Takes a unit, or else enters the queue: *ns is how long it may sleep. */
static bool take_or_enter(struct near_sem *s, struct near__waiter *w, enum taker as, int64_t *ns)
{
	struct near__bucket *b = near__lot_lock(s);
	uint32_t word;
	bool taken;

	if (as == DESIGNATED_WAKER && b->waking == s)
		b->waking = NULL;
	taken = take_or_announce(s, as, &word);
	*ns = sem_reliance(b, s, word);
	if (!taken && as == DESIGNATED_WAKER)
		near__lot_insert(b, w);
	else if (!taken)
		near__lot_append(b, w);
	near__lot_unlock(b);
	return taken;
}

static int take_after_sleeping(struct near_sem *s, struct near__waiter *w,
			       const struct near__timeout *timeout)
{
	enum taker as = ARRIVING;
	int64_t ns;
	int r = 0;

	while (!r && !take_or_enter(s, w, as, &ns)) {
		r = ns == NEAR__NEVER ? near__lot_sleep(w, timeout)
				      : near__lot_sleep_for(w, timeout, ns);
		if (r == -EAGAIN)
			r = 0;
		as = DESIGNATED_WAKER;
	}
	return r && sem_take(s, INSISTING) ? 0 : r;
}

static int wait_slow(struct near_sem *s, const struct near__timeout *timeout)
{
	struct near__waiter w = {.address = s, .space = NEAR__SPACE_SEM};
	int r = 0;

	near__pause_for(FIRST_PAUSE_NS);
	if (sem_take(s, ARRIVING) || NEAR__SPIN_UNTIL(sem_take(s, ARRIVING)))
		return 0;
	w.since = (uint64_t)near__now(CLOCK_MONOTONIC);
	if (!NEAR__YIELD_UNTIL(sem_take(s, ARRIVING)))
		r = take_after_sleeping(s, &w, timeout);
	if (!r)
		NEAR__TSAN_ACQUIRE(s);
	return r;
}

int near_sem_wait_until(struct near_sem *s, int clock, const struct timespec *deadline,
			struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	if (r || sem_take(s, ARRIVING))
		return r;
	return wait_slow(s, &timeout);
}

/* Apart, as is post_slow: a wait or a post that is done at once saves no registers. */
static __attribute__((noinline)) void wait_without_limit(struct near_sem *s)
{
	wait_slow(s, &NEAR__NO_TIMEOUT);
}

void near_sem_wait(struct near_sem *s)
{
	if (NEAR__UNLIKELY(!sem_take(s, ARRIVING)))
		wait_without_limit(s);
}

static unsigned taken_count(const struct near__waiter *taken, const void *s)
{
	unsigned n = 0;

	for (; taken; taken = taken->next)
		n += taken->address == s;
	return n;
}

/* Designates as many sleepers as there are units, of this semaphore or (NULL) of all in the
 * bucket. */
static struct near__waiter *sem_settle(struct near__bucket *b, const void *s)
{
	struct near__taken taken = {.first = NULL, .end = &taken.first};
	struct near__waiter *w, *next;

	for (w = b->first; w; w = next) {
		next = w->next;
		if (w->space != NEAR__SPACE_SEM || (s && w->address != s) ||
		    near_sem_read(w->address) <= taken_count(taken.first, w->address))
			continue;
		near__lot_take_into(&taken, b, w);
		b->waking = w->address;
	}
	return taken.first;
}

/* While there is a designated waker, a thread checks the age of the first sleeper at one of this
 * many posts: the waker may take long to run. */
#define POSTS_PER_CHECK 32

static bool is_time_to_check(void)
{
	struct near__locks_thread *mine = near__locks_thread_own();

	return !mine || ++mine->posts % POSTS_PER_CHECK == 0;
}

/* Takes the sleeper that the post wakes out of the queue; NULL: none. */
static struct near__waiter *take_sleeper(struct near__bucket *b, const struct near_sem *s,
					 bool *reserves)
{
	struct near__waiter *w = near__lot_first(b, s, NEAR__SPACE_SEM);
	bool designates = b->waking != s || near_sem_read(s);

	*reserves = w && (designates || is_time_to_check()) && near__lot_is_due(b, w);
	if (*reserves)
		near__lot_note_handover(b, w);
	if (!w || !(designates || *reserves))
		return NULL;
	b->waking = s;
	near__lot_take(b, w);
	return w;
}

/* Adds a unit. Release: pairs with the acquire in sem_take and take_or_announce. */
static int sem_add(struct near_sem *s, uint32_t cleared, uint32_t set)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&s->word);

	do
		if (units_of(seen) == NEAR_SEM_MAX)
			return -EOVERFLOW;
	while (!NEAR__CAS(&s->word, &seen, ((seen & ~cleared) + UNIT) | set, __ATOMIC_RELEASE));
	return 0;
}

/* Wakes a designated waker; and if it was not asleep, the next sleeper, if there still is a unit.
 * Accesses the semaphore only if a thread is in the queue. */
static void sem_wake(const struct near_sem *s, struct near__waiter *w)
{
	while (!near__lot_wake(w)) {
		struct near__bucket *b = near__lot_lock(s);

		w = near__lot_first(b, s, NEAR__SPACE_SEM);
		if (w && !near_sem_read(s))
			w = NULL;
		if (w) {
			near__lot_take(b, w);
			b->waking = s;
		}
		near__lot_unlock(b);
	}
}

/* The flag is cleared under the lock alone. */
static int add_and_designate(struct near_sem *s)
{
	struct near__bucket *b = near__lot_lock(s);
	bool reserves;
	struct near__waiter *w = take_sleeper(b, s, &reserves);
	uint32_t cleared = near__lot_first(b, s, NEAR__SPACE_SEM) ? 0 : SLEEPERS;
	int r = sem_add(s, cleared, reserves ? RESERVED : 0);

	near__lot_unlock(b);
	sem_wake(s, w);
	return r;
}

static __attribute__((noinline)) int post_slow(struct near_sem *s)
{
	return near__lot_defer(s, sem_settle) ? sem_add(s, 0, 0) : add_and_designate(s);
}

int near_sem_post(struct near_sem *s)
{
	uint32_t seen = NEAR__LOAD_RELAXED(&s->word);

	NEAR__TSAN_RELEASE(s);
	do {
		if (NEAR__UNLIKELY(seen & SLEEPERS))
			return post_slow(s);
		if (units_of(seen) == NEAR_SEM_MAX)
			return -EOVERFLOW;
		/* Release: pairs with the acquire in sem_take and take_or_announce. */
	} while (!NEAR__CAS(&s->word, &seen, seen + UNIT, __ATOMIC_RELEASE));
	return 0;
}
