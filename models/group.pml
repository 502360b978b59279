/* SPDX-License-Identifier: MIT */
/* Waiters of the parking lot that sleep on one futex (near__lot_take_group, near__lot_wake_group, group_sleep in
 * src/parking), as near_barrier uses them (src/locks/barrier.c), in Promela: each access to a waiter's word and to the
 * count of wake-ups is one step, so is each call of the kernel.
 *
 * THREADS threads meet ROUNDS times, with a new waiter each time. TIMEOUTS waits, in all, end by a deadline; those
 * threads wait again.
 *
 * Checked: no thread is in a later round than a thread that has not arrived in this one; no waker accesses a waiter after
 * its lifetime, nor the barrier after a wait of the last round has returned; no thread sleeps for ever.
 *
 * The broken variants:
 *   COUNT_LATE     a waiter loads the count after its word
 *   COUNT_FIRST    a waker increments the count before it ends the waits
 *   NO_COUNT       it does not increment the count
 *   TAKE_UNLOCKED  it ends the waits without the lock
 *   RESET_LATE     it ends the waits before it resets the barrier's count
 */
#define THREADS 3
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif

bool lock, gone; /* gone: the memory of the barrier */
byte count, arrived;
bool alive[THREADS], queued[THREADS], woken[THREADS], in_kernel[THREADS];
byte came[THREADS], timeouts = TIMEOUTS; /* came: how often the thread has arrived */

inline take_lock()
{
	atomic { !lock -> lock = true }
}

/* near__lot_take_group. A waiter that is woken may be gone: its thread resets `alive`. */
inline take(other)
{
	atomic {
		if
		:: queued[other] -> assert(alive[other]); queued[other] = false; took = true
		:: else
		fi
	};
	if
	:: took -> atomic { assert(alive[other]); woken[other] = true; took = false }
	:: else
	fi
}

inline reset()
{
	atomic { assert(!gone); arrived = 0 }
}

inline take_all()
{
	take(0);
	take(1);
	take(2)
}

/* near__lot_wake_group */
inline wake_group()
{
	atomic { in_kernel[0] = false; in_kernel[1] = false; in_kernel[2] = false }
}

inline group_sleep()
{
#ifdef COUNT_LATE
	if
	:: woken[_pid] -> goto met
	:: else
	fi;
	seen = count;
#else
	seen = count;
	if
	:: woken[_pid] -> goto met
	:: else
	fi;
#endif
	atomic {
		if
		:: count == seen -> in_kernel[_pid] = true
		:: else
		fi
	}
}

active [THREADS] proctype thread()
{
	byte seen;
	bool took;

again:
	take_lock();
	if
	:: arrived == THREADS - 1 ->
		came[_pid]++;
#ifndef RESET_LATE
		reset();
#endif
#ifdef COUNT_FIRST
		count++;
		wake_group();
#endif
#ifdef TAKE_UNLOCKED
		lock = false;
#endif
		take_all();
#ifdef RESET_LATE
		reset();
#endif
#ifndef TAKE_UNLOCKED
		lock = false;
#endif
#ifndef COUNT_FIRST
#ifndef NO_COUNT
		count++;
#endif
		wake_group();
#endif
	:: else ->
		atomic { arrived++; came[_pid]++; alive[_pid] = true; queued[_pid] = true; woken[_pid] = false };
		lock = false;
		do
		:: true ->
			group_sleep();
			if
			:: !in_kernel[_pid]
			:: atomic { in_kernel[_pid] && timeouts > 0 -> timeouts--; in_kernel[_pid] = false };
				goto leave
			fi
		od;
leave:
		take_lock();
		if
		:: queued[_pid] ->
			atomic { queued[_pid] = false; alive[_pid] = false; arrived--; came[_pid]--; lock = false };
			goto again
		:: else -> lock = false
		fi;
		woken[_pid];
met:
		atomic { alive[_pid] = false; seen = 0 }
	fi;
	assert(came[0] >= came[_pid] && came[1] >= came[_pid] && came[2] >= came[_pid]);
	if
	:: came[_pid] < ROUNDS -> goto again
	:: else -> gone = true
	fi
}
