/* SPDX-License-Identifier: MIT */
/* A slot of a pool while another thread drains it (src/pool/), and the lock-free list that moves to
 * the center, in Promela.
 *
 * Two threads of one slot begin with an object each. They put objects into the slot's array, or
 * into the center under the lock, or, if that is held, on the list `returned`; and get them from
 * the array and the center. Slot and center have room for one object each: an object for which the
 * center has no room ends. A drainer closes the array and moves its objects to `returned`. A thread
 * that has pushed to `returned` tries the lock again; one that has released the lock checks the
 * list again. That both find what the other stored is sequential consistency here; pool.cc has the
 * fence for it.
 *
 * Checked: no thread gets an object that another one has; slot and center never have more than they
 * have room for; at the end each object is in one place, and none is left on `returned`.
 *
 * The broken variants:
 *   NO_FENCE       the array counts as closed directly after the exchange
 *   NO_CHECK       the array counts as closed after the fence, without a check
 *   READ_LATE      the drainer reads the array after it has opened it
 *   PUSH_AND_GO    a thread that has pushed does not try the lock again
 *   LEAVE_AND_GO   a thread that has released the lock does not check the list again */
#ifndef OPS
#define OPS 3
#endif
#define OBJECTS 2
#define THREADS 2
#define ROOM 1 /* of the slot, and of the center */

/* The array's position: its objects, or */
#define CLOSED 10

byte position = 0;
byte array[OBJECTS];
bool owned[OBJECTS];
byte center = 0; /* objects, as bits */
byte in_center = 0;
byte returned = 0; /* likewise */
bool locked = false;

#define IDLE 0
#define RUNS 1
#define ABORTED 2
byte sequence[THREADS];
byte done;

#define BIT(o) (1 << (o))

#define ABORT(thread) \
	atomic { \
		if \
		:: sequence[thread] == RUNS -> sequence[thread] = ABORTED \
		:: else -> skip \
		fi \
	}

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
#define COMMIT(what, otherwise) STEP(what; sequence[me] = IDLE, otherwise)

/* With the lock: o goes to the center if that has room, else it ends, which the owner shows. */
inline keep(o)
{
	atomic {
		if
		:: in_center < ROOM ->
			in_center++;
			center = center | BIT(o)
		:: else -> assert(!owned[o]); owned[o] = true
		fi
	}
}

/* With the lock: what is on `returned` goes to the center. */
inline collect()
{
	atomic { taken = returned; returned = 0 };
	k = 0;
	do
	:: k < OBJECTS ->
		if
		:: taken & BIT(k) ->
			keep(k)
		:: else -> skip
		fi;
		k++
	:: else -> break
	od;
	taken = 0;
	k = 0
}

/* Without the lock. */
inline settle()
{
	do
	:: returned != 0 ->
		atomic {
			if
			:: !locked -> locked = true
			:: else -> break
			fi
		};
		collect();
		locked = false
	:: else -> break
	od
}

/* Gives object o to the center. */
inline give(o)
{
	atomic {
		if
		:: !locked -> locked = true; got = true
		:: else -> got = false
		fi
	};
	if
	:: got ->
		keep(o);
		locked = false;
#ifndef LEAVE_AND_GO
		settle()
#endif
	:: else ->
		returned = returned | BIT(o);
#ifndef PUSH_AND_GO
		settle()
#endif
	fi;
	got = false
}

proctype slot_thread(byte me)
{
	byte n, mine = me, other = OBJECTS, taken, k, ops;
	bool got;

again:
	n = 0;
	if
	:: mine < OBJECTS -> /* put into the slot */
		begin_sequence();
		STEP(n = position, failed);
		if
		:: n == CLOSED -> goto failed
		:: else -> skip
		fi;
		if
		:: n == ROOM -> goto no_room
		:: else -> skip
		fi;
		STEP(array[n] = mine, failed);
		COMMIT(owned[mine] = false; position = n + 1; mine = OBJECTS, failed)
	:: mine < OBJECTS -> /* put into the center */
no_room:
		sequence[me] = IDLE;
		owned[mine] = false;
		give(mine);
		mine = OBJECTS
	:: mine == OBJECTS -> /* get from the slot */
		begin_sequence();
		STEP(n = position, failed);
		if
		:: n == 0 || n == CLOSED -> goto failed
		:: else -> skip
		fi;
		STEP(other = array[n - 1], failed);
		COMMIT(position = n - 1, failed);
		atomic { assert(!owned[other]); owned[other] = true; mine = other }
	:: mine == OBJECTS -> /* get from the center */
		atomic { !locked -> locked = true };
		collect();
		k = 0;
		do
		:: k < OBJECTS && !(center & BIT(k)) -> k++
		:: else -> break
		od;
		if
		:: k < OBJECTS ->
			atomic {
				center = center & ~BIT(k);
				in_center--;
				assert(!owned[k]);
				owned[k] = true;
				mine = k
			}
		:: else -> skip
		fi;
		k = 0;
		locked = false;
#ifndef LEAVE_AND_GO
		settle()
#endif
	fi;
failed:
	sequence[me] = IDLE;
	other = OBJECTS;
	ops++;
	if
	:: ops < OPS -> goto again
	:: else -> done++
	fi
}

proctype drainer()
{
	byte was = 0, now, i, taken, k, back;

again:
	atomic { now = position; position = CLOSED };
	if
	:: now != CLOSED -> was = now
	:: else -> skip
	fi;
#ifndef NO_FENCE
	ABORT(0);
	ABORT(1);
#endif
#ifndef NO_CHECK
	if
	:: position != CLOSED -> goto again
	:: else -> skip
	fi;
#endif
#ifdef READ_LATE
	position = 0;
#endif
	do
	:: i < was ->
		back = array[i];
		returned = returned | BIT(back);
		i++
	:: else -> break
	od;
#ifndef READ_LATE
	position = 0;
#endif
	settle();
	done++
}

init
{
	byte found, i;

	atomic {
		owned[0] = true;
		owned[1] = true;
		run slot_thread(0);
		run slot_thread(1);
		run drainer()
	}
	done == THREADS + 1;
	assert(returned == 0);
	assert(position <= ROOM && in_center <= ROOM);
	do
	:: i < position -> assert(!owned[array[i]]); found++; i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < OBJECTS ->
		found = found + owned[i] + ((center & BIT(i)) != 0);
		i++
	:: else -> break
	od;
	assert(found == OBJECTS)
}
