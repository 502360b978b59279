/* SPDX-License-Identifier: MIT */
/* near_mutex (src/locks/mutex.c, src/locks/mutex_unlock.c) in Promela: every access to the word is one step, as are the taking of the
 * bucket's lock and what is done to the queue under it.
 *
 * Each thread enters SECTIONS times, and leaves the users of the mutex inside its last one. Who left as
 * the last user frees the memory after its unlock: any access to the word from then on is an error.
 * TIMEOUTS waits, in all, end by a deadline or a token; such a thread begins anew. Whether a waiter is old
 * enough to be handed the mutex is left open: both are tried. With AWAIT, thread 0 waits inside its first
 * section for somebody else's section to have begun. With COND it does so by a condition variable (src/locks/cond.c),
 * and all others signal after each of their sections. With MANY CPUs, who fences sets ATOMIC_UNLOCK, and unlocks may
 * clear it: after how many is left open. An unlock that goes by CAS without need is one whose sequence is
 * not interrupted.
 *
 * Checked: one thread inside; no access to freed memory; a waker finds the waiter still waiting; nobody
 * sleeps for ever (a state that nobody can leave before all have finished); every execution ends. Unless
 * HARM_ONLY is given, so are the invariants by which src/locks/mutex.h argues.
 *
 * The broken variants, each with one thought of src/locks/mutex.h undone:
 *   PLAIN_LOCK     the fast path loads, then stores
 *   ENTER_ANYWAY   a waiter enters the queue although there is no owner
 *   KEEP_WAKING    the chosen one takes the mutex and leaves WAKING set
 *   SLEEP_WAKING   the chosen one enters the queue again and leaves WAKING set
 *   FORGET_OTHERS  an unlock clears PARKED although others stay in the queue
 *   HAND_LATE      the mutex is handed over by a second store
 *   LEAVE_ANYWAY   a waiter leaves by a deadline although it was taken
 *   TOUCH_AFTER    an unlock lets go with one change and sets the bits with a second one
 *   AWAIT_LATE     an awaiter enters the queue after its unlock
 *   FORGET_AWAITED an unlock clears AWAITED although an awaiter stays
 *   WAIT_LATE      a waiter for the condition variable enters its queue after its unlock
 *   NO_FENCE       a waiter enters the queue without a fence
 *   SIGNAL_UNFENCED a signal sets PARKED without a fence
 *   FAST_WARY      the fast unlock does not heed ATOMIC_UNLOCK
 *   CALM_BLINDLY   an unlock by CAS that clears ATOMIC_UNLOCK does not look at the other bits
 *   MOVE_BLINDLY   a signal moves a waiter to the mutex and sets PARKED, though the mutex may be free
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef SECTIONS
#define SECTIONS 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif

#define PARKED 1
#define WAKING 2
#define AWAITED 4
#define ATOMIC_UNLOCK 8
#define FLAGS 15
#define ONE 16
#define OWNER(word) ((word) / ONE)
#define ME ((_pid + 1) * ONE)

#define DESIGNATED 1
#define HANDOFF 2
#define NOBODY 255

#ifdef HARM_ONLY
#define INVARIANT(it) skip
#else
#define INVARIANT(it) assert(it)
#endif

byte word;
bool bucket;      /* the lock of the queue */
byte queue[4];    /* who is in it; the first in front */
byte queued;
bool awaiter[4];  /* of kind */
byte token[4];    /* what the waker said; the waiter waits for it */
bool waiting[4];
byte timeouts = TIMEOUTS;

bool cond_waits;  /* thread 0 is in the queue of the condition variable; one lock stands for both */

byte users = THREADS, inside, begun;
bool gone;
bool in_sequence[4]; /* of the fast unlock: between its load and its store */
byte on_way; /* chosen ones that have not come to a decision */

/* Lockers in the queue. */
#define PARKING ((queued > 0 && !awaiter[queue[0]]) || (queued > 1 && !awaiter[queue[1]]) || \
		 (queued > 2 && !awaiter[queue[2]]) || (queued > 3 && !awaiter[queue[3]]))

inline check()
{
	assert(!gone);
	INVARIANT(on_way == ((word & WAKING) -> 1 : 0));
	INVARIANT(bucket || !PARKING || (word & PARKED));
	INVARIANT(bucket || !PARKING || OWNER(word) || (word & WAKING))
}

inline load(seen)
{
	atomic { seen = word; check() }
}

/* Goes to done if the word was as seen; `less`: whether a chosen one has come to its decision. */
#define EXCHANGE(next, less, done) \
	atomic { \
		if \
		:: word == seen -> \
			word = next; \
			on_way = on_way - (less); \
			check(); \
			goto done \
		:: else -> \
			seen = word; \
			check() \
		fi \
	}

/* membarrier: no sequence goes on that had begun. */
inline fence()
{
	atomic {
		in_sequence[0] = false; in_sequence[1] = false;
		in_sequence[2] = false; in_sequence[3] = false
	}
}

inline lock_bucket()
{
	atomic { !bucket -> bucket = true }
}

inline unlock_bucket()
{
	atomic { bucket = false; i = 0 }
}

inline append(who)
{
	queue[queued] = who;
	queued++
}

inline prepend(who)
{
	i = queued;
	do
	:: i > 0 -> queue[i] = queue[i - 1]; i--
	:: else -> break
	od;
	queue[0] = who;
	queued++
}

/* Takes `who` out, if it is in. */
inline take(who)
{
	i = 0;
	do
	:: i < queued && queue[i] != who -> i++
	:: else -> break
	od;
	if
	:: i < queued ->
		queued--;
		do
		:: i < queued -> queue[i] = queue[i + 1]; i++
		:: else -> break
		od;
		queue[queued] = 0
	:: else
	fi;
	i = 0
}

/* The first of kind `kind`, or NOBODY. */
inline first(kind, who)
{
	i = 0;
	who = NOBODY;
	do
	:: i < queued && awaiter[queue[i]] != kind -> i++
	:: i < queued && awaiter[queue[i]] == kind -> who = queue[i]; break
	:: else -> break
	od;
	i = 0
}

#define IS_TRUE (begun > 1)

/* Whom an unlock takes: an old locker, an awaiter whose condition is true, any locker. `taken` and
 * `told` say it, `flags` what stands in the word afterwards but for WAKING as seen. */
inline plan()
{
	first(false, locker);
	taken = NOBODY;
#ifdef AWAIT
	first(true, taken);
	if
	:: taken != NOBODY && IS_TRUE -> told = HANDOFF
	:: else -> taken = NOBODY
	fi;
#endif
	if
	:: locker != NOBODY -> taken = locker; told = HANDOFF
	:: locker != NOBODY && taken == NOBODY && !(seen & WAKING) -> taken = locker; told = DESIGNATED
	:: taken != NOBODY || locker == NOBODY || (seen & WAKING)
	fi;
	flags = 0;
	do
	:: i < queued ->
		if
		:: queue[i] == taken
#ifdef AWAIT
		:: queue[i] != taken && awaiter[queue[i]] -> flags = flags | AWAITED
#endif
		:: else -> flags = flags | PARKED
		fi;
		i++
	:: else -> break
	od;
	i = 0;
	locker = 0;
#ifdef FORGET_OTHERS
	flags = flags & ~PARKED;
#endif
#ifdef FORGET_AWAITED
	flags = flags & ~AWAITED;
#endif
}

#define NEXT(seen) (flags | (seen & (WAKING | ATOMIC_UNLOCK)) | \
	(taken == NOBODY -> 0 : (told == HANDOFF -> (taken + 1) * ONE : WAKING)))

#ifdef KEEP_WAKING
#define TAKEN_FLAGS(seen) (seen & FLAGS)
#else
#define TAKEN_FLAGS(seen) (chosen -> seen & FLAGS & ~WAKING : seen & FLAGS)
#endif
/* What is set besides with the first bit, by who fences then. */
#ifdef MANY
#define WITH_FIRST(seen) ((seen & FLAGS) -> 0 : ATOMIC_UNLOCK)
#else
#define WITH_FIRST(seen) 0
#endif

#ifdef SLEEP_WAKING
#define PARKED_WORD(seen) (seen | PARKED | WITH_FIRST(seen))
#else
#define PARKED_WORD(seen) ((chosen -> seen & ~WAKING : seen) | PARKED | WITH_FIRST(seen))
#endif

#ifdef ENTER_ANYWAY
#define STILL(seen) true
#else
#define STILL(seen) OWNER(seen)
#endif

#ifdef COND
/* Whether somebody will look into the queue of lockers. */
#ifdef MOVE_BLINDLY
#define LOOKED_AFTER(seen) true
#else
#define LOOKED_AFTER(seen) (OWNER(seen) || (seen & WAKING))
#endif
#endif

#ifdef CALM_BLINDLY
#define IS_CALM(seen) (seen & ATOMIC_UNLOCK)
#else
#define IS_CALM(seen) ((seen & FLAGS) == ATOMIC_UNLOCK)
#endif

active [THREADS] proctype thread()
{
	byte seen, section, i, locker, flags, told;
	byte taken = NOBODY;
	bool chosen, again, over, awaits, waits, last;

begin:
	/* near_mutex_lock */
#ifdef PLAIN_LOCK
	load(seen);
	if
	:: seen == 0 -> atomic { word = ME; check(); goto enter }
	:: else
	fi;
#else
	seen = 0;
	EXCHANGE(ME, 0, enter);
#endif

try:	/* try_take; a try of a spinner is the same */
	load(seen);
	do
	:: !OWNER(seen) -> EXCHANGE(ME | TAKEN_FLAGS(seen), chosen, taken_by_me)
	:: OWNER(seen) && over -> goto give_up
	:: OWNER(seen) && !over -> break
	od;

	/* enter, announce */
	again = again || chosen;
	lock_bucket();
	load(seen);
	do
	:: !STILL(seen) -> break
	:: STILL(seen) -> EXCHANGE(PARKED_WORD(seen), chosen, announced)
	od;
	seen = 0;
	unlock_bucket();
	goto try;

give_up:
	atomic { over = false; chosen = false; again = false; seen = 0 }
	goto begin;

announced:
	chosen = false;
#ifndef NO_FENCE
	if
	:: seen & FLAGS
	:: else ->
		fence();
		load(seen);
		if
		:: seen & PARKED
		:: else -> seen = 0; unlock_bucket(); goto try
		fi
	fi;
#endif
	atomic {
		seen = 0;
		waiting[_pid] = true;
		token[_pid] = 0;
		if
		:: again -> prepend(_pid)
		:: else -> append(_pid)
		fi
	}
	unlock_bucket();

sleep:	/* near__lot_sleep, of lockers and awaiters */
	if
	:: atomic { token[_pid] != 0 -> waiting[_pid] = false }
	:: atomic { timeouts > 0 && token[_pid] == 0 -> timeouts--; over = true }
		lock_bucket();
		atomic {
			locker = queued;
			take(_pid);
			if
#ifdef COND
			:: cond_waits && _pid == 0 -> cond_waits = false; waiting[_pid] = false
#endif
			:: queued < locker -> waiting[_pid] = false
			:: else -> over = false
			fi;
			locker = 0
		}
#ifdef LEAVE_ANYWAY
		atomic { waiting[_pid] = false; over = true };
#endif
		unlock_bucket();
		if
		:: over
		:: !over -> atomic { token[_pid] != 0 -> waiting[_pid] = false }
		fi
	fi;
	if
#ifdef AWAIT
	:: awaits -> goto awaited
#endif
#ifdef COND
	:: over && waits -> goto give_up
#endif
	:: !awaits && !over && token[_pid] == HANDOFF -> goto taken_by_me
	:: !awaits && !over && token[_pid] == DESIGNATED -> chosen = true
	:: else
	fi;
	goto try;

#ifdef AWAIT
awaited:	/* a deadline lets it begin anew */
	atomic {
		awaiter[_pid] = false;
		awaits = false;
		if
		:: over -> over = false; goto begin
		:: else
		fi
	}
#endif

taken_by_me:
enter:
	atomic {
		seen = 0; chosen = false; again = false; over = false; waits = false;
		inside++;
		assert(inside == 1)
	}
#ifdef AWAIT
	if
	:: _pid == 0 && !IS_TRUE && section == 0 -> goto await
	:: else
	fi;
#endif
#ifdef COND
	if
	:: _pid == 0 && !IS_TRUE && section == 0 -> goto wait
	:: else
	fi;
#endif
	begun++;
	section++;
	if
	:: section == SECTIONS -> atomic { users--; last = (users == 0) }
	:: else
	fi;
	inside--;
	goto unlock;

#ifdef AWAIT
await:	/* the mutex is held while this thread enters the queue */
	load(seen);
announce:
	EXCHANGE(seen | AWAITED, 0, to_queue);
	goto announce;
to_queue:
	atomic { awaits = true; awaiter[_pid] = true; inside-- }
#ifndef AWAIT_LATE
	lock_bucket();
	atomic { waiting[_pid] = true; token[_pid] = 0; append(_pid) }
	unlock_bucket();
#endif
#endif

#ifdef COND
wait:
	atomic { waits = true; inside-- }
#ifndef WAIT_LATE
	lock_bucket();
	atomic { waiting[_pid] = true; token[_pid] = 0; cond_waits = true }
	unlock_bucket();
#endif
#endif

unlock:	/* near_mutex_unlock: the sequence, which the kernel may abort at any time, then the CAS */
	atomic {
		check();
#ifdef FAST_WARY
		in_sequence[_pid] = ((word & ~ATOMIC_UNLOCK) == ME)
#else
		in_sequence[_pid] = (word == ME)
#endif
	}
	if
	:: atomic { in_sequence[_pid] -> word = 0; in_sequence[_pid] = false; check(); goto left }
	:: in_sequence[_pid] = false
	fi;
	seen = ME;
	EXCHANGE(0, 0, left);
	load(seen);
	do
	:: (seen & AWAITED) || ((seen & PARKED) && !(seen & WAKING)) -> break
	:: (seen & PARKED) && (seen & WAKING) -> break /* near_mutex_unlock_fair, is_time_to_look */
	:: !(seen & AWAITED) && (!(seen & PARKED) || (seen & WAKING)) ->
		EXCHANGE(seen & FLAGS, 0, left)
#ifdef MANY
	:: IS_CALM(seen) -> EXCHANGE(0, 0, left)
#endif
	od;
	lock_bucket();
	load(seen);
	/* Nobody else changes it: that takes the bucket's lock, or a mutex that is free. */
	INVARIANT(word == seen);
	atomic { plan() }
	atomic {
#ifdef HAND_LATE
			word = (told == HANDOFF && taken != NOBODY ->
				flags | (word & (WAKING | ATOMIC_UNLOCK)) : NEXT(word));
#elif defined(TOUCH_AFTER)
			word = NEXT(word) & ~PARKED;
#else
			word = NEXT(word);
#endif
			on_way = on_way + (taken != NOBODY && told == DESIGNATED);
			if
			:: taken != NOBODY -> take(taken)
			:: else
			fi;
		check()
	}
#ifdef TOUCH_AFTER
	atomic { word = word | (flags & PARKED); check() };
#endif
#ifdef HAND_LATE
	if
	:: taken != NOBODY && told == HANDOFF ->
		atomic { word = (word & FLAGS) + (taken + 1) * ONE; check() }
	:: else
	fi;
#endif
	unlock_bucket();
	if
	:: taken != NOBODY -> atomic { assert(waiting[taken]); token[taken] = told; told = 0 }
	:: else
	fi;

left:
	atomic { seen = 0; flags = 0; told = 0; taken = NOBODY }
#ifdef AWAIT
	if
	:: awaits ->
#ifdef AWAIT_LATE
		lock_bucket();
		atomic { waiting[_pid] = true; token[_pid] = 0; append(_pid) }
		unlock_bucket();
#endif
		goto sleep
	:: else
	fi;
#endif
#ifdef COND
	if
	:: waits ->
#ifdef WAIT_LATE
		lock_bucket();
		atomic { waiting[_pid] = true; token[_pid] = 0; cond_waits = true }
		unlock_bucket();
#endif
		goto sleep
	:: !waits && _pid != 0 && cond_waits -> goto signal
	:: else
	fi;
signalled:
#endif
	if
	:: last -> atomic { INVARIANT(OWNER(word) == 0 && queued == 0); gone = true }
	:: else
	fi;
	if
	:: section < SECTIONS -> goto begin
	:: else
	fi;
#ifdef COND
	goto end;

signal:	/* near__cond_wake, and near__mutex_admit */
	lock_bucket();
	atomic {
		if
		:: cond_waits -> cond_waits = false; append(0)
		:: else -> told = NOBODY
		fi
	}
	if
	:: told == NOBODY -> goto admitted
	:: else
	fi;
tell:
	load(seen);
	do
	:: LOOKED_AFTER(seen) -> EXCHANGE(seen | PARKED | WITH_FIRST(seen), 0, told_owner)
#ifndef MOVE_BLINDLY
	:: !LOOKED_AFTER(seen) ->
		taken = queue[0];
		atomic {
			if
			:: word == seen ->
				/* Others are not there: the mutex would not be free. */
				INVARIANT(queued == 1);
				word = (seen & FLAGS & ~PARKED) | WAKING;
				on_way++;
				queue[0] = 0;
				queued = 0;
				check();
				goto admitted
			:: else -> taken = NOBODY; seen = word; check()
			fi
		}
#endif
	od;
told_owner:
#ifndef SIGNAL_UNFENCED
	if
	:: seen & FLAGS
	:: else ->
		fence();
		load(seen);
		if
		:: seen & PARKED
		:: else -> goto tell
		fi
	fi;
#endif
admitted:
	unlock_bucket();
	if
	:: taken != NOBODY -> atomic { assert(waiting[taken]); token[taken] = DESIGNATED }
	:: else
	fi;
	atomic { seen = 0; told = 0; taken = NOBODY }
	goto signalled;
end:	skip
#endif
}
