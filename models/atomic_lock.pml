/* SPDX-License-Identifier: MIT */
/* A lock of libatomic's (src/atomic/table.h, wait.c, locks.c) in Promela: every access to its word, to `waiters`,
 * `waking` and `lent` is one step.
 *
 * As it is, three threads each enter SECTIONS times, by one lock. With MANY, thread 0 takes both of two locks, as an
 * operation on a large object; thread 2 takes the second, then the first, in which it stays until thread 1 is done:
 * as if its signal handler waited for that one. With LEND, thread 0's handler lends the lock, and waits for the
 * others, which borrow it if they find it so. With FORK, too, but thread 2 is a fork: it does not borrow, and nobody
 * waits for it; it looks now and then, and does not sleep.
 *
 * With GHOSTS, this is the child of a fork: so many waiters are counted that it does not have, and `waking` is as the
 * parent left it. With AGAIN, the lender may claim the lock back and lend it once more, as a fork does to serve a
 * signal.
 *
 * Checked: one thread inside; a version comes once; nobody sleeps for ever (a state that nobody can leave before
 * all have finished); in the end the lock is free, and nobody counted; every execution ends (no cycle).
 *
 * Left out: how often a waiter pauses and yields, since a look that finds the lock held changes nothing.
 *
 * The broken variants, each with one thought undone:
 *   PLAIN_TAKE       a lock is taken by a load and a store
 *   TRUST_WAKE       whoever returns from its sleep takes the lock for its own
 *   KEEP_VERSION     the word is again what it was before
 *   LOOK_FIRST       an unlocker looks for waiters before it lets go
 *   WAKE_FIRST       it wakes before it lets go
 *   SLEEP_UNCOUNTED  a waiter sleeps without being counted
 *   KEEP_WAKING      a waiter leaves `waking` as it is
 *   SLEEP_BLIND      a waiter makes `waking` 0, and sleeps without a look
 *   CLEAR_LATE       a waiter looks, and makes `waking` 0 then
 *   PASS_NOTHING     with MANY: who was woken for a lock, and waits for another, leaves it at that
 *   LEND_QUIETLY     with LEND: who lends wakes nobody
 *   RETURN_QUIETLY   nor does who gives back
 *   FORK_SLEEPS      with FORK: it sleeps like others, and takes wake-ups that are of no use to it
 *   WAKE_ALL         with that: even if a lender wakes all
 */
#define THREADS 3
#ifndef SECTIONS
#define SECTIONS 2
#endif
/* Returns of FUTEX_WAIT without a wake-up, in all. Bounded, as any number of them would hide a lost one. */
#ifndef SPURIOUS
#define SPURIOUS 1
#endif
#ifdef FORK
#define LEND
#endif
#ifdef MANY
#define LOCKS 2
#else
#define LOCKS 1
#endif
#define NONE 9

#define KEPT 0
#define LENT 1
#define BORROWED 2

/* Odd while held, and no version then. */
#define HELD 101

#ifndef GHOSTS
#define GHOSTS 0
#endif

byte word[LOCKS], waiters[LOCKS] = GHOSTS, lent[LOCKS];
#ifdef GHOST_WOKEN
bool waking[LOCKS] = true;
#else
bool waking[LOCKS];
#endif
byte asleep[THREADS] = NONE; /* on which lock's futex */
byte spurious = SPURIOUS;

byte inside[LOCKS], newest[LOCKS];
byte left = THREADS;
bool over[THREADS];

inline finish()
{
	atomic {
		over[_pid] = true;
		left--;
		assert(left > 0 || (waiters[0] == GHOSTS && word[0] % 2 == 0));
		assert(left > 0 || (waiters[LOCKS - 1] == GHOSTS && word[LOCKS - 1] % 2 == 0))
	}
}

/* ---- the futex ---- */

inline futex_wait(l)
{
	atomic {
		if
		:: !waking[l] -> asleep[_pid] = l
		:: else
		fi
	}
	if
	:: asleep[_pid] == NONE
#if SPURIOUS > 0
	:: atomic { asleep[_pid] != NONE && spurious > 0 -> spurious--; asleep[_pid] = NONE }
#endif
	fi
}

/* Wakes any one sleeper: the kernel's order is not ours to rely on. */
inline futex_wake(l)
{
	atomic {
		if
		:: asleep[0] == l -> asleep[0] = NONE
		:: asleep[1] == l -> asleep[1] = NONE
		:: asleep[2] == l -> asleep[2] = NONE
		:: else
		fi
	}
}

/* ---- near__atomic_wake ---- */

inline wake(l)
{
	if
	:: atomic { !waking[l] -> waking[l] = true }; futex_wake(l)
	:: atomic { waking[l] -> skip }
	fi
}

inline wake_waiters(l)
{
	if
	:: waiters[l] > 0 -> wake(l)
	:: else
	fi
}

/* ---- the word ---- */

/* Sets had. */
inline try_take(l, seen)
{
	had = false;
	atomic { seen = word[l] };
	if
	:: seen % 2 == 1
	:: else ->
#ifdef PLAIN_TAKE
		atomic { word[l] = HELD; had = true }
#else
		atomic {
			if
			:: word[l] == seen -> word[l] = HELD; had = true
			:: else
			fi
		}
#endif
	fi
}

inline enter(l)
{
	atomic { inside[l]++; assert(inside[l] == 1) }
}

inline let_go(l, seen)
{
	inside[l]--;
#ifdef WAKE_FIRST
	wake_waiters(l);
#endif
#ifdef LOOK_FIRST
	atomic { had = waiters[l] > 0 };
#endif
	atomic {
#ifdef KEEP_VERSION
		word[l] = seen;
#else
		word[l] = seen + 2;
#endif
		assert(word[l] > newest[l]);
		newest[l] = word[l]
	}
#ifdef LOOK_FIRST
	if
	:: had -> wake(l)
	:: else
	fi
#else
#ifndef WAKE_FIRST
	wake_waiters(l)
#endif
#endif
}

/* ---- near__atomic_wait ---- */

#ifdef LEND
#define MAY_BE_HAD(l, or_borrow) (word[l] % 2 == 0 || (or_borrow && lent[l] == LENT))
#else
#define MAY_BE_HAD(l, or_borrow) (word[l] % 2 == 0)
#endif

inline sleep_until(l, or_borrow)
{
#ifndef SLEEP_UNCOUNTED
	waiters[l]++;
#endif
	do
	:: true ->
#ifdef CLEAR_LATE
		if
		:: MAY_BE_HAD(l, or_borrow) -> break
		:: else
		fi;
#endif
#ifndef KEEP_WAKING
		waking[l] = false;
#endif
#ifdef SLEEP_BLIND
		futex_wait(l);
#endif
#ifndef CLEAR_LATE
		if
		:: MAY_BE_HAD(l, or_borrow) -> break
		:: else
		fi;
#endif
#ifndef SLEEP_BLIND
		futex_wait(l);
#endif
#ifdef TRUST_WAKE
		break
#endif
	od;
#ifndef SLEEP_UNCOUNTED
	waiters[l]--
#endif
}

/* ---- threads ---- */

inline take(l, seen)
{
	do
	:: true ->
		try_take(l, seen);
		if
		:: had -> break
		:: else -> sleep_until(l, false)
		fi;
#ifdef TRUST_WAKE
		atomic { seen = (word[l] % 2 == 1 -> newest[l] : word[l]); word[l] = HELD };
		break
#endif
	od;
	had = false;
	enter(l)
}

#if defined(MANY)

/* What was waited for before may be free still; others may wait for it, who were not woken. */
inline pass_on(l)
{
#ifndef PASS_NOTHING
	if
	:: woken_for != NONE && woken_for != l -> wake_waiters(woken_for)
	:: else
	fi;
#endif
	woken_for = l
}

active proctype both()
{
	byte first, second, woken_for = NONE;
	bool had;

	do
	:: true ->
		try_take(0, first);
		if
		:: !had ->
			pass_on(0);
			sleep_until(0, false)
		:: else ->
			try_take(1, second);
			if
			:: had -> break
			:: else ->
				enter(0);
				let_go(0, first);
				pass_on(1);
				sleep_until(1, false)
			fi
		fi
	od;
	enter(0);
	enter(1);
	let_go(0, first);
	let_go(1, second);
	finish()
}

active proctype one()
{
	byte seen;
	bool had;

	take(1, seen);
	let_go(1, seen);
	over[1] = true;
	take(1, seen);
	let_go(1, seen);
	finish()
}

active proctype slow()
{
	byte seen;
	bool had;

	take(1, seen);
	let_go(1, seen);
	take(0, seen);
	over[1];
	let_go(0, seen);
	take(0, seen);
	let_go(0, seen);
	finish()
}

#elif defined(LEND)

inline wake_borrowers(l)
{
#ifdef WAKE_ALL
	atomic { waking[l] = true; asleep[1] = NONE; asleep[2] = NONE }
#else
	wake(l)
#endif
}

inline lend()
{
	lent[0] = LENT;
#ifndef LEND_QUIETLY
	if
	:: waiters[0] > 0 -> wake_borrowers(0)
	:: else
	fi
#endif
}

active proctype lender()
{
	byte seen;
	bool had;

	take(0, seen);
	inside[0]--;
	lend();
#ifdef AGAIN
	if
	:: true ->
		atomic { lent[0] == LENT -> lent[0] = KEPT };
		enter(0);
		inside[0]--;
		lend()
	:: true
	fi;
#endif
	over[1];
#ifndef FORK
	over[2];
#endif
	atomic { lent[0] == LENT -> lent[0] = KEPT };
	enter(0);
	let_go(0, seen);
	finish()
}

#ifdef FORK
#define BORROWERS 1
#else
#define BORROWERS 2
#endif

active [BORROWERS] proctype borrower()
{
	byte seen;
	bool had;

	do
	:: atomic { lent[0] == LENT -> lent[0] = BORROWED };
		enter(0);
		inside[0]--;
		lent[0] = LENT;
#ifndef RETURN_QUIETLY
		wake_waiters(0);
#endif
		break
	:: atomic { lent[0] != LENT -> skip };
		try_take(0, seen);
		if
		:: had ->
			enter(0);
			let_go(0, seen);
			break
		:: else ->
			sleep_until(0, true)
		fi
	od;
	finish()
}

#ifdef FORK
active proctype forker()
{
	byte seen;
	bool had;

#ifdef FORK_SLEEPS
	take(0, seen);
#else
	/* As if it had looked before in vain. */
	atomic { word[0] % 2 == 0 -> seen = word[0]; word[0] = HELD };
	enter(0);
#endif
	let_go(0, seen);
	finish()
}
#endif

#else

active [THREADS] proctype thread()
{
	byte seen, section;
	bool had;

	do
	:: section < SECTIONS ->
		take(0, seen);
		let_go(0, seen);
		atomic { section++; seen = 0 }
	:: else -> break
	od;
	finish()
}

#endif
