/* SPDX-License-Identifier: MIT */
/* near_queue's done and join (src/queue/join.c) in Promela. Two putters put one element each, on a
 * slot of their own; two workers take what is visible, and add to `done` of their slot; a thread
 * joins twice, at any moment. A store is visible to all at once, or stays in the buffer of its
 * thread until a fence. Each load of a sum is a step. What is done to the sleeper under the lock of
 * the bucket is one step. queue.pml has the rest of the queue.
 *
 * Checked: a join returns (no deadlock state), and then there was a moment during the call at which
 * no visible element was not done.
 *
 * The broken variants, each of which violates one argument of src/queue/queue.h:
 *   NO_FENCE      a done loads `joiners` without a fence
 *   ENTER_LATE    a joiner sums, and sets `joiners` then
 *   SLEEP_BLIND   a joiner sleeps without a sum after its fence
 *   TAILS_FIRST   the tails are loaded before those that are done
 *   TRUST_WAKE    a joiner that is woken does not sum again
 *   HINT_EARLY    a done looks for elements that are left before it adds
 */
#define PUTS 2
#define SLOTS 2

byte tail[SLOTS], done[SLOTS]; /* as all see them */
byte buffered[SLOTS];          /* added to done, but seen by its thread alone */
byte taken;
bool joiners, sleeps, woken, was_clear;

#define PENDING (tail[0] + tail[1] - done[0] - done[1])
#define NOTE was_clear = was_clear || PENDING == 0

inline sum()
{
#ifdef TAILS_FIRST
	put = tail[0];
	put = put + tail[1];
	d = done[0];
	d = d + done[1];
#else
	d = done[0];
	d = d + done[1];
	put = tail[0];
	put = put + tail[1];
#endif
	atomic { all = (d == put); d = 0; put = 0 }
}

active [PUTS] proctype putter()
{
	atomic { tail[_pid % SLOTS]++; NOTE }
}

active [2] proctype worker()
{
	byte d, put, me = _pid % SLOTS;
	bool all, left;

	do
	:: atomic { taken < tail[0] + tail[1] -> taken++ };
#ifdef HINT_EARLY
		left = taken < tail[0] + tail[1];
#endif
		atomic {
			if
			:: buffered[me]++
			:: done[me]++; NOTE
			fi
		};
#ifndef NO_FENCE
		atomic { done[me] = done[me] + buffered[me]; buffered[me] = 0; NOTE };
#endif
		if
		:: joiners ->
#ifndef HINT_EARLY
			left = taken < tail[0] + tail[1];
#endif
			if
			:: !left -> sum()
			:: else
			fi;
			if
			:: all ->
				atomic {
					woken = woken || sleeps;
					sleeps = false;
					joiners = false;
					all = false
				}
			:: else
			fi
		:: else
		fi;
#ifdef NO_FENCE
		atomic { done[me] = done[me] + buffered[me]; buffered[me] = 0; NOTE }
#endif
	:: taken == PUTS -> break
	od
}

/* Twice: the first join leaves `joiners` set if it need not sleep. */
active proctype joiner()
{
	byte d, put, times;
	bool all;

	do
	:: times < 2 ->
		atomic { times++; was_clear = (PENDING == 0) };
		do
		:: sum();
			if
			:: all -> break
			:: else
			fi;
#ifdef ENTER_LATE
			sum();
			atomic { sleeps = !all; woken = false; joiners = true };
#else
			atomic { sleeps = true; woken = false; joiners = true };
#ifndef SLEEP_BLIND
			sum();
#endif
#endif
			if
			:: all -> atomic { sleeps = false; break }
			:: else ->
				woken;
#ifdef TRUST_WAKE
				break
#endif
			fi
		od;
		atomic { assert(was_clear); all = false }
	:: else -> break
	od
}
