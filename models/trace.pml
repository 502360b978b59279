/* SPDX-License-Identifier: MIT */
/* The end of a trace session, concurrently with events (src/trace/trace.h), in Promela.
 *
 * Two threads of one slot write events. A sequence loads the ring's address from the table, and
 * stores into the ring; where there is none, a slow path, in a section of RCU, loads the session,
 * opens the ring and writes by C code. The ender clears the session, waits for the sections that
 * have begun, clears the table, fences, and unmaps the file. Then it may begin another session.
 *
 * Checked: nobody accesses a ring whose file is not mapped; at the end the table has no ring of a
 * session that has ended.
 *
 * The broken variants:
 *   NO_GRACE      the ender does not wait for sections
 *   TABLE_FIRST   it clears the table before it waits: a slow path stores the address again
 *   NO_FENCE      it does not fence
 *   FENCE_FIRST   it fences before it clears the table
 *   NO_SECTION    the slow path loads the session before its section begins */
#ifndef EVENTS
#define EVENTS 2
#endif
#define THREADS 2
#define SESSIONS 2

#define NONE 0 /* else the number of a session */
byte current = 1, table = NONE;
bool mapped[SESSIONS + 1];
byte inside = 0; /* sections; each grace period waits for all: more than it has to */

#define IDLE 0
#define RUNS 1
#define ABORTED 2
byte sequence[THREADS];

#define ABORT(thread) \
	atomic { \
		if \
		:: sequence[thread] == RUNS -> sequence[thread] = ABORTED \
		:: else -> skip \
		fi \
	}

/* The threads share a slot: one runs after the other one was preempted. */
inline begin_sequence()
{
	atomic {
		ABORT(1 - me);
		sequence[me] = RUNS
	}
}

#define STEP(what, otherwise) \
	atomic { \
		if \
		:: sequence[me] == ABORTED -> goto otherwise \
		:: else -> what \
		fi \
	}

proctype thread(byte me)
{
	byte n = 0, ring, session;

	do
	:: n < EVENTS ->
		begin_sequence();
		STEP(ring = table, slow);
		STEP(if :: ring == NONE -> goto slow :: else -> skip fi, slow);
		STEP(assert(mapped[ring]), slow);
		STEP(assert(mapped[ring]); sequence[me] = IDLE, slow);
		goto next;
slow:
		sequence[me] = IDLE;
#ifdef NO_SECTION
		session = current;
		inside++;
#else
		inside++;
		session = current;
#endif
		if
		:: session != NONE ->
			assert(mapped[session]);
			if
			:: table == NONE -> table = session
			:: else -> skip
			fi;
			assert(mapped[session])
		:: else -> skip
		fi;
		inside--;
next:
		n++
	:: else -> break
	od
}

inline fence()
{
	ABORT(0);
	ABORT(1)
}

inline wait_for_sections()
{
#ifdef NO_GRACE
	skip
#else
	inside == 0
#endif
}

proctype ender()
{
	byte i = 1;

	do
	:: i <= SESSIONS ->
		current = NONE;
#ifdef TABLE_FIRST
		table = NONE;
		fence();
		wait_for_sections();
#else
		wait_for_sections();
#ifdef FENCE_FIRST
		fence();
#endif
		table = NONE;
#if !defined NO_FENCE && !defined FENCE_FIRST
		fence();
#endif
#endif
		mapped[i] = false;
		i++;
		if
		:: i <= SESSIONS ->
			mapped[i] = true;
			current = i
		:: else -> skip
		fi
	:: else -> break
	od;
	assert(table == NONE)
}

init
{
	atomic {
		mapped[1] = true;
		run thread(0);
		run thread(1);
		run ender()
	}
}
