/* SPDX-License-Identifier: MIT */
/* The limit of a pool, and the gets that wait for an object (src/pool/), in Promela.
 *
 * Threads get and put, each with the array of its slot; LIMIT objects may exist. In the beginning
 * none exists, the center is full, or one thread has all. A get that finds all of them live makes
 * the pool scarce; if it then fails, it waits for a ticket and tries again. Up to GIVE_UPS waits end
 * by a deadline, up to ERRORS constructors fail. A put that finds its array full moves a batch to
 * the center; a get that finds it empty takes a batch from there. Arrays have room for one object,
 * batches one. What exceeds the center is destructed. A put in a signal handler waits for nothing,
 * so that it does what another thread could do.
 *
 * NO_ARRAYS: the pool is closed from the beginning.
 *
 * Objects are counted here; that they are not mixed up, and how an array is closed while sequences
 * run on it, is in pool.pml: an access to an array is one step. What a thread does with the lock,
 * and others see only with the lock, is one step too. Fences: sequential consistency.
 *
 * Checked: never more objects than the limit. A get fails only if its last search began when no
 * object was idle, in any array, in the center, on `returned`, or in the hands of a thread that
 * moves it; unless a constructor fails. When all that is left to do is to wait, no thread waits for
 * a lock, and none waits for a ticket while an object is idle or another one could be constructed.
 * No execution is endless.
 *
 * The broken variants:
 *   LEAVE_MOVERS     the pool counts as closed while threads have batches in their hands
 *   GET_MOVES_LATE   a get counts itself as a mover after it has released the lock
 *   PUT_MOVES_LATE   a put counts itself as a mover after it has taken the batch
 *   BATCH_ANYWAY     batches leave the center of a scarce pool
 *   BEGIN_ANYWAY     an array begins without the lock
 *   CLOSE_TOGETHER   two threads may close arrays at the same time
 *   LOAD_LATE        a get loads whether the pool is closed after its search
 *   NO_LAST_SEARCH   a get fails when it has closed the pool, without a search
 *   LIVE_LATE        the objects are counted after the lock is released
 *   NO_WAKE          a put adds no ticket
 *   NO_WAKE_MEMORY   memory that is returned adds no ticket
 *   WAKE_FIRST       a thread loads `waiters` before it returns its object
 *   COUNT_LATE       a get that waits counts itself after its last try
 *   ONE_TICKET       a ticket is added only if there is none
 *   LEAVE_AT_ONCE    a get that has a ticket gives up without another try
 *   ERROR_IS_LIMIT   the error of a constructor is taken for the limit */
#ifndef THREADS
#define THREADS 2
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef FIRST_OPS /* of the thread that may have all objects in the beginning */
#define FIRST_OPS 3
#endif
#ifndef LIMIT
#define LIMIT 3
#endif
#ifndef CENTER /* its room while there are arrays; then it is CAP */
#define CENTER 2
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 1
#endif
#ifndef ERRORS
#define ERRORS 1
#endif
#define ROOM 1   /* of an array */

#define UNUSED 0
#define OPEN 1
#define CLOSED 2
byte state[2];
byte array[2];

#define AMPLE 0
#define SCARCE 1
#define FULLY_CLOSED 2
#ifdef NO_ARRAYS
byte scarce = FULLY_CLOSED;
#else
byte scarce = AMPLE;
#endif

bool locked = false, gates = false;
byte center, live;       /* with the lock */
byte returned, raw;      /* on the list: objects; the memory of objects */
byte moving, waiters, tickets;

/* Not in the code: idle objects in the hands of threads that move them; objects that are put, being
 * constructed or destructed; objects in use; threads that wait for a ticket; what may still go
 * wrong. */
byte hands, changing, used, asleep;
byte give_ups, errors = ERRORS;

#define IDLE (center + returned + hands + array[0] + array[1])
#define CENTER_ROOM (scarce == AMPLE -> CENTER : CAP)
#define LEAST(a, b) ((a) < (b) -> (a) : (b))

inline lock()
{
	atomic { !locked -> locked = true }
}

inline try_lock()
{
	atomic {
		if
		:: !locked -> locked = true; got = true
		:: else -> got = false
		fi
	}
}

/* With the lock: what is on `returned` moves, and the memory there may be used again. */
inline collect()
{
	live = live - raw;
	raw = 0;
	center = center + returned;
	returned = 0;
	over = center - LEAST(center, CENTER_ROOM);
	center = center - over;
	changing = changing + over
}

/* After `count` objects or their memory were returned. */
inline wake(count)
{
#ifdef WAKE_FIRST
	i = count;
#else
	atomic { w = waiters; i = (w > 0 -> count : 0) };
#endif
	do
#ifdef ONE_TICKET
	:: atomic { i > 0 && w > 0 && tickets == 0 -> i-- };
#else
	:: atomic { i > 0 && tickets < w -> i-- };
#endif
	   tickets++
	:: atomic { else -> w = 0; i = 0; break }
	od
}

/* `count` objects end. */
inline return_memory(count)
{
#ifdef WAKE_FIRST
	w = waiters;
#endif
	atomic { raw = raw + count; changing = changing - count };
#ifndef NO_WAKE_MEMORY
	wake(count)
#endif
}

/* Those for which the center has no room. */
inline end_over()
{
#if CENTER < LIMIT
	if
	:: over > 0 ->
		return_memory(over);
		over = 0
	:: else
	fi
#else
	skip
#endif
}

/* Empties all arrays, for good. */
inline empty_slots()
{
#ifndef CLOSE_TOGETHER
	atomic { !gates -> gates = true };
#endif
	do
	:: atomic { k < SLOTS && state[k] == OPEN ->
		   state[k] = CLOSED;
		   n = array[k];
		   array[k] = 0;
		   hands = hands + n
	   };
	   atomic { returned = returned + n; hands = hands - n; n = 0; k++ }
	:: atomic { k < SLOTS && state[k] != OPEN -> k++ }
	:: k == SLOTS -> break
	od;
	atomic { k = 0; gates = false }
}

#define SLOT (me % SLOTS)

/* Goes to `give`, which gives n objects to the center: idle ones that a mover has (`mover`), or one
 * that is put. Or to `settle`, which moves what is on `returned`. Then to `after`. */
#define GIVE(mover, number, after) \
	atomic { moves = mover; back = number; goto give }; \
after:
#define SETTLE(number, after) \
	atomic { back = number; goto settle }; \
after:

proctype thread(byte me; byte held)
{
	byte ops = (me == 0 -> FIRST_OPS : OPS), n, over, w, i, k, back;
	bool got, own, moves, puts, closed, missed, made, waits, gave_up;

next:
	atomic {
		if
		:: ops > 0 && held < LIMIT -> ops--
		:: ops > 0 && held > 0 -> ops--; held--; used--; changing++; puts = true
		:: ops == 0 -> goto finished
		fi
	};
open:
#ifndef NO_ARRAYS
	if
	:: state[SLOT] == UNUSED ->
#ifdef BEGIN_ANYWAY
		if
		:: scarce == AMPLE -> state[SLOT] = OPEN
		:: else
		fi;
		SETTLE(0, begun)
		skip
#else
		try_lock();
		if
		:: got ->
			atomic {
				if
				:: scarce == AMPLE && state[SLOT] == UNUSED -> state[SLOT] = OPEN
				:: else
				fi
			};
			locked = false;
			SETTLE(0, begun)
			skip
		:: else
		fi
#endif
	:: else
	fi;
	atomic {
		own = (state[SLOT] == OPEN);
		if
		:: puts -> goto put
		:: else
		fi
	};
	atomic {
		if
		:: state[SLOT] == OPEN && array[SLOT] > 0 ->
			array[SLOT]--;
			used++;
			held++;
			goto done
		:: else
		fi
	};
#else
	if
	:: puts -> goto put
	:: else
	fi;
#endif

search:
#ifndef LOAD_LATE
	closed = (scarce == FULLY_CLOSED);
#endif
	lock();
	atomic {
		collect();
#ifdef BATCH_ANYWAY
		n = LEAST(center, 1 + own);
#else
		n = LEAST(center, (own && scarce == AMPLE -> 2 : 1));
#endif
		own = false;
		center = center - n;
		if
#ifndef NO_ARRAYS
		:: n == 2 ->
			hands++;
#ifndef GET_MOVES_LATE
			moving++;
#endif
			used++
#endif
		:: n == 1 -> used++
		:: n == 0 && live < LIMIT ->
			made = true;
#ifndef LIVE_LATE
			live++;
			changing++
#endif
		:: n == 0 && live >= LIMIT -> missed = (IDLE != 0)
		fi
	};
	locked = false;
#ifdef LIVE_LATE
	atomic {
		if
		:: made -> live++; changing++
		:: else
		fi
	};
#endif
	end_over();
	/* The constructor, without the lock. */
	if
	:: atomic { made -> made = false; n = 1; changing--; used++ }
	:: atomic { made && errors > 0 -> made = false; errors-- };
	   return_memory(1);
	   SETTLE(1, constructor_failed)
#ifdef ERROR_IS_LIMIT
	   atomic { errors++; goto failed }
#else
	   goto done
#endif
	:: else
	fi;
	SETTLE(2, searched)
#ifndef NO_ARRAYS
	if
	:: n == 2 ->
#ifdef GET_MOVES_LATE
		moving++;
#endif
		atomic {
			n = 1;
			held++;
			if
			:: state[SLOT] == OPEN && array[SLOT] < ROOM ->
				array[SLOT]++;
				hands--;
				n = 0
			:: else
			fi
		};
		if
		:: atomic { n == 0 -> moving--; goto done }
		:: else
		fi;
		GIVE(true, 3, placed)
		goto done
	:: else
	fi;
#endif
	if
	:: atomic { n == 1 -> n = 0; held++; goto done }
	:: else
	fi;
#ifdef LOAD_LATE
	closed = (scarce == FULLY_CLOSED);
#endif
#ifndef NO_ARRAYS
	if
	:: closed -> goto failed
	:: else
	fi;
	lock();
	if
	:: scarce == AMPLE -> scarce = SCARCE
	:: else
	fi;
	locked = false;
	empty_slots();
#ifndef LEAVE_MOVERS
	moving == 0;
#endif
	lock();
	scarce = FULLY_CLOSED;
	locked = false;
	SETTLE(4, scarce_now)
#ifndef NO_LAST_SEARCH
	goto search;
#endif
#endif

failed:
	assert(!missed);
	if
	:: atomic { !waits ->
		   waits = true;
		   closed = false;
#ifndef COUNT_LATE
		   waiters++;
		   goto open
#endif
	   }
	:: atomic { waits && gave_up -> goto done }
	:: waits && !gave_up
	fi;
	atomic {
#ifdef COUNT_LATE
		waiters++;
#endif
		asleep++
	};
end_asleep:
	if
	:: atomic { tickets > 0 -> tickets--; asleep-- };
#ifdef LEAVE_AT_ONCE
	   if
	   :: atomic { give_ups > 0 -> give_ups--; goto done }
	   :: skip
	   fi
#endif
	:: atomic { give_ups > 0 -> give_ups--; gave_up = true; asleep-- }
	fi;
#ifdef COUNT_LATE
	waiters--;
#endif
	goto open;

put:
#ifndef NO_ARRAYS
	atomic {
		if
		:: state[SLOT] == OPEN && array[SLOT] < ROOM ->
			array[SLOT]++;
			changing--;
			goto done
		:: else
		fi
	};
	if
	:: own ->
#ifndef PUT_MOVES_LATE
		moving++;
#endif
		atomic {
			if
			:: state[SLOT] == OPEN && array[SLOT] > 0 ->
				array[SLOT]--;
				hands++;
				n = 1
			:: else
			fi
		};
#ifdef PUT_MOVES_LATE
		moving++;
#endif
		GIVE(true, 5, moved)
		atomic {
			own = false;
			if
			:: state[SLOT] == OPEN && array[SLOT] < ROOM ->
				array[SLOT]++;
				changing--;
				goto done
			:: else
			fi
		}
	:: else
	fi;
#endif
	n = 1;
	GIVE(false, 6, given)
	goto done;

give:
#ifdef WAKE_FIRST
	w = waiters;
#endif
	try_lock();
	atomic {
#ifndef NO_ARRAYS
		if
		:: moves -> hands = hands - n; changing = changing + n
		:: else
		fi;
#endif
		if
		:: got ->
			over = n - LEAST(n, CENTER_ROOM - center);
			n = n - over;
			center = center + n
		:: else -> returned = returned + n
		fi;
		changing = changing - n
	};
	if
	:: got -> locked = false
	:: else
	fi;
#ifndef NO_ARRAYS
	if
	:: atomic { moves -> moving--; moves = false }
	:: else
	fi;
#endif
#ifndef NO_WAKE
	wake(n);
#endif
	n = 0;
	end_over();
settle:
	do
	:: returned + raw > 0 ->
		try_lock();
		if
		:: got ->
			atomic { collect() };
			locked = false;
			end_over()
		:: else -> break
		fi
	:: else -> break
	od;
	atomic {
		got = false;
		k = back;
		back = 0;
		if
#ifndef NO_ARRAYS
		:: k == 0 -> goto begun
		:: k == 3 -> k = 0; goto placed
		:: k == 4 -> k = 0; goto scarce_now
		:: k == 5 -> k = 0; goto moved
#endif
		:: k == 1 -> k = 0; goto constructor_failed
		:: k == 2 -> k = 0; goto searched
		:: k == 6 -> k = 0; goto given
		fi
	};

done:
	atomic {
#ifndef COUNT_LATE
		waiters = waiters - waits;
#endif
		own = false;
		puts = false;
		closed = false;
		missed = false;
		waits = false;
		gave_up = false;
		goto next
	};
finished:
	skip
}

init
{
	byte all;

	atomic {
		if
		:: run thread(0, 0)
		:: center = CENTER; live = CENTER; run thread(0, 0)
		:: used = LIMIT; live = LIMIT; run thread(0, LIMIT)
		fi;
		if
		:: give_ups = GIVE_UPS
		:: skip
		fi;
		all = 1;
		do
		:: all < THREADS -> run thread(all, 0); all++
		:: else -> break
		od
	};
	timeout;
	assert(!locked && !gates && moving == 0 && hands == 0 && changing == 0);
	assert(live <= LIMIT && live == used + IDLE + raw);
	assert(returned + raw == 0);
	assert(asleep == 0 || (IDLE == 0 && live == LIMIT))
}
