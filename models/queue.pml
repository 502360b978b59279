/* SPDX-License-Identifier: MIT */
/* near_queue (src/queue/queue.h) in Promela: sleepers, fences, close. Each load and store is a
 * step; so are the taking of an element, which is a CAS, and what is done to the sleepers under the
 * bucket's lock. The scan before a sleep is one step, as that of a get has all of it. queue.cc has
 * the orderings of the rings.
 *
 * PUTTERS threads put PUTS elements each, on a slot of their own; with ROOM on either slot, and a
 * thread may change its slot between two tries. A slot has one thread at a time. What a put commits
 * is visible to all at once, or stays in the store buffer of its thread for a time, until a
 * membarrier, a lock, a fence of its own or a context switch. GETTERS threads get all of them; or
 * with CLOSE, by which a thread closes the queue at any moment, until it is closed and empty. A
 * getter is done after GETS of them. TIMEOUTS waits of getters, in all, end by a deadline; such a
 * thread is done. Whether sleeps are frequent, and whether puts have fenced for long, is left open:
 * both are tried.
 *
 * With FALLBACK, puts are those of fallback slots: they hold a lock, and no membarrier aborts them.
 *
 * With ROOM, slots have CAPACITY and are full in the beginning, and putters sleep instead of
 * getters; without, there is always room.
 *
 * With WATCH, getters arm a watch, which looks for an element again: one that it finds it takes, and
 * leaves the lot then.
 *
 * Checked: no thread sleeps for ever (no deadlock state); a get that finds the queue empty found it
 * so at one moment; after close, nothing is left behind.
 *
 * The broken variants, each of which violates one argument of src/queue/queue.h:
 *   NO_FENCE        a getter goes to sleep without a fence
 *   FENCE_FIRST     it fences, and sets GETTERS then
 *   LOAD_EARLY      a put loads `state` before its sequence
 *   NO_SECOND_LOAD  a put that fences does not load `state` again
 *   FENCED_EARLY    FENCED is set before the membarrier
 *   END_EARLY       puts end the fences that are not FENCED yet
 *   ONE_SCAN        a queue counts as empty after one scan
 *   SLEEP_BLIND     a getter sleeps without a scan after the fence
 *   LEAVE_ANYWAY    a getter leaves by a deadline although it was woken
 *   KEEP_NOTICE     a watch that was notified as it took another element does not pass that on
 *   KEEP_ROOM       a putter that was woken and has moved does not pass that on
 *   ROOM_EARLY      a get loads `putters` before its CAS
 *   CLEAR_ANYWAY    a put clears GETTERS although others sleep
 *   OPEN_EARLY      a getter loads `open` before it enters the parking lot
 *   CLOSE_UNFENCED  close does not fence
 *   CLOSE_UNLOCKED  close does not wait for puts on fallback slots
 *   CLOSE_QUIETLY   close wakes nobody
 *   CLOSED_LATE     a get loads CLOSED after its scan
 */
#ifndef PUTTERS
#define PUTTERS 2
#endif
#ifndef GETTERS
#define GETTERS 2
#endif
#ifndef PUTS
#define PUTS 1
#endif
#ifndef CAPACITY
#define CAPACITY 1
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 0
#endif
#ifdef ROOM
#define BEFORE CAPACITY
#else
#define BEFORE 0
#endif
#ifndef GETS
#define GETS 255
#endif
#define ALL (PUTTERS * PUTS + SLOTS * BEFORE)
#define SLOTS 2
#define THREADS 4 /* at most */
#define NOTHING 0
#define ELEMENT 1
#define FOR_ROOM(s) (2 + (s))

byte tail[SLOTS] = BEFORE, head[SLOTS]; /* as all see them */
byte buffered[SLOTS];          /* puts on this slot that its thread alone sees */
bool runs[SLOTS];              /* a put is there */
bool aborted[SLOTS];
bool open = true, closed;
bool getters, fences, fenced; /* of `state` */
bool putters[SLOTS];
bool bucket; /* one lock for all sleepers */
bool fallback; /* that of fallback slots */
byte sleeps[THREADS]; /* for what */
bool woken[THREADS];
byte timeouts = TIMEOUTS;
byte scans[THREADS]; /* 1: a scan has begun; 2: and the queue was empty since */

#define ANY(what) \
	(sleeps[0] == what || sleeps[1] == what || sleeps[2] == what || sleeps[3] == what)
#define FULL(s) (tail[s] - head[s] >= CAPACITY)
#define EMPTY (tail[0] == head[0] && tail[1] == head[1])
#define TAKEN (head[0] + head[1])
#define NOW_EMPTY(i) scans[i] = (scans[i] == 1 && EMPTY -> 2 : scans[i])

inline drain(s)
{
	tail[s] = tail[s] + buffered[s];
	buffered[s] = 0
}

/* Also aborts each sequence. */
inline membarrier()
{
	atomic { drain(0); aborted[0] = true };
	atomic { drain(1); aborted[1] = true }
}

inline lock()
{
	atomic { !bucket -> bucket = true }
}

/* With the lock, in one step: one of them, if any. */
inline take_sleeper(what)
{
	i = 0;
	do
	:: i < THREADS && sleeps[i] != what -> i++
	:: else -> break
	od;
	if
	:: i < THREADS -> sleeps[i] = NOTHING; woken[i] = true
	:: else
	fi;
	i = 0
}

#ifdef ROOM
inline wake_putter(s)
{
	lock();
	atomic { take_sleeper(FOR_ROOM(s)); putters[s] = ANY(FOR_ROOM(s)); bucket = false }
}
#endif

#ifdef CLOSE
inline finish_close()
{
#ifndef CLOSE_UNFENCED
	membarrier();
#endif
#if defined(FALLBACK) && !defined(CLOSE_UNLOCKED)
	!fallback;
#endif
	closed = true;
#ifndef CLOSE_QUIETLY
	lock();
	atomic {
		i = 0;
		do
		:: i < THREADS -> woken[i] = woken[i] || sleeps[i]; sleeps[i] = NOTHING; i++
		:: else -> break
		od;
		i = 0;
		getters = false;
		putters[0] = false;
		putters[1] = false;
		bucket = false
	}
#endif
}
#endif

/* ---- put ---- */

/* Onto a slot that is free: perhaps a context switch. */
inline choose_slot()
{
	atomic {
#ifdef ROOM
		if
		:: !runs[0] -> s = 0
		:: !runs[1] -> s = 1
		fi;
#else
		s = _pid % SLOTS;
		!runs[s];
#endif
		drain(0);
		drain(1);
		runs[s] = true;
		aborted[s] = false
	}
}

#ifndef ROOM
inline tell_getters()
{
	if
	:: fence ->
		atomic { drain(s) };
#ifndef NO_SECOND_LOAD
		tells = getters
#endif
	:: else
	fi;
	if
	:: tells ->
		lock();
		atomic {
			drain(s);
			take_sleeper(ELEMENT);
#ifdef CLEAR_ANYWAY
			getters = false;
#else
			getters = ANY(ELEMENT);
#endif
			bucket = false
		}
	:: !tells && fence ->
		if
#ifdef END_EARLY
		:: atomic { fences = false; fenced = false }
#else
		:: atomic { fences = fences && !fenced; fenced = false }
#endif
		:: true
		fi
	:: else
	fi;
	atomic { tells = false; fence = false }
}
#endif

#ifdef ROOM
inline wait_for_room()
{
	lock();
	atomic {
		drain(s);
		sleeps[_pid] = FOR_ROOM(s);
		woken[_pid] = false;
		putters[s] = true;
		bucket = false
	};
	ok = FULL(s);
	if
	:: ok && open -> woken[_pid]
	:: else ->
		lock();
		atomic { sleeps[_pid] = NOTHING; bucket = false }
	fi;
	atomic { ok = false; slept = 1 + s }
}

/* For a slot that this thread has slept for. */
inline pass_on()
{
#if PUTTERS > 1 && !defined(KEEP_ROOM)
	if
	:: slept > 0 && putters[slept - 1] && !FULL(slept - 1) -> wake_putter((slept - 1))
	:: else
	fi;
#endif
	slept = 0
}
#endif

active [PUTTERS] proctype putter()
{
	byte s, n, slept;
	byte i;
	bool ok, is_open, is_full, tells, fence;

	do
	:: n < PUTS ->
#ifdef LOAD_EARLY
		atomic { tells = getters; fence = fences };
#endif
#ifdef FALLBACK
		atomic { !fallback -> fallback = true; s = _pid % SLOTS };
		is_open = open;
		atomic {
			ok = is_open;
			if
			:: ok -> buffered[s]++
			:: ok -> tail[s]++
			:: else
			fi
		};
		atomic { drain(s); fallback = false };
#else
		choose_slot();
		is_open = open;
#ifdef ROOM
		is_full = tail[s] + buffered[s] - head[s] >= CAPACITY;
#endif
		atomic {
			ok = is_open && !is_full && !aborted[s];
			if
			:: ok -> buffered[s]++
			:: ok -> tail[s]++
			:: else
			fi;
			runs[s] = false
		};
#endif
		if
		:: ok ->
#if !defined(LOAD_EARLY) && !defined(ROOM)
			atomic { tells = getters; fence = fences };
#endif
#ifdef ROOM
			atomic { drain(s) };
			pass_on();
#else
			tell_getters();
			atomic { drain(s) };
#endif
			atomic { n++; ok = false }
#ifdef CLOSE
		:: !ok && !is_open -> break
#endif
#ifdef ROOM
		:: !ok && is_open && is_full ->
			pass_on();
			wait_for_room()
#endif
		:: else -> skip
		fi
	:: else -> break
	od
}

/* ---- get ---- */

inline take(x)
{
	if
	:: !got ->
#ifdef ROOM_EARLY
		tells = putters[x];
#endif
		atomic {
			if
			:: head[x] < tail[x] ->
				head[x]++;
				NOW_EMPTY(0);
				NOW_EMPTY(1);
				NOW_EMPTY(2);
				NOW_EMPTY(3);
				got = true;
				at = x
			:: else -> sum = sum + tail[x]
			fi
		}
#if defined(ROOM) && !defined(ROOM_EARLY)
		;
		if
		:: got -> tells = putters[x]
		:: else
		fi
#endif
	:: else
	fi
}

/* The second scan. Sets `again` if a tail has changed. */
inline scan_again()
{
#ifdef ONE_SCAN
	again = false;
#else
	other = tail[0];
	atomic { again = other + tail[1] != sum; other = 0 };
#endif
	sum = 0
}

#ifndef ROOM
inline fence_puts()
{
	if
	:: knew -> skip /* a fence of its own */
#ifndef NO_FENCE
	:: !knew ->
		if
		:: atomic { sets = !fences; fences = true }
		:: true
		fi;
#ifdef FENCED_EARLY
		fenced = fenced || sets;
#endif
		membarrier();
		if
		:: sets -> fenced = true
		:: else
		fi;
#else
	:: !knew -> skip
#endif
	fi;
	atomic { knew = false; sets = false }
}

#endif

#ifdef WATCH
/* Between the second look and the sleep. The element may be gone by then. */
inline take_armed()
{
	atomic {
		if
		:: head[0] < tail[0] -> head[0]++; got = true
		:: head[1] < tail[1] -> head[1]++; got = true
		:: else
		fi;
		NOW_EMPTY(0);
		NOW_EMPTY(1);
		NOW_EMPTY(2);
		NOW_EMPTY(3)
	};
	if
	:: got ->
		lock();
		atomic {
#ifndef KEEP_NOTICE
			if
			:: woken[_pid] -> take_sleeper(ELEMENT); getters = ANY(ELEMENT)
			:: else
			fi;
#endif
			sleeps[_pid] = NOTHING;
			bucket = false;
			got = false;
			gets++;
			over = gets == GETS;
			is_full = true
		}
	:: else -> is_full = false
	fi
}
#endif

inline wait_for_element()
{
#if defined(ROOM) && defined(CLOSE)
	!EMPTY || !open
#elif defined(ROOM)
	!EMPTY || TAKEN == ALL
#else
#ifdef FENCE_FIRST
	membarrier();
#endif
#ifdef OPEN_EARLY
	is_open = open;
#endif
	lock();
	atomic {
		sleeps[_pid] = ELEMENT;
		woken[_pid] = false;
		knew = fenced;
		getters = true;
		bucket = false
	};
#ifndef FENCE_FIRST
	fence_puts();
#endif
#ifndef SLEEP_BLIND
	is_full = !EMPTY;
#endif
#ifndef OPEN_EARLY
	is_open = open;
#endif
#ifdef WATCH
	if
	:: is_full -> take_armed()
	:: else
	fi;
#endif
	if
	:: !is_full && is_open ->
		if
		:: woken[_pid]
#if !defined(CLOSE) && GETTERS > 1 && GETS == 255
		:: TAKEN == ALL -> over = true
#endif
#if TIMEOUTS > 0
		:: atomic { timeouts > 0 -> timeouts-- };
			lock();
			atomic {
#ifdef LEAVE_ANYWAY
				over = true;
#else
				over = sleeps[_pid] == ELEMENT;
#endif
				sleeps[_pid] = NOTHING;
				bucket = false
			}
#endif
		fi
	:: else ->
		lock();
		atomic { sleeps[_pid] = NOTHING; bucket = false }
	fi;
	atomic { is_full = false; is_open = false }
#endif
}

active [GETTERS] proctype getter()
{
	byte sum, other, at, i, gets;
	bool got, again, is_full, is_open, knew, sets, over, tells, was_closed;

	do
	:: over -> break
	:: else ->
#ifndef CLOSED_LATE
		was_closed = closed;
#endif
		do
		:: true ->
			atomic { scans[_pid] = (EMPTY -> 2 : 1); sum = 0 };
			take(_pid % 2);
			take((1 - _pid % 2));
			if
			:: got -> sum = 0; break
			:: else -> scan_again()
			fi;
			if
			:: !again -> break
			:: else
			fi
		od;
		if
		:: got ->
#ifdef ROOM
			if
			:: tells -> wake_putter(at)
			:: else
			fi;
#endif
			atomic {
				got = false;
				tells = false;
				at = 0;
				scans[_pid] = 0;
				gets++;
				over = gets == GETS
			}
#ifdef CLOSE
		:: else ->
			atomic { assert(scans[_pid] == 2); scans[_pid] = 0 };
#ifdef CLOSED_LATE
			was_closed = closed;
#endif
			if
			:: was_closed ->
				assert(buffered[0] + buffered[1] == 0 && tail[0] == head[0] &&
				       tail[1] == head[1]);
				break
			:: !was_closed && !open -> finish_close()
			:: else -> wait_for_element()
			fi
#else
		:: else ->
			atomic { assert(scans[_pid] == 2); scans[_pid] = 0 };
			if
			:: TAKEN == ALL -> break
			:: else -> wait_for_element()
			fi
#endif
		fi
	od
}

#ifdef CLOSE
active proctype closer()
{
	byte i;

	open = false;
	finish_close()
}
#endif
