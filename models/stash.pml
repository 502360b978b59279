/* SPDX-License-Identifier: MIT */
/* A slot's list and its stash (src/malloc/cache/cache.h, transfer.c) while another thread drains the slot
 * (drain.c), from the slot's first use on, in Promela. drain.pml has the list alone, in more detail.
 *
 * Two threads of one slot begin with a block each. They push and pop it, take the whole list and put it into
 * the stash, take a list out of the stash and make it the slot's. Lists that find no place go to the
 * central part. A closer exchanges both words for closed ones, fences, looks, and takes what there was.
 *
 * Checked: nobody gets a block that somebody has; at the end each block is in one place.
 *
 * The broken variants:
 *   PUSH_ANYTHING  a push does not look whether the list is closed
 *   LIST_ALONE     the closer looks only at the list after the fence
 *   NO_FENCE       what was exchanged is taken for closed at once
 *   BEGIN_STORES   the first use stores its words, whatever stands there
 *   READ_LATE      the closer reads the stash after it has opened it */
#ifndef OPS
#define OPS 2
#endif
#define BLOCKS 2
#define THREADS 2
#define PLACES 2 /* of the stash */

/* Words of the list: a block's number, or */
#define EMPTY 10
#define CLOSED 11
#define UNUSED 12

/* The stash's number: lists in it, and 1; or */
#define CLOSED_STASH 20

byte list = UNUSED;
byte stashed = 0;
byte stash[PLACES];
byte link[BLOCKS];
bool owned[BLOCKS];

#define IDLE 0
#define RUNS 1
#define ABORTED 2
byte sequence[THREADS];
byte done;

#define ABORT(who) \
	atomic { \
		if \
		:: sequence[who] == RUNS -> sequence[who] = ABORTED \
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

/* Each block of a list is somebody's from here on: of the central part. */
inline give(word)
{
	do
	:: word < EMPTY ->
		atomic {
			assert(!owned[word]);
			owned[word] = true;
			word = link[word]
		}
	:: else -> break
	od
}

inline begin()
{
#ifdef BEGIN_STORES
	if
	:: list == UNUSED ->
		stashed = 1;
		list = EMPTY
	:: else -> skip
	fi
#else
	atomic {
		if
		:: stashed == 0 -> stashed = 1
		:: else -> skip
		fi
	};
	atomic {
		if
		:: list == UNUSED -> list = EMPTY
		:: else -> skip
		fi
	}
#endif
}

proctype slot_thread(byte me)
{
	byte word, rest, hand = EMPTY, mine = me, ops;

	begin();
again:
	word = 0;
	rest = 0;
	begin_sequence();
	if
	:: mine != EMPTY -> /* push */
		STEP(word = list, failed);
#ifdef PUSH_ANYTHING
		if
		:: word == UNUSED -> goto failed
		:: else -> skip
		fi;
#else
		if
		:: word > EMPTY -> goto failed
		:: else -> skip
		fi;
#endif
		STEP(link[mine] = word, failed);
		COMMIT(owned[mine] = false; list = mine; mine = EMPTY, failed)
	:: mine == EMPTY -> /* pop */
		STEP(word = list, failed);
		if
		:: word >= EMPTY -> goto failed
		:: else -> skip
		fi;
		STEP(rest = link[word], failed);
		COMMIT(list = rest, failed);
		atomic { assert(!owned[word]); owned[word] = true; mine = word }
	:: true -> /* take_list, stash_push */
		STEP(word = list, failed);
		if
		:: word >= EMPTY -> goto failed
		:: else -> skip
		fi;
		COMMIT(list = EMPTY; hand = word, failed);
		begin_sequence();
		STEP(word = stashed, keep);
		if
		:: word == 0 || word > PLACES -> goto keep
		:: else -> skip
		fi;
		STEP(stash[word - 1] = hand, keep);
		COMMIT(stashed = word + 1; hand = EMPTY, keep)
	:: true -> /* stash_pop, fill */
		STEP(word = stashed, failed);
		if
		:: word < 2 || word == CLOSED_STASH -> goto failed
		:: else -> skip
		fi;
		STEP(rest = stash[word - 2], failed);
		COMMIT(stashed = word - 1; hand = rest, failed);
		begin_sequence();
		STEP(word = list, keep);
		if
		:: word != EMPTY -> goto keep
		:: else -> skip
		fi;
		COMMIT(list = hand; hand = EMPTY, keep)
	fi;
keep:
	give(hand);
	hand = EMPTY;
failed:
	sequence[me] = IDLE;
	ops++;
	if
	:: ops < OPS -> goto again
	:: else -> done++
	fi
}

proctype closer()
{
	byte truth = EMPTY, lists = 0, word, number, i;

	if
	:: list == UNUSED -> goto out
	:: else -> skip
	fi;
again:
	atomic { number = stashed; stashed = CLOSED_STASH };
	atomic { word = list; list = CLOSED };
	if
	:: number != CLOSED_STASH -> lists = number
	:: else -> skip
	fi;
	if
	:: word != CLOSED -> truth = word
	:: else -> skip
	fi;
#ifndef NO_FENCE
	ABORT(0);
	ABORT(1);
#endif
	if
	:: list != CLOSED -> goto again
#ifndef LIST_ALONE
	:: list == CLOSED && stashed != CLOSED_STASH -> goto again
#endif
	:: else -> skip
	fi;
#ifdef READ_LATE
	stashed = 1;
	give(truth);
	list = EMPTY;
#endif
	i = 0;
	do
	:: i + 1 < lists ->
		word = stash[i];
		give(word);
		i++
	:: else -> break
	od;
#ifndef READ_LATE
	give(truth);
	stashed = 1;
	list = EMPTY;
#endif
out:
	done++
}

init
{
	byte found, word, i;

	atomic {
		owned[0] = true;
		owned[1] = true;
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
	i = 0;
	do
	:: i + 1 < stashed && stashed != CLOSED_STASH ->
		word = stash[i];
		do
		:: word < EMPTY ->
			assert(!owned[word] && found < BLOCKS);
			found++;
			word = link[word]
		:: else -> break
		od;
		i++
	:: else -> break
	od;
	for (i : 0 .. BLOCKS - 1) {
		found = found + owned[i]
	}
	assert(found == BLOCKS)
}
