/* SPDX-License-Identifier: MIT */
/* A lock of libatomic (src/atomic/table.h, atomic_wait.c, locks.c) in Promela: each access to its word, to `waiters`
 * and to `waking` is one step. The store that releases a lock stays in the CPU's store buffer, which only its own
 * thread sees, until the CPU happens to write it, the thread executes an atomic instruction or a system call, or a
 * waiter's barrier (`fence`) runs. With FENCED, unlockers write it at once, and waiters have no barrier: where
 * membarrier is missing.
 *
 * By default three threads take one lock SECTIONS times each. With MANY, thread 0 takes both of two locks, as an
 * operation on a large object does; thread 2 takes the second, then the first, which it holds until thread 1 has
 * finished: as if its signal handler waited for thread 1. With GHOSTS, this is the child of a fork: the lock counts that
 * many waiters that the child does not have, and `waking` is as the parent left it.
 *
 * Checked: at most one thread holds a lock; a version occurs once; no thread sleeps for ever (a state that no thread can
 * leave before all have finished); at the end the lock is free and counts no waiter of this process; every execution
 * ends (no cycle).
 *
 * Left out: how often a waiter pauses and yields, since a load that finds the lock held changes nothing.
 *
 * Each broken variant undoes one part of the protocol:
 *   PLAIN_TAKE       a lock is taken by a load and a store
 *   TRUST_WAKE       a thread that returns from its sleep assumes that it holds the lock
 *   KEEP_VERSION     a release stores the version from before
 *   CHECK_FIRST      an unlocker checks for waiters before it releases the lock
 *   WAKE_FIRST       it wakes a waiter before it releases the lock
 *   SLEEP_UNCOUNTED  a waiter sleeps without being counted
 *   KEEP_WAKING      a waiter does not clear `waking`
 *   SLEEP_BLIND      a waiter clears `waking` and sleeps without a check
 *   CLEAR_LATE       a waiter checks the word before it clears `waking`
 *   NO_BARRIER       waiters have no barrier either
 *   BARRIER_FIRST    a waiter executes the barrier before it clears `waking`
 *   BARRIER_LAST     it does after it has checked the word
 *   PASS_NOTHING     with MANY: a thread that was woken for a lock and then waits for another does not wake the next one
 */
#define THREADS 3
#ifndef SECTIONS
#define SECTIONS 2
#endif
/* Returns of FUTEX_WAIT without a wake-up, in all. Bounded, as any number of them would hide a lost one. */
#ifndef SPURIOUS
#define SPURIOUS 1
#endif
#ifdef MANY
#define LOCKS 2
#else
#define LOCKS 1
#endif
#define NONE 9

/* Odd while held, and no version then. */
#define HELD 101

#ifndef GHOSTS
#define GHOSTS 0
#endif

byte word[LOCKS], waiters[LOCKS] = GHOSTS;
#ifdef GHOST_WOKEN
bool waking[LOCKS] = true;
#else
bool waking[LOCKS];
#endif
byte asleep[THREADS] = NONE; /* on which lock's futex */

/* A store to a word that other threads do not see yet; 0: none. A thread has at most one for each word, as its next
 * atomic instruction writes it. With MANY, two may be written in any order, as on weakly ordered CPUs. */
byte buffered[THREADS * LOCKS];
#define BUFFER(t, l) buffered[(t) * LOCKS + (l)]
/* As the thread itself reads it. */
#define WORD(l) (BUFFER(_pid, l) -> BUFFER(_pid, l) : word[l])
byte spurious = SPURIOUS;

byte inside[LOCKS], newest[LOCKS];
byte left = THREADS;
bool over[THREADS];

inline finish()
{
	atomic {
		write_own();
		over[_pid] = true;
		left--;
		assert(left > 0 || (waiters[0] == GHOSTS && word[0] % 2 == 0));
		assert(left > 0 || (waiters[LOCKS - 1] == GHOSTS && word[LOCKS - 1] % 2 == 0))
	}
}

/* ---- the store buffers ---- */

#define WRITE(t, l) word[l] = (BUFFER(t, l) -> BUFFER(t, l) : word[l]); BUFFER(t, l) = 0

/* Within an atomic instruction or a system call. */
inline write_own()
{
#ifndef FENCED
	WRITE(_pid, 0);
#ifdef MANY
	WRITE(_pid, 1);
#endif
#endif
	skip
}

inline fence()
{
#if !defined(FENCED) && !defined(NO_BARRIER)
	d_step {
		WRITE(0, 0);
		WRITE(1, 0);
		WRITE(2, 0);
#ifdef MANY
		WRITE(0, 1);
		WRITE(1, 1);
		WRITE(2, 1)
#endif
	}
#else
	skip
#endif
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

/* Wakes any one sleeper: the protocol does not depend on the kernel's order. */
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
	:: atomic { !waking[l] -> waking[l] = true; write_own() }; futex_wake(l)
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

/* Sets `had`. */
inline try_take(l, seen)
{
	had = false;
	atomic { seen = WORD(l) };
	if
	:: seen % 2 == 1
	:: else ->
#ifdef PLAIN_TAKE
		atomic { write_own(); word[l] = HELD; had = true }
#else
		atomic {
			write_own();
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

/* The word that releases a lock. */
#ifdef KEEP_VERSION
#define FREE(seen) (seen)
#else
#define FREE(seen) (seen + 2)
#endif

inline release(l, seen)
{
	inside[l]--;
#ifdef WAKE_FIRST
	wake_waiters(l);
#endif
#ifdef CHECK_FIRST
	atomic { had = waiters[l] > 0 };
#endif
	atomic {
#ifdef FENCED
		word[l] = FREE(seen);
#else
		BUFFER(_pid, l) = FREE(seen);
#endif
		assert(FREE(seen) > newest[l]);
		newest[l] = FREE(seen)
	}
#ifdef CHECK_FIRST
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

#define IS_FREE(l) (word[l] % 2 == 0)

inline sleep_until_free(l)
{
#ifdef SLEEP_UNCOUNTED
	atomic { write_own() };
#else
	atomic { write_own(); waiters[l]++ };
#endif
	do
	:: true ->
#ifdef CLEAR_LATE
		if
		:: IS_FREE(l) -> break
		:: else
		fi;
#endif
#ifdef BARRIER_FIRST
		fence();
#endif
#ifndef KEEP_WAKING
		waking[l] = false;
#endif
#if !defined(BARRIER_FIRST) && !defined(BARRIER_LAST)
		fence();
#endif
#ifdef SLEEP_BLIND
		futex_wait(l);
#endif
#ifndef CLEAR_LATE
		if
		:: IS_FREE(l) -> break
		:: else
		fi;
#endif
#ifdef BARRIER_LAST
		fence();
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
		:: else -> sleep_until_free(l)
		fi;
#ifdef TRUST_WAKE
		atomic { write_own(); seen = (word[l] % 2 == 1 -> newest[l] : word[l]); word[l] = HELD };
		break
#endif
	od;
	had = false;
	enter(l)
}

#ifdef MANY

/* The lock that was waited for may still be free, and have waiters that no thread has woken. */
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
			sleep_until_free(0)
		:: else ->
			try_take(1, second);
			if
			:: had -> break
			:: else ->
				enter(0);
				release(0, first);
				pass_on(1);
				sleep_until_free(1)
			fi
		fi
	od;
	enter(0);
	enter(1);
	release(0, first);
	release(1, second);
	finish()
}

active proctype one()
{
	byte seen;
	bool had;

	take(1, seen);
	release(1, seen);
	over[1] = true;
	take(1, seen);
	release(1, seen);
	finish()
}

active proctype slow()
{
	byte seen;
	bool had;

	take(1, seen);
	release(1, seen);
	take(0, seen);
	over[1];
	release(0, seen);
	take(0, seen);
	release(0, seen);
	finish()
}

#else

active [THREADS] proctype thread()
{
	byte seen, section;
	bool had;

	do
	:: section < SECTIONS ->
		take(0, seen);
		release(0, seen);
		atomic { section++; seen = 0 }
	:: else -> break
	od;
	finish()
}

#endif

#ifndef FENCED

/* The CPUs write their buffers at any time. */
active proctype hardware()
{
	do
	:: atomic { BUFFER(0, 0) -> WRITE(0, 0) }
	:: atomic { BUFFER(2, 0) -> WRITE(2, 0) }
#ifndef MANY
	:: atomic { BUFFER(1, 0) -> WRITE(1, 0) }
#else
	:: atomic { BUFFER(0, 1) -> WRITE(0, 1) }
	:: atomic { BUFFER(1, 1) -> WRITE(1, 1) }
	:: atomic { BUFFER(2, 1) -> WRITE(2, 1) }
#endif
	:: atomic { left == 0 -> break }
	od
}

#endif
