/* SPDX-License-Identifier: MIT */
/* near_sem (src/locks/sem.c; with -DSEM), near_once (src/locks/once.c; -DONCE) and near_barrier
 * (src/locks/barrier.c; -DBARRIER) in Promela: their words, and the queue in the parking lot with
 * waits that end early, by a deadline or a token: park.pml distinguishes them. words.cc has the
 * orderings.
 *
 * Each access to a word is one step, so is all that is done under a bucket's lock to what it
 * guards. THREADS threads share one unit, SECTIONS times; or call once, where FAILS functions fail;
 * or wait at the barrier SECTIONS times, and again if a wait ended early. TIMEOUTS waits, in all,
 * end early.
 *
 * Any post may find the first sleeper old, and reserve its unit. A wait that ends early takes a unit
 * that is there. When a sleeper stops to rely on a designated waker is left open.
 *
 * Checked: one thread at a time has the unit, and returns it; while threads are in the queue of a
 * semaphore, as many designated wakers as units are on their way; the function is not called
 * concurrently or after it succeeded, and a thread that returns finds it done; no thread leaves a
 * barrier before all have arrived, and one of them returns that it was the last; no thread waits
 * forever; every execution ends.
 *
 * -DSTOPS=n: n threads, in all, are suspended while they wait for a unit, by a signal handler or a
 * debugger; each goes on at some time, or never. Any sleeper may also be awake already when it is
 * woken. The other threads must end.
 *
 * -DHANDLER: a signal handler of thread 0 posts the last of UNITS, at any step of that thread, which
 * does not run until the handler returns. In a section of the lot it defers (near__lot_defer).
 *
 * The broken variants, each of which violates one argument of the sources:
 *   LEAVE_ANYWAY   a thread that leaves early does not check whether it was taken
 *   ENTER_UNASKED  a waiter enters the queue without another check of the word
 *   GIVE_EARLY     a post checks the queue, and adds its unit after it released the lock
 *   KEEP_RECORD    a designated waker that enters the queue again does not erase the record
 *   ERASE_LATE     or erases it after it released the lock
 *   ONE_WAKER      a post adds a second unit, and designates no second waker
 *   HAND_OVER      a post gives its unit to an old sleeper, instead of a reservation
 *   TRUST_WAKE     a post whose wake-up found the sleeper awake or suspended wakes no other
 *   TRUST_ON       a sleeper relies on the designated waker as long as that takes
 *   ADD_BLINDLY    a post adds its unit without a check of the bit
 *   NEVER_DEFER    the handler locks the bucket even if its thread is in a section
 *   DEFER_HOLDING  a section begins when the bucket is locked, and ends before it is unlocked
 *   ASK_FOR_BIT    a waiter enters the queue if the bit is set, whether or not there is a unit
 *   SETTLE_FIRST   a thread that leaves a section checks for deferred posts before it has left
 *   TAKE_FIRST     a thread that is done takes the others out of the queue before it changes the
 *                  word
 *   KEEP_COUNT     a thread that leaves a barrier is still counted
 *   EMPTY_LATE     the last thread resets the count after it woke the others
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef SECTIONS
#define SECTIONS 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 2
#endif

bool bucket;
bool queued[THREADS], woken[THREADS];
bool handed[THREADS]; /* the token: a unit, with HAND_OVER alone */
#ifdef STOPS
byte stops = STOPS;
bool stopped[THREADS];
#endif
byte timeouts = TIMEOUTS, ended;
byte arrived; /* at the barrier */

#define UNIT 2
#define SLEEPERS 1
#ifndef UNITS
#define UNITS 1
#endif
#ifdef HANDLER
#define AT_FIRST (UNITS - 1)
#define ALL (THREADS + 1)
#else
#define AT_FIRST UNITS
#define ALL THREADS
#endif

#ifdef SEM
byte word = AT_FIRST * UNIT, inside;
bool reserved; /* a flag of the word */
bool waking; /* the record of a designated waker */
byte wakers; /* on their way: not in the program */

#endif

/* Sections of thread 0. Only semaphores have this handler. */
#ifdef HANDLER
bool interrupted, in_section, deferred;

inline set_section(is)
{
	d_step {
		if
		:: _pid == 0 -> in_section = is
		:: else
		fi
	}
}
#else
#define set_section(is) skip
#endif

/* One handler: what is deferred while this goes on is nothing. One sleeper for its unit. */
#ifdef HANDLER
inline settle()
{
	if
	:: _pid == 0 && deferred ->
		deferred = false;
		atomic { !bucket -> bucket = true }
		j = 0;
		do
		:: j < THREADS && queued[j] && word >= UNIT ->
			queued[j] = false;
			d_step { waking = true; wakers++ }
			break
		:: atomic { j < THREADS && !(queued[j] && word >= UNIT) -> j++ }
		:: j == THREADS -> break
		od;
		bucket = false;
		if
		:: j < THREADS -> woken[j] = true
		:: else
		fi
	:: else
	fi
}
#else
#define settle() skip
#endif

inline take_bucket()
{
#ifdef DEFER_HOLDING
	atomic { !bucket -> bucket = true }
	set_section(true)
#else
	set_section(true);
	atomic { !bucket -> bucket = true }
#endif
}

inline release_bucket()
{
#ifdef DEFER_HOLDING
	set_section(false);
	bucket = false;
	settle()
#else
	bucket = false;
#ifdef SETTLE_FIRST
	settle();
	set_section(false)
#else
	set_section(false);
	settle()
#endif
#endif
}

inline enter()
{
	d_step { queued[_pid] = true; woken[_pid] = false }
}

/* What leaves with a waiter. */
#if defined(BARRIER) && !defined(KEEP_COUNT)
#define LEAVE queued[_pid] = false; arrived--
#else
#define LEAVE queued[_pid] = false
#endif

#ifdef SEM
#define IS_LATE late
#define NOT_LATE late = false
#else
#define IS_LATE false
#define NOT_LATE skip
#endif

/* near__lot_sleep. in_time: it was woken, or has become a designated waker by itself. */
inline sleep()
{
	in_time = true;
	if
	:: woken[_pid]
	:: atomic { !woken[_pid] && timeouts > 0 -> timeouts--; in_time = false }
#ifdef SEM
	:: atomic { !woken[_pid] && relies -> late = true }
#ifdef STOPS
	:: atomic {
			!woken[_pid] && stops > 0 ->
			stops--;
			stopped[_pid] = true;
			if
			:: stays = true
			:: stays = false
			fi
		}
end_stopped:
		atomic { !stays -> stopped[_pid] = false }
		woken[_pid]
#endif
#endif
	fi;
	if
	:: !in_time || IS_LATE ->
		take_bucket();
#ifdef LEAVE_ANYWAY
		LEAVE;
#else
		if
		:: queued[_pid] -> LEAVE
		:: else -> in_time = true; NOT_LATE
		fi;
#endif
#ifdef SEM
		wakers = wakers + late;
#endif
		release_bucket();
		if
		:: in_time && !IS_LATE -> woken[_pid] /* it is being woken */
		:: else
		fi
	:: else
	fi;
	NOT_LATE
}

#ifdef SEM
/* How many units a thread leaves alone. */
#define LEFT_ALONE (reserved && !designated -> UNIT : 0)
#ifdef ASK_FOR_BIT
#define MUST_SLEEP (word < UNIT || word & SLEEPERS)
#else
#define MUST_SLEEP (word < UNIT + LEFT_ALONE)
#endif
#define IS_LAST (word < 2 * UNIT)
#ifdef TRUST_ON
#define RELIES false
#else
#define RELIES (reserved || waking)
#endif
#ifdef ONE_WAKER
#define DESIGNATES !waking
#else
#define DESIGNATES (!waking || word >= UNIT)
#endif
#define QUEUED (queued[0] || queued[1] || queued[2] || queued[THREADS - 1])

inline add_unit()
{
	d_step {
		word = (QUEUED -> word : word & ~SLEEPERS) + UNIT;
		reserved = reserved || reserves;
		reserves = false
	}
}

/* With one unit, the handler has posted it before. */
#if defined(HANDLER) && UNITS == 1
inline take_to_give()
{
	atomic { !bucket -> bucket = true }
}
#define release_given() bucket = false
#else
#define take_to_give() take_bucket()
#define release_given() release_bucket()
#endif

/* The first of the queue, whichever that is. */
inline take_sleeper()
{
	i = THREADS;
	if
	:: queued[0] -> i = 0
	:: queued[1] -> i = 1
	:: queued[2] -> i = 2
	:: queued[THREADS - 1] -> i = THREADS - 1
	:: else
	fi;
	if
#ifdef HAND_OVER
	:: i < THREADS -> handed[i] = true
#else
	:: i < THREADS -> d_step { reserves = true; waking = true; wakers++ }
#endif
	:: i < THREADS && DESIGNATES -> d_step { waking = true; wakers++ }
	:: !(i < THREADS && DESIGNATES) -> i = THREADS
	fi;
	if
	:: i < THREADS -> queued[i] = false
	:: else
	fi
}

inline add_or_hand_over()
{
#ifdef HAND_OVER
	if
	:: i < THREADS && handed[i] -> d_step { word = (QUEUED -> word : word & ~SLEEPERS) }
	:: else -> add_unit()
	fi
#else
	add_unit()
#endif
}

/* Wakes the sleeper that was taken, if any; and if it was not asleep, the next one. */
#ifdef STOPS
inline wake_sleeper()
{
	do
	:: i == THREADS -> break
	:: i < THREADS ->
		atomic {
			woken[i] = true;
			if
			:: missed = true
			:: !stopped[i] -> missed = false
			fi;
			i = THREADS
		}
#ifdef TRUST_WAKE
		break;
#endif
		if
		:: missed ->
			missed = false;
			take_bucket();
			d_step {
				i = 0;
				do
				:: i < THREADS && !queued[i] -> i++
				:: else -> break
				od;
				if
				:: i < THREADS && word >= UNIT ->
					queued[i] = false;
					waking = true;
					wakers++
				:: else -> i = THREADS
				fi
			}
			release_bucket()
		:: else
		fi
	od;
	i = 0
}
#else
inline wake_sleeper()
{
	if
	:: i < THREADS -> d_step { woken[i] = true; i = 0 }
	:: else -> i = 0
	fi
}
#endif

inline give()
{
	take_to_give();
	take_sleeper();
#ifdef GIVE_EARLY
	release_given();
	add_or_hand_over();
#else
	add_or_hand_over();
#ifndef HANDLER
	assert(!QUEUED || wakers * UNIT >= (word & ~SLEEPERS));
#endif
	release_given();
#endif
	wake_sleeper()
}

inline post()
{
#ifdef ADD_BLINDLY
	d_step { word = word + UNIT }
#else
	atomic {
		if
		:: word & SLEEPERS -> i = THREADS
		:: else -> word = word + UNIT; i = 0
		fi
	}
	if
	:: i == THREADS -> give()
	:: else
	fi
#endif
}

inline take_or_announce()
{
	d_step {
		must_sleep = MUST_SLEEP;
		if
		:: must_sleep -> word = word | SLEEPERS
		:: else ->
			reserved = reserved && !designated && !IS_LAST;
			word = word - UNIT
		fi
	}
}

inline arrive()
{
	if
	:: designated -> d_step { wakers--; waking = false }
	:: else
	fi
}

inline take_or_enter()
{
#ifdef ENTER_UNASKED
	take_or_announce();
	take_bucket();
#else
	take_bucket();
	take_or_announce();
#endif
#if defined(KEEP_RECORD) || defined(ERASE_LATE)
	if
	:: !must_sleep -> arrive()
	:: else
	fi;
#else
	arrive();
#endif
	if
	:: must_sleep -> enter(); relies = RELIES
	:: else
	fi;
	release_bucket();
#ifdef ERASE_LATE
	if
	:: must_sleep -> take_bucket(); arrive(); release_bucket()
	:: else
	fi;
#endif
}

/* Insists: the unit may be reserved. */
inline take_unit()
{
	reserved = reserved && !IS_LAST;
	word = word - UNIT;
	in_time = true
}

inline wait()
{
	do
	:: atomic { !designated && word >= UNIT + LEFT_ALONE -> take_unit() }
		break
	:: designated || word < UNIT + LEFT_ALONE ->
		take_or_enter();
		if
		:: must_sleep -> sleep()
		:: else -> in_time = true; break
		fi;
		d_step { designated = in_time; must_sleep = false; relies = false }
#ifdef HAND_OVER
		d_step { designated = in_time && !handed[_pid]; handed[_pid] = false };
#endif
		if
		:: designated
		:: else -> break
		fi
	od;
	if
	:: atomic { !in_time && word >= UNIT -> take_unit() }
	:: in_time || word < UNIT
	fi;
	designated = false /* fewer states */
}

inline section()
{
	wait();
	if
	:: in_time ->
		inside++;
		assert(inside <= UNITS);
		inside--;
		post()
	:: else
	fi
}

#ifdef STOPS
#define WHOLE ((word & ~SLEEPERS) == UNITS * UNIT && !reserved)
#else
#define WHOLE (word == UNITS * UNIT && !reserved)
#endif
#endif

#ifdef ONCE
#define DONE 1
#define BUSY 2
#define WAITED 4
#ifndef FAILS
#define FAILS 1
#endif

byte word, inside, successes, fails = FAILS;

inline take_all()
{
	take_bucket();
	d_step {
		i = 0;
		do
		:: i < THREADS -> taken[i] = queued[i]; queued[i] = false; i++
		:: else -> break
		od
	}
	bucket = false
}

inline wake_all()
{
	i = 0;
	do
	:: i < THREADS && taken[i] -> woken[i] = true; i++
	:: i < THREADS && !taken[i] -> i++
	:: i == THREADS -> break
	od
}

inline end(next)
{
#ifdef TAKE_FIRST
	take_all();
	word = next;
	wake_all()
#else
	d_step { seen = word; word = next }
	if
	:: seen & WAITED -> take_all(); wake_all()
	:: else
	fi
#endif
}

inline call()
{
	inside++;
	assert(inside == 1 && successes == 0);
	inside--;
	if
	:: fails > 0 -> fails--; end(0)
	:: successes++; end(DONE)
	fi
}

inline section()
{
	do
	:: atomic { word == DONE -> assert(successes == 1) }
		break
	:: atomic { word == 0 -> word = BUSY }
		call();
		break
	:: atomic { word >= BUSY -> word = BUSY | WAITED }
		take_bucket();
#ifdef ENTER_UNASKED
		enter();
		bucket = false;
		sleep();
#else
		if
		:: word == (BUSY | WAITED) ->
			enter();
			bucket = false;
			sleep()
		:: else -> bucket = false; in_time = true
		fi;
#endif
		if
		:: !in_time -> break
		:: else
		fi
	od
}

#define WHOLE (word == DONE || successes == 0)
#endif

#ifdef BARRIER
byte lasts, rounds[THREADS];

inline take_all()
{
	d_step {
		i = 0;
		do
		:: i < THREADS -> taken[i] = queued[i]; queued[i] = false; i++
		:: else -> break
		od
	}
}

inline wake_all()
{
	i = 0;
	do
	:: i < THREADS && taken[i] -> woken[i] = true; i++
	:: i < THREADS && !taken[i] -> i++
	:: i == THREADS -> break
	od
}

inline come()
{
	take_bucket();
	if
	:: arrived + 1 == THREADS ->
		take_all();
#ifndef EMPTY_LATE
		arrived = 0;
#endif
		bucket = false;
		in_time = true;
		lasts++;
		wake_all();
#ifdef EMPTY_LATE
		take_bucket();
		arrived = 0;
		bucket = false
#endif
	:: else ->
		enter();
		arrived++;
		bucket = false;
		sleep()
	fi
}

/* A thread that left arrives again. All others have arrived as often, or once more. */
inline section()
{
	rounds[_pid]++;
	do
	:: come();
		if
		:: in_time -> break
		:: else
		fi
	od;
	i = 0;
	do
	:: i < THREADS -> assert(rounds[i] >= rounds[_pid]); i++
	:: else -> break
	od
}

#define WHOLE (arrived == 0 && lasts == SECTIONS)
#endif

inline end_thread()
{
	atomic {
		ended++;
		if
		:: ended == ALL -> assert(WHOLE)
		:: else
		fi
	}
}

#ifdef HANDLER
active [THREADS] proctype thread() provided (!interrupted || _pid != 0)
#else
active [THREADS] proctype thread()
#endif
{
	bool in_time;
	byte i;
#ifdef SEM
	bool designated, must_sleep, relies, late, reserves;
#ifdef STOPS
	bool missed, stays;
#endif
#endif
#ifdef HANDLER
	byte j;
#endif
	byte sections = SECTIONS;
#ifdef ONCE
	byte seen;
#endif
#ifndef SEM
	bool taken[THREADS];
#endif

	do
	:: sections > 0 -> section(); sections--
	:: else -> break
	od;
	end_thread()
}

#ifdef HANDLER
active proctype handler()
{
	byte i = THREADS;
	bool reserves;

	interrupted = true;
	atomic {
		if
#ifndef NEVER_DEFER
		:: word & SLEEPERS && in_section -> deferred = true; word = word + UNIT
		:: word & SLEEPERS && !in_section -> i = 0
#else
		:: word & SLEEPERS -> i = 0
#endif
		:: else -> word = word + UNIT
		fi
	}
	if
	:: i == 0 ->
		atomic { !bucket -> bucket = true }
		take_sleeper();
		add_or_hand_over();
		bucket = false;
		if
		:: i < THREADS -> woken[i] = true
		:: else
		fi
	:: else
	fi;
	interrupted = false;
	end_thread()
}
#endif
