/* SPDX-License-Identifier: MIT */
/* Seats of near_shared_ids (src/idspace/shared.h), in Promela: each access to shared memory, and
 * each lock or unlock of a seat's byte, is one step, after any of which a process may be killed.
 *
 * Two processes take seats, acquire ids by owner words, and search for seats of processes that
 * ended. A third one begins when one of them has ended, and takes a seat. Either of the two is
 * killed, or leaves its seat; with -DTWO_THREADS the first has two threads, and is not killed.
 * Bitmap and caches are hints: a thread tries to take any id. The kernel releases the locks of a
 * process that ends. At the end all have ended, and a last one takes back what they had.
 *
 * Checked: no two threads that live have one id; whoever finds an id's data half-changed is informed
 * of it; a process on a dead seat finds no ids of it; at the end each id is free, or left.
 *
 * The broken variants:
 *   UNLOCK_FIRST    the lock of a dead seat is released before the walk through the owner words
 *   WORD_FIRST      the seat's word is cleared before the walk
 *   WORD_LATE       the seat's word is stored after an id was taken
 *   THREADS_SEARCH  threads of a process search at a time: the locks are of their description
 *   NO_TAKE_BACK    a process takes a dead seat as it is
 *   ANY_OWNER       the walk takes back all ids
 *   LEFT_FREE       the walk leaves ids as free as after a release
 *   LOAD_AND_STORE  an id is taken by a load and a store
 *   FORK_KEEPS      a child of fork keeps the description: the lock stays when its parent ends */
#define PROCESSES 3
#define SEATS 2
#ifndef IDS
#define IDS 1
#endif
#ifndef OPS
#define OPS 1
#endif

#define FREE 0
#define LEFT 1
#define TAG(seat) (2 + (seat)) /* what names the seat in an owner word */
#define NONE 9

byte owner[IDS];
bool word[SEATS];
byte locked[SEATS] = NONE; /* the process whose description has the lock */
byte seat[PROCESSES] = NONE;
bool alive[PROCESSES] = true;
#ifdef TWO_THREADS
#define closes(p) (p == 1)
#else
#define closes(p) (p < 2)
#endif
bool searching[PROCESSES]; /* near__seats.lock */

byte user[IDS] = NONE; /* the process of the thread that has the id */
bool half[IDS];        /* its data are half-changed */
byte ended;

/* A thread of a process that was killed does nothing more. */
#define STEP(what) \
	atomic { \
		if \
		:: !alive[me] -> goto dead \
		:: else -> what \
		fi \
	}

#define HAS_LOCK(i) (locked[i] == NONE || locked[i] == me)

/* With the lock on the seat of a process that ended. */
inline take_back(dead_seat)
{
#ifdef WORD_FIRST
	STEP(word[dead_seat] = false);
#endif
#ifdef UNLOCK_FIRST
	STEP(locked[dead_seat] = NONE);
#endif
	k = 0;
	do
	:: k < IDS ->
		STEP(was = owner[k]);
#ifdef ANY_OWNER
		if
		:: was > LEFT ->
#else
		if
		:: was == TAG(dead_seat) ->
#endif
#ifdef LEFT_FREE
			STEP(owner[k] = FREE)
#else
			STEP(owner[k] = LEFT)
#endif
		:: else -> skip
		fi;
		k++
	:: else -> break
	od;
	atomic { k = 0; was = 0 };
#ifndef WORD_FIRST
	STEP(word[dead_seat] = false)
#endif
}

inline lock_process()
{
	atomic {
		if
		:: !alive[me] -> goto dead
#ifdef THREADS_SEARCH
		:: alive[me] -> skip
#else
		:: alive[me] && !searching[me] -> searching[me] = true
#endif
		fi
	}
}

/* near__seat_take */
inline take_seat()
{
	lock_process();
	i = 0;
	do
	:: i < SEATS && seat[me] == NONE ->
		STEP(if :: locked[i] == NONE -> locked[i] = me; got = true :: else -> got = false fi);
		if
		:: got ->
#ifndef NO_TAKE_BACK
			if
			:: word[i] -> take_back(i)
			:: else -> skip
			fi;
#endif
#ifdef UNLOCK_FIRST
			STEP(locked[i] = me);
#endif
#ifndef WORD_LATE
			STEP(word[i] = true);
#endif
			STEP(seat[me] = i; assert(owner[0] != TAG(i) && owner[IDS - 1] != TAG(i)))
		:: else -> skip
		fi;
		i++
	:: else -> break
	od;
	atomic { i = 0; got = false };
	STEP(searching[me] = false)
}

/* near__seats_search */
inline search()
{
	lock_process();
	i = 0;
	do
	:: i < SEATS ->
		STEP(got = word[i] && i != seat[me]);
		if
		:: got ->
			STEP(if :: HAS_LOCK(i) -> locked[i] = me :: else -> got = false fi);
			if
			:: got ->
				if
				:: word[i] -> take_back(i)
				:: else -> skip
				fi;
				STEP(locked[i] = (locked[i] == me -> NONE : locked[i]))
			:: else -> skip
			fi
		:: else -> skip
		fi;
		i++
	:: else -> break
	od;
	atomic { i = 0; got = false };
	STEP(searching[me] = false)
}

/* What a thread does with the id that it has taken. */
inline use(id)
{
	atomic {
		assert(user[id] == NONE || !alive[user[id]]);
		user[id] = me;
		assert(!half[id] || was == LEFT);
		half[id] = false /* repaired */
	}
}

proctype thread(byte me)
{
	byte i, k, id, was, ops;
	bool got;

	me < 2 || !alive[0] || !alive[1];
	take_seat();
	if
	:: seat[me] == NONE -> goto dead
	:: else -> skip
	fi;
again:
	if
	:: true -> search()
	:: true ->
		if
		:: id = 0
		:: id = IDS - 1
		fi;
#ifdef LOAD_AND_STORE
		STEP(was = owner[id]);
		if
		:: was <= LEFT -> STEP(owner[id] = TAG(seat[me]); use(id)); got = true
		:: else -> skip
		fi;
#else
		STEP(
			was = owner[id];
			if
			:: was <= LEFT -> owner[id] = TAG(seat[me]); use(id); got = true
			:: else -> skip
			fi);
#endif
		if
		:: got ->
#ifdef WORD_LATE
			STEP(word[seat[me]] = true);
#endif
			STEP(half[id] = true);
			STEP(half[id] = false);
			STEP(user[id] = NONE; owner[id] = FREE)
		:: else -> skip
		fi
	fi;
	atomic { got = false; was = 0; id = 0; ops++ };
	if
	:: ops < OPS -> goto again
	:: ops == OPS -> goto dead
	:: ops == OPS && closes(me) -> /* near_shared_ids_close */
		STEP(word[seat[me]] = false);
		STEP(locked[seat[me]] = NONE; alive[me] = false)
	fi;
dead:
	ended++
}

/* At any moment; each process ends. */
proctype killer(byte me)
{
	atomic {
		alive[me] = false;
#ifndef FORK_KEEPS
		if
		:: locked[0] == me -> locked[0] = NONE
		:: else -> skip
		fi;
		if
		:: locked[1] == me -> locked[1] = NONE
		:: else -> skip
		fi;
#endif
		ended++
	}
}

init
{
	byte i, k;

	atomic {
		run thread(0);
		run thread(1);
		run thread(2);
		run killer(1);
#ifdef TWO_THREADS
		run thread(0)
#else
		run killer(0)
#endif
	}
	ended == 5;
	/* The last process: all others have ended. */
	locked[0] = (locked[0] == 2 -> NONE : locked[0]);
	locked[1] = (locked[1] == 2 -> NONE : locked[1]);
	do
	:: i < SEATS ->
		do
		:: k < IDS ->
			owner[k] = (word[i] && locked[i] == NONE && owner[k] == TAG(i)
					    -> LEFT : owner[k]);
			k++
		:: k == IDS -> break
		od;
		k = 0;
		i++
	:: else -> break
	od;
	do
	:: k < IDS ->
		assert(owner[k] <= LEFT);
		assert(!half[k] || owner[k] == LEFT);
		k++
	:: else -> break
	od
}
