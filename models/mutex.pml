/* SPDX-License-Identifier: MIT */
/* near_mutex (src/locks/mutex.c) in Promela: every access to the word is one step, as are the taking of the
 * bucket's lock and what is done to the queue under it.
 *
 * Each thread locks SECTIONS times, and stops being a user of the mutex inside its last section.
 * The last user frees the memory after its unlock: any access to the word from then on is an error.
 * TIMEOUTS waits, in all, end by a deadline or a token; such a thread starts again. Whether a
 * waiter is old enough for a reservation, and the last one long enough ago, is left open: both are
 * tried. So is when a waiter stops to rely on the designated waker. With AWAIT, thread 0 waits
 * inside its first section until another thread's section has begun. With COND it does so by a
 * condition variable (src/locks/cond.c), and all others signal after each of their sections; with
 * BROADCAST they broadcast: that moves the waiter to the mutex's queue, from which it may at any
 * time be taken and woken, by another waiter of the same broadcast. STOPS threads, in all, are
 * suspended while they wait, by a signal handler or a debugger; each goes on at some time, or
 * never. With STOPS, any waiter may also be awake already when it is woken. With MANY CPUs, the thread that fences sets ATOMIC_UNLOCK, and unlocks may clear it: after how many is
 * left open. An unlock that uses a CAS without need is equivalent to one whose sequence is not
 * interrupted.
 *
 * Checked: mutual exclusion; no access to freed memory; a waker finds the waiter still waiting; no
 * thread sleeps forever (no deadlock state), but one that is suspended; every execution ends. Unless HARM_ONLY is given, so
 * are the invariants of the argument in src/locks/mutex.h.
 *
 * The broken variants, each of which violates one argument of src/locks/mutex.h:
 *   PLAIN_LOCK     the fast path loads, then stores
 *   ENTER_ANYWAY   a waiter enters the queue although there is no owner
 *   KEEP_WAKING    the designated waker takes the mutex and leaves WAKING set
 *   SLEEP_WAKING   the designated waker enters the queue again and leaves WAKING set
 *   FORGET_OTHERS  an unlock clears PARKED although others stay in the queue
 *   HAND_OVER      an unlock makes an old waiter the owner, instead of a reservation
 *   TRUST_WAKE     a waker whose wake-up found the waiter awake or suspended wakes no other
 *   NEXT_TOUCH     it loads the word, although no waiter is in the queue
 *   TRUST_ON       a waiter relies on the designated waker as long as that takes
 *   LEAVE_ANYWAY   a waiter leaves by a deadline although it was taken
 *   TOUCH_AFTER    an unlock releases with one change and sets the bits with a second one
 *   AWAIT_LATE     an awaiter enters the queue after its unlock
 *   FORGET_AWAITED an unlock clears AWAITED although an awaiter stays
 *   WAIT_LATE      a waiter for the condition variable enters its queue after its unlock
 *   NO_FENCE       a waiter enters the queue without a fence
 *   SIGNAL_UNFENCED a broadcast sets PARKED without a fence
 *   FAST_ALWAYS    the fast unlock ignores ATOMIC_UNLOCK
 *   CLEAR_BLINDLY  an unlock by CAS that clears ATOMIC_UNLOCK ignores the other bits
 *   TAKE_UNLOCKED  with BROADCAST: the other waiter takes it without the bucket's lock
 *   MOVE_BLINDLY   a broadcast moves a waiter to the mutex and sets PARKED, though the mutex may be free
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
#define RESERVED 16 /* for the designated waker; there is no owner */
#define FLAGS 31
#define ONE 32
#define OWNER(word) ((word) / ONE)
#define ME ((_pid + 1) * ONE)

#define DESIGNATED 1
#define HANDOFF 2 /* of HAND_OVER alone */
#define WOKEN 3
#define RESERVES 4 /* designates, and reserves the mutex */
#define NOBODY 255

#ifdef HARM_ONLY
#define INVARIANT(it) skip
#else
#define INVARIANT(it) assert(it)
#endif

byte word;
bool bucket;      /* the lock of the queue */
byte queue[4];    /* its threads, the first at index 0 */
byte queued;
bool awaiter[4];  /* of kind */
byte token[4];    /* the waker's token; the waiter waits for it */
bool waiting[4];
bool bounded[4]; /* it entered the queue while a designated waker was on its way */
byte timeouts = TIMEOUTS;
#ifdef STOPS
byte stops = STOPS;
bool stopped[4];
#endif

bool moved; /* it was moved to the queue of the mutex, and has not woken up yet */
bool cond_waits;  /* thread 0 is in the queue of the condition variable; one lock stands for both */

byte users = THREADS, inside, begun;
bool gone;
bool in_sequence[4]; /* of the fast unlock: between its load and its store */
byte on_way; /* designated wakers that have not decided yet, also without WAKING */

/* Lockers in the queue. */
#define PARKING ((queued > 0 && !awaiter[queue[0]]) || (queued > 1 && !awaiter[queue[1]]) || \
		 (queued > 2 && !awaiter[queue[2]]) || (queued > 3 && !awaiter[queue[3]]))

inline check()
{
	assert(!gone);
	INVARIANT(on_way > 0 || !(word & WAKING));
	INVARIANT(!(word & RESERVED) || ((word & WAKING) && !OWNER(word)));
	INVARIANT(bucket || !PARKING || (word & PARKED));
	INVARIANT(bucket || !PARKING || OWNER(word) || (word & WAKING))
}

inline load(seen)
{
	atomic { seen = word; check() }
}

/* Goes to done if the word was as seen; `less`: whether a designated waker has decided. */
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

inline append(entry)
{
	queue[queued] = entry;
	queued++
}

inline prepend(entry)
{
	i = queued;
	do
	:: i > 0 -> queue[i] = queue[i - 1]; i--
	:: else -> break
	od;
	queue[0] = entry;
	queued++
}

/* Removes `entry` from the queue, if it is in it. */
inline take(entry)
{
	i = 0;
	do
	:: i < queued && queue[i] != entry -> i++
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
inline first(kind, entry)
{
	i = 0;
	entry = NOBODY;
	do
	:: i < queued && awaiter[queue[i]] != kind -> i++
	:: i < queued && awaiter[queue[i]] == kind -> entry = queue[i]; break
	:: else -> break
	od;
	i = 0
}

/* near__lot_wake: wakes `taken`, if any. If that was not asleep, near__mutex_wake_next. */
#ifdef STOPS
/* A thread that unlocks to wait for its condition is in the queue itself. */
#define NEXT (queued > 0 && queue[0] != _pid -> queue[0] : \
	(queued > 1 && queue[1] != _pid -> queue[1] : NOBODY))
inline wake_taken(how)
{
	outcome = how;
	do
	:: taken == NOBODY -> break
	:: taken != NOBODY ->
		atomic {
			assert(waiting[taken]);
			token[taken] = outcome;
			if
			:: missed = true
			:: !stopped[taken] -> missed = false
			fi
		}
#ifdef TRUST_WAKE
		break;
#endif
		if
		:: missed -> missed = false
		:: else -> break
		fi;
		taken = NOBODY;
		outcome = DESIGNATED;
		lock_bucket();
#ifdef NEXT_TOUCH
		atomic { check() };
#endif
		atomic {
			if
			:: NEXT != NOBODY && !(OWNER(word) && !(word & WAKING)) ->
				taken = NEXT;
				take(taken);
				on_way++;
				check()
			:: else
			fi
		}
		unlock_bucket()
	od
}
#else
inline wake_taken(how)
{
	if
	:: taken != NOBODY -> atomic { assert(waiting[taken]); token[taken] = how; outcome = 0 }
	:: else
	fi
}
#endif

#ifdef STOPS
#define IS_TRUE (begun > 0) /* one thread is enough: the others may be suspended for ever */
#else
#define IS_TRUE (begun > 1)
#endif

/* Selects the thread that an unlock takes: an old locker, an awaiter whose condition is true, any
 * locker. Sets `taken` and `outcome`, and `flags` to the word's bits afterwards, without WAKING. */
inline plan()
{
	first(false, locker);
	taken = NOBODY;
#ifdef AWAIT
	first(true, taken);
	if
	:: taken != NOBODY && IS_TRUE -> outcome = RESERVES
	:: else -> taken = NOBODY
	fi;
#endif
	if
#ifdef HAND_OVER
	:: locker != NOBODY -> taken = locker; outcome = HANDOFF
#else
	:: locker != NOBODY -> taken = locker; outcome = RESERVES
#endif
	:: locker != NOBODY && taken == NOBODY && !(seen & WAKING) -> taken = locker; outcome = DESIGNATED
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
	(taken == NOBODY -> 0 : (outcome == HANDOFF -> (taken + 1) * ONE : \
	(outcome == RESERVES -> WAKING | RESERVED : WAKING))))

#ifdef KEEP_WAKING
#define TAKEN_FLAGS(seen) (seen & FLAGS & ~RESERVED)
#else
#define TAKEN_FLAGS(seen) (seen & FLAGS & ~RESERVED & ~(designated -> WAKING : 0))
#endif
#define IS_MINE_TO_TAKE(seen) (!OWNER(seen) && (!(seen & RESERVED) || designated || over))
/* What a thread that fences sets together with the first bit. */
#ifdef MANY
#define WITH_FIRST(seen) ((seen & FLAGS) -> 0 : ATOMIC_UNLOCK)
#else
#define WITH_FIRST(seen) 0
#endif

#ifdef SLEEP_WAKING
#define PARKED_WORD(seen) (seen | PARKED | WITH_FIRST(seen))
#else
#define PARKED_WORD(seen) ((designated -> seen & ~WAKING : seen) | PARKED | WITH_FIRST(seen))
#endif

#ifdef ENTER_ANYWAY
#define STILL(seen) true
#else
#define STILL(seen) (OWNER(seen) || ((seen & RESERVED) && !designated))
#endif
#ifdef TRUST_ON
#define IS_BOUNDED(seen) false
#else
#define IS_BOUNDED(seen) ((seen & WAKING) && !designated)
#endif

#ifdef COND
/* Whether a later unlock will check the queue of lockers. */
#ifdef MOVE_BLINDLY
#define IS_CHECKED_LATER(seen) true
#else
#define IS_CHECKED_LATER(seen) (OWNER(seen) || (seen & WAKING))
#endif
#endif

#ifdef CLEAR_BLINDLY
#define IS_CLEARABLE(seen) (seen & ATOMIC_UNLOCK)
#else
#define IS_CLEARABLE(seen) ((seen & FLAGS) == ATOMIC_UNLOCK)
#endif

active [THREADS] proctype thread()
{
	byte seen, section, i, locker, flags, outcome;
	byte taken = NOBODY;
	bool designated, again, over, late, awaits, waits, last;
#ifdef STOPS
	bool missed, stays;
#endif

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

try:	/* take: a CAS that succeeds with a guess is a load of it and the exchange; a spinner's too */
	load(seen);
	do
	:: IS_MINE_TO_TAKE(seen) -> EXCHANGE(ME | TAKEN_FLAGS(seen), designated, taken_by_me)
	:: !IS_MINE_TO_TAKE(seen) && over -> goto give_up
	:: !IS_MINE_TO_TAKE(seen) && !over -> break
	od;

	/* enter, announce */
	again = again || designated;
	lock_bucket();
	load(seen);
	do
	:: !STILL(seen) -> break
	:: STILL(seen) -> EXCHANGE(PARKED_WORD(seen), designated, announced)
	od;
	seen = 0;
	unlock_bucket();
	goto try;

give_up:
	atomic { over = false; designated = false; again = false; seen = 0 }
	goto begin;

announced:
	atomic { bounded[_pid] = IS_BOUNDED(seen); designated = false }
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
	:: atomic { token[_pid] != 0 -> waiting[_pid] = false; moved = moved && _pid != 0 }
		goto woken
	:: atomic { timeouts > 0 && token[_pid] == 0 -> timeouts--; over = true }
	:: atomic { bounded[_pid] && token[_pid] == 0 -> late = true }
#ifdef STOPS
	:: atomic {
			stops > 0 && token[_pid] == 0 ->
			stops--;
			stopped[_pid] = true;
			if
			:: stays = true
			:: stays = false
			fi
		}
end_stopped:
		atomic { !stays -> stopped[_pid] = false }
		goto sleep
#endif
	fi;
	lock_bucket();
	atomic {
		locker = queued;
		take(_pid);
		if
#ifdef COND
		:: cond_waits && _pid == 0 -> cond_waits = false; waiting[_pid] = false
#endif
		:: queued < locker -> waiting[_pid] = false; moved = moved && _pid != 0
		:: else -> over = false; late = false
		fi;
		locker = 0;
		designated = late;
		on_way = on_way + late
	}
#ifdef LEAVE_ANYWAY
	atomic { waiting[_pid] = false; over = true };
#endif
	unlock_bucket();
	if
	:: over || late
	:: !over && !late ->
		atomic { token[_pid] != 0 -> waiting[_pid] = false; moved = moved && _pid != 0 }
	fi;
woken:
	atomic {
		bounded[_pid] = false;
		if
		:: !over && !late && token[_pid] == DESIGNATED -> designated = true
		:: else
		fi;
		late = false
	}
	if
#ifdef AWAIT
	:: awaits -> goto awaited
#endif
#ifdef COND
	:: over && waits -> goto give_up
#endif
#ifdef HAND_OVER
	:: !over && token[_pid] == HANDOFF -> goto taken_by_me
#endif
	:: else
	fi;
	goto try;

#ifdef AWAIT
awaited:	/* after a deadline it starts again */
	atomic {
		awaiter[_pid] = false;
		awaits = false;
		if
		:: over -> over = false; goto begin
		:: else -> goto try
		fi
	}
#endif

taken_by_me:
enter:
	atomic {
		seen = 0; designated = false; again = false; over = false; waits = false;
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
#ifdef FAST_ALWAYS
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
	:: (seen & PARKED) && (seen & WAKING) -> break /* near_mutex_unlock_fair, is_time_to_check */
	:: !(seen & AWAITED) && (!(seen & PARKED) || (seen & WAKING)) ->
		EXCHANGE(seen & FLAGS, 0, left)
#ifdef MANY
	:: IS_CLEARABLE(seen) -> EXCHANGE(0, 0, left)
#endif
	od;
	lock_bucket();
	load(seen);
	/* Nobody else changes it: that takes the bucket's lock, or a mutex that is free. */
	INVARIANT(word == seen);
	atomic { plan() }
	atomic {
#ifdef TOUCH_AFTER
			word = NEXT(word) & ~PARKED;
#else
			word = NEXT(word);
#endif
			on_way = on_way + (taken != NOBODY && outcome != HANDOFF);
			if
			:: taken != NOBODY -> take(taken)
			:: else
			fi;
		check()
	}
#ifdef TOUCH_AFTER
	atomic { word = word | (flags & PARKED); check() };
#endif
	unlock_bucket();
	wake_taken((outcome == RESERVES -> DESIGNATED : outcome));

left:
	atomic { seen = 0; flags = 0; outcome = 0; taken = NOBODY }
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

signal:	/* near__cond_signal: the waiter then competes like a thread that was never in a queue */
	lock_bucket();
#ifndef BROADCAST
	atomic {
		if
		:: cond_waits -> cond_waits = false; taken = 0
		:: else
		fi
	}
	unlock_bucket();
	wake_taken(WOKEN);
#else
	/* near__cond_broadcast, and near__mutex_admit */
	atomic {
		if
		:: cond_waits -> cond_waits = false; moved = true; append(0)
		:: else -> outcome = NOBODY
		fi
	}
	if
	:: outcome == NOBODY -> goto admitted
	:: else
	fi;
tell:
	load(seen);
	do
	:: IS_CHECKED_LATER(seen) -> EXCHANGE(seen | PARKED | WITH_FIRST(seen), 0, owner_notified)
#ifndef MOVE_BLINDLY
	:: !IS_CHECKED_LATER(seen) ->
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
owner_notified:
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
	wake_taken(DESIGNATED);
#endif
	atomic { seen = 0; outcome = 0; taken = NOBODY }
	goto signalled;
end:	skip
#endif
}

#ifdef BROADCAST
/* wake_others in src/locks/cond.c */
active proctype other()
{
	byte i, before;
	bool took;

	if
#ifdef TAKE_UNLOCKED
	:: atomic { moved -> before = queued };
#else
	:: atomic { moved && !bucket -> bucket = true; before = queued };
#endif
		atomic { take(0); took = before > queued };
#ifndef TAKE_UNLOCKED
		unlock_bucket();
#endif
		if
		:: took -> atomic { assert(waiting[0]); token[0] = WOKEN }
		:: else
		fi
	:: gone
	fi
}
#endif
