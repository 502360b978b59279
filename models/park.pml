/* SPDX-License-Identifier: MIT */
/* The parking lot (src/parking: lot.c, sleep.c, cancel.c) in Promela: one waiter and all events
 * that concern it.
 *
 * The sleeper parks on address 0, ROUNDS times, with a new waiter each time. Movers take it from
 * one address to the other and back, so that it changes its bucket; a waker takes it from its
 * current address; TIMEOUTS waits, in all, end by a deadline; a token is set at some time. Each
 * access to the waiter's words is one step, so is each call of the kernel.
 *
 * Checked: the sleeper returns 0 if and only if a waker took it; no thread accesses a waiter after
 * its lifetime, except by a futex call; what a bucket's lock guards is changed under it; no thread
 * waits forever; every execution ends.
 *
 * The broken variants, each of which violates one argument of the sources:
 *   LEAVE_ANYWAY   a thread that leaves by a deadline does not check whether it was taken
 *   NO_RECHECK     a thread that leaves does not check its address again under the lock
 *   SLEEP_BLIND    the sleeper overwrites concurrent changes with its state
 *   WAKE_EARLY     a waker wakes before it takes the waiter out of the queue
 *   TOUCH_AFTER    a waker accesses the waiter after it woke it
 *   NO_NOTIFY      a token wakes a sleeper, and does not notify a thread that is about to sleep
 *   JOIN_LATE      a wait joins the token after a check of the flag without the lock
 *   ANY_ORDER      a mover locks the buckets in the order of its arguments
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif

#define ASLEEP 1
#define CANCELLED 2
#define WOKEN 4

/* The waiter. */
bool alive, queued;
byte address, word;

bool lock[2];
bool in_kernel; /* the sleeper, in FUTEX_WAIT */
bool is_set, joined;
bool taken;     /* by the waker, in this round */
bool finished;
byte timeouts = TIMEOUTS;

inline take_lock(which)
{
	atomic { !lock[which] -> lock[which] = true }
}

/* A futex call needs no waiter. */
inline futex_wake()
{
	in_kernel = false
}

/* One sleep, if the word is as it was seen. */
inline fall_asleep()
{
#ifdef SLEEP_BLIND
	word = seen | ASLEEP;
	waiting_on_futex = true;
#else
	atomic {
		if
		:: word == seen -> word = seen | ASLEEP; waiting_on_futex = true
		:: else
		fi
	}
#endif
	atomic {
		if
		:: waiting_on_futex && word == (seen | ASLEEP) -> in_kernel = true
		:: else
		fi
	}
}

inline wake_up()
{
	atomic {
		if
		:: waiting_on_futex -> word = word & (CANCELLED | WOKEN); waiting_on_futex = false
		:: else
		fi
	}
	seen = word
}

active proctype sleeper()
{
	byte seen, at, round;
	bool over, waiting_on_futex, was_queued;

again:
	take_lock(0);
	atomic { alive = true; address = 0; word = 0; taken = false; queued = true }
	lock[0] = false;

	/* near__cancel_join */
#ifdef JOIN_LATE
	if
	:: is_set -> over = true
	:: else
	fi;
	joined = !over;
#else
	atomic {
		if
		:: is_set -> over = true
		:: else -> joined = true
		fi
	}
#endif
	seen = word;
	do
	:: (seen & WOKEN) || over -> break
	:: !(seen & WOKEN) && !over && (seen & CANCELLED) -> over = true; seen = word
	:: !(seen & WOKEN) && !over && !(seen & CANCELLED) ->
		fall_asleep();
		if
		:: !in_kernel
		:: atomic { in_kernel && timeouts > 0 ->
				timeouts--; in_kernel = false; over = true }
		fi;
		wake_up()
	od;
	joined = false;
	if
	:: !over || (seen & WOKEN) -> over = false; goto woken
	:: else
	fi;

	/* leave */
check:
	at = address;
	take_lock(at);
#ifndef NO_RECHECK
	if
	:: address != at -> lock[at] = false; goto check
	:: else
	fi;
#endif
	atomic {
		assert(lock[address] && address == at);
		was_queued = queued;
		queued = false
	}
	lock[at] = false;
#ifdef LEAVE_ANYWAY
	goto left;
#endif
	if
	:: was_queued -> goto left
	:: else
	fi;
	seen = word;
	do
	:: seen & WOKEN -> break
	:: else -> fall_asleep(); !in_kernel; wake_up()
	od;
	over = false;

woken:
left:
	atomic {
		assert(taken == !over);
		alive = false;
		over = false; was_queued = false; at = 0; seen = 0;
		round++
	}
	if
	:: round < ROUNDS -> goto again
	:: else -> finished = true
	fi
}

#ifndef NO_WAKER
active proctype waker()
{
	byte at;
	bool asleep, took;

	do
	:: finished -> break
	:: atomic { queued -> at = address }
		take_lock(at);
		atomic {
			if
			:: queued && address == at ->
#ifndef WAKE_EARLY
				queued = false;
#endif
				took = true;
				taken = true
			:: else
			fi
		}
#ifndef WAKE_EARLY
		lock[at] = false;
#endif
		if
		:: took ->
			atomic { assert(alive); asleep = word & ASLEEP; word = word | WOKEN }
#ifdef WAKE_EARLY
			atomic { assert(alive); queued = false }
			lock[at] = false;
#endif
#ifdef TOUCH_AFTER
			assert(alive);
#endif
			if
			:: asleep -> futex_wake()
			:: else
			fi
#ifdef WAKE_EARLY
		:: else -> lock[at] = false
#else
		:: else
#endif
		fi;
		atomic { took = false; asleep = false; at = 0 }
	od
}
#endif

active proctype token()
{
	bool asleep;

	atomic {
		is_set = true;
		if
		:: joined ->
			assert(alive);
			joined = false;
			asleep = word & ASLEEP;
#ifndef NO_NOTIFY
			word = word | CANCELLED
#endif
		:: else
		fi
	}
	if
	:: asleep -> futex_wake()
	:: else
	fi
}

/* From one address to the other; the second mover the other way. */
active [2] proctype mover()
{
	byte from = _pid % 2;

#ifdef ANY_ORDER
	take_lock(from);
	take_lock(1 - from);
#else
	take_lock(0);
	take_lock(1);
#endif
	atomic {
		if
		:: queued && address == from -> assert(alive); address = 1 - from
		:: else
		fi
	}
	lock[0] = false;
	lock[1] = false
}
