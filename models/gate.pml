/* SPDX-License-Identifier: MIT */
/* Close, fence, change, fence, open (src/percpu/gate.h) in Promela: the states of two threads of
 * one slot, two closers and a fork. gate.cc has C11's orderings.
 *
 * The threads of the slot add to a number by sequences, and to another one by their fallback; the
 * closers take the number. A sequence loads gate and number in either order, as a weakly ordered
 * CPU does. It is aborted by a fence, and when another thread runs on the slot.
 *
 * Checked: a thread that changes the number changes the value that it has loaded, so that the sum
 * of what was taken and what is left equals what was added; no child of a fork finds a gate closed;
 * no thread hangs.
 *
 * The broken variants:
 *   NO_FIRST_FENCE   the change follows the close without a fence
 *   NO_SECOND_FENCE  the gate opens directly after the change
 *   OPEN_EARLY       the second fence comes after the open
 *   PLAIN_FENCE      the fence orders memory and aborts no sequence
 *   PREEMPT_KEEPS    a preempted thread continues its sequence (Linux 6.19 on arm64)
 *   FALLBACK_INSIDE  the fallback writes what sequences write
 *   CLOSE_ANYWAY     closers hold no lock and store CLOSED
 *   FORK_ANYTIME     fork does not wait for closers
 *
 * That a close is a CAS would do without the lock here, since nobody else opens a gate that is
 * closed; the lock is what fork and refcount need. */
#ifndef ADDS
#define ADDS 2
#endif
#ifndef CLOSERS
#define CLOSERS 2
#endif
#ifndef FORKS
#define FORKS 1
#endif
#define THREADS 2
#define TRIES 2

#define UNOPENED 0
#define OPEN 1
#define CLOSED 2

byte gate = UNOPENED;
byte number, fallback; /* fallback: where no sequence writes */
byte taken;

#define IDLE 0
#define RUNS 1
#define ABORTED 2
byte sequence[THREADS]; /* of each thread of the slot */
bool lock;
byte done;

inline acquire_lock()
{
	atomic { !lock -> lock = true }
}

/* The CPU of each thread has its moment. */
#define ABORT(thread) \
	atomic { \
		if \
		:: sequence[thread] == RUNS -> sequence[thread] = ABORTED \
		:: else -> skip \
		fi \
	}

/* The CPU of each thread has its moment. */
inline fence()
{
#ifndef PLAIN_FENCE
	ABORT(0);
	ABORT(1);
#endif
	skip
}

inline begin_sequence()
{
	atomic {
#ifndef PREEMPT_KEEPS
		ABORT(1 - me);
#endif
		sequence[me] = RUNS
	}
}

#define STEP(what) \
	atomic { \
		if \
		:: sequence[me] == ABORTED -> goto failed \
		:: else -> what \
		fi \
	}

proctype slot_thread(byte me)
{
	byte state, value, tries, adds;

again:
	begin_sequence();
	if
	:: skip; STEP(state = gate); STEP(value = number)
	:: skip; STEP(value = number); STEP(state = gate)
	fi;
	if
	:: state != OPEN -> goto failed
	:: else -> skip
	fi;
	STEP(assert(number == value); number = value + 1; sequence[me] = IDLE);
	goto added;

failed:
	/* near__gate_open_first, then once more or not. */
	atomic {
		sequence[me] = IDLE;
		if
		:: gate == UNOPENED -> gate = OPEN
		:: else -> skip
		fi;
		state = gate;
		value = 0;
		tries++
	}
	if
	:: state == OPEN && tries < TRIES -> goto again
	:: else -> skip
	fi;
#ifdef FALLBACK_INSIDE
	value = number;
	atomic { assert(number == value); number = value + 1 }
#else
	fallback++;
#endif

added:
	atomic { tries = 0; state = 0; value = 0; adds++ }
	if
	:: adds < ADDS -> goto again
	:: else -> done++
	fi
}

proctype closer()
{
	bool mine;
	byte value;

#ifdef CLOSE_ANYWAY
	atomic {
		if
		:: gate != UNOPENED -> gate = CLOSED; mine = true
		:: else -> skip
		fi
	}
#else
	acquire_lock();
	atomic {
		if
		:: gate == OPEN -> gate = CLOSED; mine = true
		:: else -> skip
		fi
	}
#endif
	if
	:: mine ->
#ifndef NO_FIRST_FENCE
		fence();
#endif
		value = number;
		atomic { assert(number == value); number = 0 }
#ifdef OPEN_EARLY
		gate = OPEN;
#endif
#ifndef NO_SECOND_FENCE
		fence();
#endif
#ifndef OPEN_EARLY
		gate = OPEN
#endif
	:: else -> skip
	fi;
	lock = false;
	atomic { taken = taken + value; done++ }
}

#if FORKS
/* What the child of a fork finds. */
proctype forker()
{
#ifndef FORK_ANYTIME
	acquire_lock();
#endif
	assert(gate != CLOSED);
	atomic { lock = false; done++ }
}
#endif

init
{
	atomic {
		run slot_thread(0);
		run slot_thread(1);
		run closer();
#if CLOSERS > 1
		run closer();
#endif
#if FORKS
		run forker()
#endif
	}
	done == THREADS + CLOSERS + FORKS ->
		assert(number + fallback + taken == THREADS * ADDS)
}
