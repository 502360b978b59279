/* SPDX-License-Identifier: MIT */
/* near_lock (src/base/lock.c) in Promela: every access to the word is one step.
 *
 * Each thread locks SECTIONS times, and stops being a user of the lock inside its last section. The
 * last user frees the memory after its unlock: any access to the word from then on is an error.
 *
 * Checked: mutual exclusion; no access to freed memory; the word is free at the end; no thread
 * sleeps forever (no deadlock state); every execution ends (no cycle). Unless HARM_ONLY is given,
 * so are the invariants of the argument in src/base/lock.c.
 *
 * Left out: spurious failures of a CAS (the C code repeats it with the same values), and the number
 * of attempts of a spinner: a failed attempt changes nothing, so one represents all.
 *
 * The broken variants, each of which violates one argument of src/base/lock.c:
 *   PLAIN_LOCK       the fast path loads, then stores
 *   TRUST_WAKE       a return from FUTEX_WAIT counts as owning the lock
 *   SLEEP_UNCOUNTED  a waiter sleeps without being counted
 *   SLEEP_ANYWAY     a waiter sleeps although WAKING is set
 *   KEEP_WAKING      a waiter takes the lock and leaves WAKING set
 *   WAKE_FIRST       unlock wakes before it releases the lock
 *   TOUCH_AFTER      unlock releases with one change and sets WAKING with a second one
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef SECTIONS
#define SECTIONS 2
#endif
/* Returns of FUTEX_WAIT without a wake-up, in all. Bounded, as any number of them would hide a lost one. */
#ifndef SPURIOUS
#define SPURIOUS 2
#endif

#define LOCKED 1
#define WAKING 2
#define ONE 4
#define ALONE (ONE + LOCKED)

#ifdef HARM_ONLY
#define INVARIANT(it) skip
#else
#define INVARIANT(it) assert(it)
#endif

byte word;
bool asleep[4]; /* THREADS is at most this */
byte spurious = SPURIOUS;

byte users = THREADS;
byte inside;
bool gone;

/* For the invariants: announced waiters that are not inside, those of them that are asleep, and unlocks
 * that set WAKING and have not called FUTEX_WAKE yet. */
byte announced, sleeping, wakes_due;

inline check()
{
	assert(!gone);
	INVARIANT(word / ONE == announced + (word & LOCKED));
	INVARIANT(!(word & WAKING) || announced > 0);
	INVARIANT(!(word & WAKING) || announced > sleeping || wakes_due > 0);
	INVARIANT(sleeping == 0 || (word & (LOCKED | WAKING)) != 0)
}

inline load(seen)
{
	atomic { seen = word; check() }
}

/* Goes to done if the word was as seen. entered and owed: what the change means for announced and
 * wakes_due. */
#define EXCHANGE(next, entered, owed, done) \
	atomic { \
		if \
		:: word == seen -> \
			word = next; \
			announced = announced - entered; \
			wakes_due = wakes_due + owed; \
			check(); \
			goto done \
		:: else -> \
			seen = word; \
			check() \
		fi \
	}

inline announce(seen)
{
	atomic {
#ifndef SLEEP_UNCOUNTED
		word = word + ONE;
#endif
		announced++;
		seen = word;
		check()
	}
}

#ifdef SLEEP_ANYWAY
#define MAY_SLEEP (word & LOCKED)
#else
#define MAY_SLEEP ((word & (LOCKED | WAKING)) == LOCKED)
#endif

inline futex_wait()
{
	atomic {
		if
		:: MAY_SLEEP -> asleep[_pid] = true; sleeping++
		:: else
		fi;
		check()
	}
	if
	:: !asleep[_pid]
	:: atomic { asleep[_pid] && spurious > 0 ->
			spurious--; asleep[_pid] = false; sleeping-- }
	fi
}

/* Wakes any one sleeper: the kernel's order is not ours to rely on. The memory may be gone. */
inline futex_wake()
{
	atomic {
		if
		:: asleep[0] -> asleep[0] = false; sleeping--
		:: asleep[1] -> asleep[1] = false; sleeping--
		:: asleep[2] -> asleep[2] = false; sleeping--
#if THREADS > 3
		:: asleep[3] -> asleep[3] = false; sleeping--
#endif
		:: else
		fi;
		wakes_due--
	}
}

/* How a waiter takes the lock, and how an unlock releases it. */
#ifdef SLEEP_UNCOUNTED
#define TAKEN(seen) ((seen + ALONE) & ~WAKING)
#elif defined(KEEP_WAKING)
#define TAKEN(seen) (seen | LOCKED)
#else
#define TAKEN(seen) ((seen | LOCKED) & ~WAKING)
#endif

#define MUST_WAKE(seen) (seen - ALONE >= ONE && !(seen & WAKING))
#ifdef TOUCH_AFTER
#define LEFT(seen) (seen - ALONE)
#else
#define LEFT(seen) (seen - ALONE + (MUST_WAKE(seen) -> WAKING : 0))
#endif

active [THREADS] proctype thread()
{
	byte seen, section;
	bool last;

again:
	/* near_lock_lock */
#ifdef PLAIN_LOCK
	load(seen);
	if
	:: seen == 0 -> atomic { word = ALONE; check(); goto enter }
	:: else
	fi;
#else
	seen = 0;
	EXCHANGE(ALONE, 0, 0, enter);
#endif

	/* near_lock_try_lock, from the spinning and yielding rounds */
	load(seen);
	do
	:: !(seen & LOCKED) -> EXCHANGE(seen + ALONE, 0, 0, enter)
	:: else -> break
	od;

	/* take_after_sleeping */
	announce(seen);
	do
	:: !(seen & LOCKED) -> EXCHANGE(TAKEN(seen), 1, 0, enter)
	:: else ->
#ifndef SLEEP_ANYWAY
		if
		:: seen & WAKING ->
			EXCHANGE(seen & ~WAKING, 0, 0, may_sleep);
			goto next_attempt
		:: else
		fi;
may_sleep:
#endif
		futex_wait();
#ifdef TRUST_WAKE
		atomic { word = TAKEN(word); announced--; check(); goto enter }
#else
		load(seen);
#endif
next_attempt:
		skip
	od;

enter:
	atomic { seen = 0; inside++; assert(inside == 1) }
	section++;
	if
	:: section == SECTIONS -> atomic { users--; last = (users == 0) }
	:: else
	fi;
	inside--;

	/* near_lock_unlock */
#ifdef WAKE_FIRST
	atomic { wakes_due++; futex_wake() };
#endif
	seen = ALONE;
	EXCHANGE(0, 0, 0, left);
	load(seen);
	do
	:: INVARIANT(seen & LOCKED);
		EXCHANGE(LEFT(seen), 0, MUST_WAKE(seen), let_go)
	od;
let_go:
#ifndef WAKE_FIRST
	if
	:: MUST_WAKE(seen) ->
#ifdef TOUCH_AFTER
		atomic { word = word | WAKING; check() };
#endif
		futex_wake()
	:: else
	fi;
#endif

left:
	seen = 0;
	if
	:: last -> atomic { INVARIANT(word == 0); gone = true }
	:: else
	fi;
	if
	:: section < SECTIONS -> goto again
	:: else
	fi
}
