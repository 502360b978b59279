/* SPDX-License-Identifier: MIT */
/* near_refcount's kill and revive (src/percpu/refcount.c) in Promela: the states that two users on one
 * slot and a killer can get into. refcount.cc has C11's orderings.
 *
 * A user counts by a sequence, in the fallback word or in the exact count, whichever it likes: it
 * may have been aborted too often, found the lock taken, or learnt long ago that a gate was closed.
 * Its C code stands still anywhere for as long as it likes, also between loading a word and the
 * CAS. A sequence loads gate and count in either order. The killer kills, revives while it holds a
 * reference, and kills again.
 *
 * Checked: the release callback runs once, after a kill, when nobody holds a reference; the exact
 * count is zero then, and never below; no thread hangs.
 *
 * The broken variants:
 *   NO_FIRST_FENCE   kill adds up directly after closing
 *   NO_SECOND_FENCE  revive opens without a fence
 *   KEEP_COUNT       kill leaves the slot's count where it is
 *   BIAS_OFF_FIRST   kill subtracts the bias before it has added up
 *   BIAS_ON_LAST     revive adds the bias after all gates are open
 *   OPEN_ANYTIME     the slot's gate is opened without the lock and a check of the mode
 *   START_ANYTIME    so is the fallback word
 *   LOAD_THEN_CLOSE  kill reads the fallback word and closes it in two steps
 *   LOAD_THEN_STORE  a fallback changes the word in two steps
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define USERS 2
#define BIAS 50

#define UNOPENED 0
#define OPEN 1
#define CLOSED 2

byte gate = UNOPENED;
short count;
byte word_state = UNOPENED; /* with word_count one word */
short word_count;
short exact = BIAS + 1 + USERS + (ROUNDS - 1);
bool killed; /* the mode */
bool lock;

#define IDLE 0
#define RUNS 1
#define ABORTED 2
byte sequence[USERS]; /* of each thread of the slot */

/* For the checks. */
byte refs = 1 + USERS + (ROUNDS - 1);
bool dying;
byte released, done;

inline acquire_lock()
{
	atomic { !lock -> lock = true }
}

#define ABORT(thread) \
	atomic { \
		if \
		:: sequence[thread] == RUNS -> sequence[thread] = ABORTED \
		:: else -> skip \
		fi \
	}

inline fence()
{
	ABORT(0);
	ABORT(1)
}

inline begin_sequence()
{
	atomic { ABORT(1 - me); sequence[me] = RUNS }
}

#define STEP(what) \
	atomic { \
		if \
		:: sequence[me] == ABORTED -> goto failed \
		:: else -> what \
		fi \
	}

inline add_exact(n)
{
	atomic {
		exact = exact + n;
		assert(exact >= 0);
		if
		:: exact == 0 ->
			assert(dying && refs == 0 && released == 0);
			released++
		:: else -> skip
		fi
	}
}

/* Puts the reference that it came with; before that, if op is 0, gets and puts another one. */
proctype user(byte me; byte op)
{
	short value;
	byte state;
	short n = (op == 0 -> 1 : -1);

next:
	atomic {
		if
		:: n < 0 -> refs--
		:: else -> skip
		fi;
		if
		:: skip -> goto by_sequence
		:: skip -> goto fallback
		:: skip -> goto exact_count
		fi
	}

by_sequence:
	begin_sequence();
	if
	:: skip; STEP(state = gate); STEP(value = count)
	:: skip; STEP(value = count); STEP(state = gate)
	fi;
	if
	:: state != OPEN -> goto failed
	:: else -> skip
	fi;
	STEP(count = value + n; sequence[me] = IDLE);
	goto counted;

failed:
	/* open_own; if the lock is taken, it is not waited for. That the sequence is then tried
	 * once more is left to the next operation. */
	atomic { sequence[me] = IDLE; value = 0; state = gate }
	if
	:: state == UNOPENED ->
#ifdef OPEN_ANYTIME
		atomic {
			if
			:: gate == UNOPENED -> gate = OPEN
			:: else -> skip
			fi
		}
#else
		atomic {
			if
			:: lock -> goto fallback
			:: else -> lock = true
			fi
		}
		atomic {
			if
			:: !killed && gate == UNOPENED -> gate = OPEN
			:: else -> skip
			fi;
			lock = false
		}
#endif
	:: else -> skip
	fi;

fallback:
	atomic { state = word_state; value = word_count }
	do
	:: state == CLOSED -> goto exact_count
	:: state == UNOPENED ->
#ifdef START_ANYTIME
		word_state = OPEN;
#else
		atomic {
			if
			:: lock -> goto exact_count
			:: else -> lock = true
			fi
		}
		atomic {
			if
			:: word_state == UNOPENED -> word_state = (killed -> CLOSED : OPEN)
			:: else -> skip
			fi;
			lock = false
		}
#endif
		atomic { state = word_state; value = word_count }
	:: state == OPEN ->
#ifdef LOAD_THEN_STORE
		atomic { word_state = state; word_count = value + n; goto counted }
#else
		atomic {
			if
			:: word_state == state && word_count == value ->
				word_count = value + n;
				goto counted
			:: else -> state = word_state; value = word_count
			fi
		}
#endif
	od;

exact_count:
	add_exact(n);

counted:
	atomic {
		state = 0; value = 0;
		op++;
		if
		:: n > 0 -> refs++
		:: else -> skip
		fi;
		n = -1;
		if
		:: op < 3 -> goto next
		:: else -> done++
		fi
	}
}

proctype killer()
{
	short total;
	byte round;

	do
	:: round == ROUNDS -> break
	:: else ->
		round++;
		/* near_refcount_kill */
		atomic { dying = true; refs-- }
		acquire_lock();
		killed = true;
#ifdef BIAS_OFF_FIRST
		add_exact(-BIAS - 1);
#endif
		atomic {
			if
			:: gate == OPEN -> gate = CLOSED
			:: else -> skip
			fi
		}
#ifndef NO_FIRST_FENCE
		fence();
#endif
#ifdef LOAD_THEN_CLOSE
		total = word_count;
		atomic { word_count = 0; word_state = CLOSED }
#else
		atomic { total = word_count; word_count = 0; word_state = CLOSED }
#endif
		total = total + count;
#ifndef KEEP_COUNT
		count = 0;
#endif
		lock = false;
#ifdef BIAS_OFF_FIRST
		add_exact(total);
#else
		add_exact(total - BIAS - 1);
#endif
		total = 0;
#if ROUNDS > 1
		if
		:: round == ROUNDS -> break
		:: else -> skip
		fi;
		/* near_refcount_revive */
		acquire_lock();
		dying = false;
#ifndef BIAS_ON_LAST
		exact = exact + BIAS + 1;
#endif
#ifndef NO_SECOND_FENCE
		fence();
#endif
		word_state = OPEN;
		atomic {
			if
			:: gate == CLOSED -> gate = OPEN
			:: else -> skip
			fi
		}
		killed = false;
#ifdef BIAS_ON_LAST
		exact = exact + BIAS + 1;
#endif
		lock = false;
		/* The killer puts one of the new reference and the one that it held. */
		atomic { exact--; assert(exact > 0) }
#endif
	od;
	done++
}

init
{
	atomic {
		run user(0, 0);
		run user(1, 2);
		run killer()
	}
	done == USERS + 1 -> assert(released == 1 && exact == 0)
}
