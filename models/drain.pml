/* SPDX-License-Identifier: MIT */
/* How a thread takes the list of another slot (src/cache/close.c) in Promela: exchange the list
 * for a closed one, fence, and check that it is still closed.
 *
 * Two threads of one slot pop blocks off its list and push them back by sequences; a closer takes
 * the list, traverses it, and leaves an empty one. A sequence is aborted by a fence, and when
 * another thread runs on the slot.
 *
 * Checked: no thread gets a block that another one has; at the end each block is in one place.
 *
 * The broken variants:
 *   NO_FENCE       the list counts as closed directly after the exchange
 *   NO_CHECK        the list counts as closed after the fence, without a check
 *   FIRST_TRUTH    the closer keeps the list of its first exchange LOAD_AND_STORE the exchange
 *                  consists of two steps
 *   PLAIN_FENCE    the fence aborts no sequence
 *   PREEMPT_KEEPS  a thread that was preempted continues its sequence */
#ifndef OPS
#define OPS 2
#endif
#define BLOCKS 2
#define THREADS 2

/* Words of the list: a block's number, or */
#define EMPTY 10
#define CLOSED 11

byte list = 0;
byte link[BLOCKS]; /* the word behind a block; 0 -> 1 -> EMPTY */
bool owned[BLOCKS];
byte drained; /* how many blocks the closer has */

#define IDLE 0
#define RUNS 1
#define ABORTED 2
byte sequence[THREADS];
byte done;

#define ABORT(thread) \
	atomic { \
		if \
		:: sequence[thread] == RUNS -> sequence[thread] = ABORTED \
		:: else -> skip \
		fi \
	}

/* The CPU of each thread has its moment. */
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

proctype slot_thread(byte me)
{
	byte word, rest, mine = EMPTY, ops;

again:
	begin_sequence();
	STEP(word = list);
	if
	:: mine == EMPTY ->
		if
		:: word >= EMPTY -> goto failed
		:: else -> skip
		fi;
		STEP(rest = link[word]);
		STEP(list = rest; sequence[me] = IDLE);
		atomic { assert(!owned[word]); owned[word] = true; mine = word }
	:: else ->
		if
		:: word == CLOSED -> goto failed
		:: else -> skip
		fi;
		STEP(link[mine] = word);
		/* The block is given away by the commit. */
		STEP(owned[mine] = false; list = mine; sequence[me] = IDLE; mine = EMPTY)
	fi;
failed:
	atomic {
		sequence[me] = IDLE;
		word = 0;
		rest = 0;
		ops++
	}
	if
	:: ops < OPS -> goto again
	:: else -> done++
	fi
}

proctype closer()
{
	byte truth = EMPTY, word;

again:
#ifdef LOAD_AND_STORE
	word = list;
	list = CLOSED;
#else
	atomic { word = list; list = CLOSED }
#endif
	if
#ifdef FIRST_TRUTH
	:: word != CLOSED && truth == EMPTY -> truth = word
#else
	:: word != CLOSED -> truth = word
#endif
	:: else -> skip
	fi;
#ifndef NO_FENCE
	fence();
#endif
#ifndef NO_CHECK
	if
	:: list != CLOSED -> goto again
	:: else -> skip
	fi;
#endif
	do
	:: truth < EMPTY ->
		atomic {
			assert(!owned[truth]);
			owned[truth] = true;
			drained++;
			truth = link[truth]
		}
	:: else -> break
	od;
	list = EMPTY;
	done++
}

init
{
	byte found, word, i;

	atomic {
		link[0] = 1;
		link[1] = EMPTY;
		run slot_thread(0);
		run slot_thread(1);
		run closer()
	}
	done == THREADS + 1;
	word = list;
	do
	:: word < EMPTY ->
		assert(!owned[word] && found < BLOCKS);
		found++;
		word = link[word]
	:: else -> break
	od;
	for (i : 0 .. BLOCKS - 1) {
		found = found + owned[i]
	}
	assert(found == BLOCKS)
}
