/* SPDX-License-Identifier: MIT */
/* near_rwlock (src/locks/rwlock*.c) in Promela. Each change of the word is one step: its loops
 * decide again with the new value when the CAS fails. So are each load and store of a sequence, of
 * a gate, of a copy, the taking of a lock and what is done to the queue under the bucket's. The
 * mutex of the writers is one step: it has a model of its own.
 *
 * READERS threads read once, and once more inside of that if NESTED; each lock and unlock counts on
 * a slot or in the word. A sequence may load its count ahead of the gate, as on a weakly ordered
 * CPU. WRITERS threads write once, or try to, and may downgrade. TIMEOUTS waits, in all, end by a
 * deadline or a token; such a thread is done. Whether the reads have reached the rebias threshold
 * is left open: both are tried. A nested reader knows that it holds this lock, or with MAYBE only
 * that it reads some locks. With FREE there are no slots, and the last thread frees the lock after
 * its unlock: any access to the word from then on is an error.
 *
 * Checked: a writer excludes all others; no thread sleeps forever (no deadlock state); a waker
 * finds the sleeper still asleep; no access to freed memory; the count is 0 at the end; every
 * execution ends. With WRITERS_FIRST a reader that is not nested waits for writers that wait;
 * without, it locks as long as readers hold the lock. With RENDEZVOUS a reader unlocks only when
 * another reader holds the lock as well: that always ends unless writers are first.
 *
 * The broken variants, each of which violates one argument of src/locks/rwlock.h:
 *   NO_FENCE        a writer closes the gates, and adds up without a fence
 *   CLAIM_LATE      a writer revokes first, and claims then
 *   OPEN_ANYWAY     a gate is opened for the first time without a check of BIASED
 *   OPEN_UNLOCKED   ... without the gates' lock
 *   BIAS_ANYWAY     the bias comes back although a writer has claimed
 *   BIAS_LATE       BIASED is set after the gates are open, without a check
 *   SPLIT_SUM       the sum is added after BIASED is cleared, by a second change
 *   NESTED_WAITS    a nested reader waits as others
 *   MAYBE_SLEEPS    a reader that may pass a writer sleeps if the word counts no reader, BIASED or not
 *   MAYBE_ENTERS    a reader that may pass a writer does so in any case
 *   SLEEP_BLIND     a reader enters the queue without a check of the word
 *   DRAIN_BLIND     a writer enters the queue without a check of the word
 *   NO_WAKE         a reader that leaves by the word does not check for a sleeping writer
 *   FORGET_READERS  a writer leaves without admitting the sleeping readers
 *   GIVE_UP_QUIETLY a writer that gives up does so
 *   GIVE_UP_GREEDY  a writer that gives up admits readers although the one before has not left
 *   LEAVE_ANYWAY    a reader leaves by a deadline although it was admitted
 *   ALONE_AT_ONCE   a writer does not wait until the one before has left
 *   MUTEX_LAST      a writer releases the mutex when it has left
 */
#ifndef READERS
#define READERS 2
#endif
#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif
#define THREADS (READERS + WRITERS)
#define SLOTS 2

#define UNOPENED 0
#define OPEN 1
#define CLOSED 2

#define NOT_NESTED 0
#define MAYBE_NESTED 1
#define BY_NAME 2

/* The word. */
#ifdef FREE
bool biased = false;
#else
bool biased = true;
#endif
bool waiting_writer, parked;
short readers;
byte writers;

byte gate[SLOTS];
short counts[SLOTS];
bool runs[SLOTS];    /* a sequence is there; a slot has one thread at a time */
bool aborted[SLOTS];

bool gates, bucket, mutex; /* locks */
bool queued[THREADS];
bool let_in[THREADS]; /* what ends a sleep */
byte timeouts = TIMEOUTS;

byte reading, writing; /* inside */
bool has_been[THREADS]; /* inside */
byte users = THREADS, left = THREADS;
byte leaving; /* readers that are not users any more */
bool gone;

/* In the end nobody is counted. */
inline finish()
{
	atomic {
		left--;
		assert(left > 0 || (writers == 0 && readers + counts[0] + counts[1] == 0))
	}
}

#define DRAINED (readers == 0 && writers == 1 && !biased)
#define MAY_ENTER (writers == 0 || nesting == BY_NAME || (WOULD_PASS && MAY_PASS))
#ifdef WRITERS_FIRST
#define WOULD_PASS (nesting == MAYBE_NESTED)
#else
#define WOULD_PASS true
#endif
#if defined(MAYBE_ENTERS)
#define MAY_PASS true
#elif defined(MAYBE_SLEEPS)
#define MAY_PASS (readers > 0)
#else
#define MAY_PASS (biased || readers > 0)
#endif
inline touch()
{
	assert(!gone)
}

inline lock(which)
{
	atomic { !which -> which = true }
}

inline fence()
{
	atomic { aborted[0] = true; aborted[1] = true }
}

inline revoke()
{
	lock(gates);
	atomic { gate[0] = (gate[0] == OPEN -> CLOSED : gate[0]) };
	atomic { gate[1] = (gate[1] == OPEN -> CLOSED : gate[1]) };
#ifndef NO_FENCE
	fence();
#endif
	atomic { sum = counts[0]; counts[0] = 0 };
	atomic { sum = sum + counts[1]; counts[1] = 0 };
#ifdef SPLIT_SUM
	biased = false;
	atomic { readers = readers + sum; sum = 0 };
#else
	atomic { touch(); biased = false; readers = readers + sum; sum = 0 };
#endif
	gates = false
}

inline restore()
{
	atomic { began = !gates; gates = true };
	if
	:: began ->
#ifdef BIAS_LATE
		atomic { began = (writers == 0 && !biased) };
#elif defined(BIAS_ANYWAY)
		atomic { began = !biased; biased = true };
#else
		atomic { began = (writers == 0 && !biased); biased = biased || began };
#endif
		if
		:: began ->
			fence();
			atomic { gate[0] = (gate[0] == CLOSED -> OPEN : gate[0]) };
			atomic { gate[1] = (gate[1] == CLOSED -> OPEN : gate[1]) }
#ifdef BIAS_LATE
			;
			biased = true
#endif
		:: else
		fi;
		atomic { gates = false; began = false }
	:: else
	fi
}

/* By the thread that has changed the word, in the same step. */
#define END_DRAIN \
	wakes = (waiting_writer && DRAINED); \
	waiting_writer = waiting_writer && !wakes

/* Under the bucket's lock: the one writer that may sleep. */
inline wake_waiting_writer()
{
	if
	:: wakes ->
		lock(bucket);
		atomic {
			i = READERS;
			do
			:: i < THREADS && queued[i] -> queued[i] = false; let_in[i] = true; break
			:: i < THREADS && !queued[i] -> i++
			:: else -> break
			od;
			i = 0;
			wakes = false;
			bucket = false
		}
	:: else
	fi
}

/* A single writer wakes nobody. */
inline wake_other_writer()
{
#if WRITERS > 1
	wake_waiting_writer()
#else
	assert(!wakes)
#endif
}

/* Counts n on a slot, if `ok` then. */
inline count_on_slot(n)
{
	ok = false;
#ifndef FREE
	do
	:: true ->
		atomic {
			if
			:: !runs[0] -> at = 0
			:: !runs[1] -> at = 1
			fi;
			runs[at] = true;
			aborted[at] = false
		};
		if
		:: count = counts[at]; state = gate[at]
		:: state = gate[at]; count = counts[at]
		fi;
		atomic {
			ok = (state == OPEN && !aborted[at]);
			counts[at] = (ok -> count + n : counts[at]);
			runs[at] = false;
			count = 0
		};
		if
		:: ok -> break
		:: !ok && state == UNOPENED ->
#ifndef OPEN_UNLOCKED
			atomic { began = !gates; gates = true };
#else
			began = true;
#endif
			if
			:: !began -> break
			:: began ->
#ifdef OPEN_ANYWAY
				gate[at] = OPEN;
#elif defined(OPEN_UNLOCKED)
				if
				:: biased -> gate[at] = OPEN
				:: else -> began = false
				fi;
#else
				atomic {
					began = biased;
					gate[at] = (began && gate[at] == UNOPENED -> OPEN : gate[at])
				};
#endif
#ifndef OPEN_UNLOCKED
				gates = false;
#endif
				if
				:: began -> began = false
				:: else -> break
				fi
			fi
		:: !ok && state != UNOPENED -> break
		fi
	:: true -> break
	od;
	atomic { at = 0; state = 0 }
#endif
}

inline enter_by_word()
{
	atomic {
		touch();
		ok = MAY_ENTER;
		readers = (ok -> readers + 1 : readers);
		rebiases = (ok && !biased)
	};
#ifndef FREE
	if
	:: rebiases -> restore()
	:: true
	fi;
#endif
	rebiases = false
}

#ifdef SLEEP_BLIND
#define STILL true
#else
#define STILL (!MAY_ENTER)
#endif

/* A nested reader never sleeps: the writer waits for this thread. */
#define MAY_SLEEP (depth == 0)

/* In the end it is `ok`, or `over`. */
inline read_lock()
{
	count_on_slot(1);
	do
	:: ok -> break
	:: else ->
		enter_by_word();
		if
		:: ok -> break
		:: else
		fi;
		lock(bucket);
		atomic {
			touch();
			if
			:: STILL -> parked = true; queued[_pid] = true; let_in[_pid] = false
			:: else
			fi;
			bucket = false
		};
		if
		:: !queued[_pid] && !let_in[_pid] -> skip
		:: else ->
			assert(MAY_SLEEP);
			if
			:: let_in[_pid] -> ok = true
#if TIMEOUTS > 0
			:: atomic { timeouts > 0 && !let_in[_pid] -> timeouts-- };
				lock(bucket);
				atomic {
#ifdef LEAVE_ANYWAY
					over = true;
#else
					over = queued[_pid];
#endif
					queued[_pid] = false;
					bucket = false
				};
				if
				:: over
				:: !over -> let_in[_pid]; ok = true
				fi
#endif
			fi;
			let_in[_pid] = false;
			break
		fi
	od
}

inline read_unlock()
{
	count_on_slot(-1);
	if
	:: !ok ->
		atomic {
			touch();
			readers--;
#ifdef NO_WAKE
			wakes = false
#else
			END_DRAIN
#endif
		}
	:: ok
	fi;
	ok = false
}

#ifdef NESTED_WAITS
#define NESTING NOT_NESTED
#elif defined(MAYBE)
#define NESTING MAYBE_NESTED
#else
#define NESTING BY_NAME
#endif

active [READERS] proctype reader()
{
	short count, sum;
	byte at, state, i, depth;
	byte nesting = NOT_NESTED;
	bool ok, began, rebiases, wakes, over, last;

#ifdef MAYBE
	if /* it reads another lock, or not */
	:: nesting = MAYBE_NESTED
	:: skip
	fi;
#endif
enter:
	read_lock();
#if TIMEOUTS > 0
	if
	:: over -> users--; goto end
	:: else
	fi;
#endif
	atomic {
		assert(ok && writing == 0);
		ok = false;
		reading = reading + (depth == 0);
		has_been[_pid] = true;
		depth++
	};
#ifdef RENDEZVOUS
	has_been[0] && has_been[1];
#endif
#ifdef NESTED
	if
	:: depth == 1 -> nesting = NESTING; goto enter
	:: else
	fi;
#endif
leave:
	atomic {
		assert(writing == 0);
		depth--;
		reading = reading - (depth == 0);
		users = users - (depth == 0);
		last = (users == 0 && leaving == 0);
		leaving++;
		nesting = NOT_NESTED
	};
	read_unlock();
	wake_waiting_writer();
	leaving--;
#ifdef FREE
	if
	:: last -> gone = true
	:: else
	fi;
#endif
#ifdef NESTED
	if
	:: depth > 0 -> goto leave
	:: else
	fi;
#endif
end:	finish()
}

#ifdef FORGET_READERS
#define FORGETS true
#elif defined(GIVE_UP_QUIETLY)
#define FORGETS over
#else
#define FORGETS false
#endif

#ifdef GIVE_UP_GREEDY
#define LETS_IN parked
#else
#define LETS_IN (parked && (!over || writers == 1))
#endif

/* One step on the word, or the bucket: all sleeping readers are admitted and counted. `more`: this
 * writer stays. A writer that gives up admits no reader while the one before has not left. */
inline leave()
{
	if
	:: LETS_IN ->
		lock(bucket);
		atomic {
			touch();
			i = 0;
			do
			:: i < READERS ->
				if
				:: queued[i] && !FORGETS ->
					queued[i] = false;
					let_in[i] = true;
					readers++
				:: else
				fi;
				i++
			:: else -> break
			od;
			i = 0;
			parked = false;
			waiting_writer = waiting_writer && !over;
			writers--;
			readers = readers + more;
			END_DRAIN;
			bucket = false
		}
	:: atomic { !(LETS_IN) ->
		touch();
		waiting_writer = waiting_writer && !over;
		writers--;
		readers = readers + more;
		END_DRAIN
	}
	fi;
	wake_other_writer()
}

#ifdef DRAIN_BLIND
#define NOT_DRAINED true
#elif defined(ALONE_AT_ONCE)
#define NOT_DRAINED (readers != 0 || biased)
#else
#define NOT_DRAINED (!DRAINED)
#endif

active [WRITERS] proctype writer()
{
	short count, sum;
	byte at, state, i, more;
	byte nesting = NOT_NESTED;
	bool ok, began, wakes, over, last, was_biased;

	lock(mutex);
#ifdef CLAIM_LATE
	if
	:: biased -> revoke()
	:: else
	fi;
	atomic { touch(); writers++ };
#else
	atomic { touch(); writers++; was_biased = biased };
#ifndef FREE
	if
	:: was_biased -> revoke()
	:: else
	fi;
#endif
#endif
	do
	:: !(NOT_DRAINED) -> break
	:: NOT_DRAINED ->
		lock(bucket);
		atomic {
			touch();
			if
			:: NOT_DRAINED -> waiting_writer = true; queued[_pid] = true; let_in[_pid] = false
			:: else
			fi;
			bucket = false
		};
		if
		:: !queued[_pid] && !let_in[_pid]
		:: else ->
			if
			:: let_in[_pid] -> let_in[_pid] = false
#if TIMEOUTS > 0
			:: atomic { timeouts > 0 && !let_in[_pid] -> timeouts-- };
				lock(bucket);
				atomic { over = queued[_pid]; queued[_pid] = false; bucket = false };
				if
				:: !over -> let_in[_pid]; let_in[_pid] = false
				:: over && NOT_DRAINED -> break
				:: over && !(NOT_DRAINED) -> over = false; break
				fi
#endif
			fi
		fi
	od;
	if
#if TIMEOUTS > 0
	:: over
#endif
	:: else ->
		atomic {
			writing++;
			assert(writing == 1 && reading == 0)
		};
		if
		:: more = 1
		:: more = 0
		fi;
		atomic {
			assert(reading == 0);
			writing--;
			reading = reading + more;
			users = users - !more;
			last = (users == 0 && !more)
		}
	fi;
#ifndef MUTEX_LAST
	if
	:: !over -> atomic { touch(); mutex = false }
	:: else
	fi;
#endif
	leave();
#ifdef MUTEX_LAST
	atomic { touch(); mutex = false };
#elif TIMEOUTS > 0
	if
	:: over -> atomic { touch(); mutex = false }
	:: else
	fi;
#endif
	if
	:: more ->
		atomic { reading--; users--; more = 0; leaving++ };
		read_unlock();
		wake_other_writer();
		leaving--
	:: else
	fi;
#ifdef FREE
	if
	:: last -> gone = true
	:: else
	fi;
#endif
	users = users - over;
	finish()
}

