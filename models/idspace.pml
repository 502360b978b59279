/* SPDX-License-Identifier: MIT */
/* near_idspace (src/idspace/idspace.h), in Promela: where an id may be, and what moves it.
 *
 * Two threads of one slot acquire ids, hand them over to each other, and release them: by sequences
 * from and to the slot's cache, by compare-exchange from and to a fallback slot's, and from and to
 * the bitmap under the lock. A sequence loads gate and cache in either order, as a weakly ordered
 * CPU does; it is aborted by a fence, and when another thread runs on the slot. A thread that finds
 * no id, and a collector, close the gate, fence, take what is cached, fence, and open the gate.
 *
 * Checked: no two workers have one id; a worker releases an id that is its own; at the end each id
 * is in one place; no thread hangs.
 *
 * The broken variants:
 *   NO_FIRST_FENCE    the cache is emptied directly after the gate was closed
 *   NO_SECOND_FENCE   the gate is opened directly after the cache was emptied
 *   PLAIN_FENCE       the fence orders memory and aborts no sequence
 *   PREEMPT_KEEPS     a preempted thread continues its sequence
 *   NO_GATE_CHECK     a sequence does not check the gate
 *   NO_CACHE_CHECK    a release stores over the id that is cached
 *   FALLBACK_INSIDE   the portable path uses the cache of sequences
 *   LOAD_AND_STORE    it takes the id from its cache by a load and a store
 *   COLLECT_UNLOCKED  ids are put into the bitmap without the lock
 *   HANDED_KEEPS      a worker that hands its id over keeps it, too */
#define THREADS 2
#define IDS 2
#ifndef OPS
#define OPS 3
#endif
#define TRIES 2

#define UNOPENED 0
#define OPEN 1
#define CLOSED 2
byte gate = UNOPENED;
byte cached, fallback; /* an id plus 1, or 0 */
byte used;             /* the bitmap */
byte passed;           /* the id plus 1 of a worker that runs next on the other thread */
byte owned[IDS];       /* by how many workers */

#define IDLE 0
#define RUNS 1
#define ABORTED 2
byte sequence[THREADS];
bool gates_lock, lock;
byte done;

#define BIT(id1) (1 << ((id1) - 1))

#define ACQUIRE_LOCK(l) atomic { !l -> l = true }

/* The CPU of each thread has its moment. */
#define ABORT(thread) \
	atomic { \
		if \
		:: sequence[thread] == RUNS -> sequence[thread] = ABORTED \
		:: else -> skip \
		fi \
	}

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

#define OWN(id1) assert(owned[(id1) - 1] == 0); owned[(id1) - 1]++
#define DISOWN(id1) assert(owned[(id1) - 1] == 1); owned[(id1) - 1]--

/* With the locks: what the caches have goes to the bitmap. */
inline collect()
{
	atomic {
		if
		:: gate == OPEN && cached != 0 -> gate = CLOSED; closed = true
		:: else -> skip
		fi
	}
	if
	:: closed ->
#ifndef NO_FIRST_FENCE
		fence();
#endif
		taken = cached;
		atomic {
			cached = 0;
			if
			:: taken != 0 -> used = used & ~BIT(taken)
			:: else -> skip
			fi
		}
#ifndef NO_SECOND_FENCE
		fence();
#endif
		gate = OPEN
	:: else -> skip
	fi;
#ifdef LOAD_AND_STORE
	taken = fallback;
	fallback = 0;
#else
	atomic { taken = fallback; fallback = 0 };
#endif
#ifdef COLLECT_UNLOCKED
	bits = used;
	used = (taken != 0 -> bits & ~BIT(taken) : bits);
#else
	used = (taken != 0 -> used & ~BIT(taken) : used);
#endif
	atomic { taken = 0; closed = false; bits = 0 }
}

/* With the lock: the lowest free id. */
inline take()
{
	atomic {
		if
		:: (used & 1) == 0 -> mine = 1
		:: (used & 1) != 0 && (used & 2) == 0 -> mine = 2
		:: else -> skip
		fi;
		if
		:: mine != 0 -> used = used | BIT(mine); OWN(mine)
		:: else -> skip
		fi
	}
}

proctype slot_thread(byte me)
{
	byte mine, state, value, tries, ops, taken, bits;
	bool closed;

again:
	if
	:: mine == 0 ->
		begin_sequence();
		if
		:: skip; STEP(state = gate); STEP(value = cached)
		:: skip; STEP(value = cached); STEP(state = gate)
		fi;
#ifndef NO_GATE_CHECK
		if
		:: state != OPEN -> goto failed
		:: else -> skip
		fi;
#endif
		if
		:: value == 0 -> goto uncached
		:: else -> skip
		fi;
		STEP(cached = 0; sequence[me] = IDLE; mine = value; OWN(mine));
		goto next
	:: mine == 0 -> /* another worker, which was handed an id */
		atomic {
			if
			:: passed != 0 -> mine = passed; passed = 0
			:: else -> skip
			fi
		}
		goto next
	:: mine != 0 -> /* hand over */
		atomic {
			if
			:: passed == 0 ->
				passed = mine;
#ifndef HANDED_KEEPS
				mine = 0
#endif
			:: else -> skip
			fi
		}
		goto next
	:: mine != 0 ->
		atomic { DISOWN(mine) };
release:
		begin_sequence();
		if
		:: skip; STEP(state = gate); STEP(value = cached)
		:: skip; STEP(value = cached); STEP(state = gate)
		fi;
#ifndef NO_GATE_CHECK
		if
		:: state != OPEN -> goto failed
		:: else -> skip
		fi;
#endif
#ifndef NO_CACHE_CHECK
		if
		:: value != 0 -> goto put
		:: else -> skip
		fi;
#endif
		STEP(cached = mine; sequence[me] = IDLE; mine = 0);
		goto next
	fi;

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
	:: state == OPEN && tries < TRIES && mine == 0 -> goto again
	:: state == OPEN && tries < TRIES && mine != 0 -> goto release
	:: else -> skip
	fi;

	/* The portable path. */
#ifdef FALLBACK_INSIDE
#define fallback_word cached
#else
#define fallback_word fallback
#endif
	if
	:: mine == 0 ->
		atomic {
			mine = fallback_word;
			fallback_word = 0;
			if
			:: mine != 0 -> OWN(mine); goto next
			:: else -> goto uncached
			fi
		}
	:: else ->
		atomic {
			if
			:: fallback_word == 0 -> fallback_word = mine; mine = 0; goto next
			:: else -> goto put
			fi
		}
	fi;

uncached:
	sequence[me] = IDLE;
	ACQUIRE_LOCK(lock);
	take();
	lock = false;
	if
	:: mine == 0 ->
		ACQUIRE_LOCK(gates_lock);
		ACQUIRE_LOCK(lock);
		collect();
		take();
		lock = false;
		gates_lock = false /* EAGAIN, or not */
	:: else -> skip
	fi;
	goto next;

put:
	sequence[me] = IDLE;
	ACQUIRE_LOCK(lock);
	atomic { used = used & ~BIT(mine); mine = 0 };
	lock = false;

next:
	atomic { tries = 0; state = 0; value = 0; ops++ };
	if
	:: ops < OPS -> goto again
	:: else -> skip
	fi;
	/* What it has stays its own. */
	done++
}

/* near_idspace_drain */
proctype collector()
{
	byte taken, bits;
	bool closed;

	ACQUIRE_LOCK(gates_lock);
#ifndef COLLECT_UNLOCKED
	ACQUIRE_LOCK(lock);
#endif
	collect();
#ifndef COLLECT_UNLOCKED
	lock = false;
#endif
	gates_lock = false;
	done++
}

init
{
	byte id1 = 1;

	atomic {
		run slot_thread(0);
		run slot_thread(1);
		run collector()
	}
	done == THREADS + 1;
	do
	:: id1 <= IDS ->
		assert((cached == id1) + (fallback == id1) + owned[id1 - 1] ==
		       ((used & BIT(id1)) != 0));
		id1++
	:: else -> break
	od
}
