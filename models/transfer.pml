/* SPDX-License-Identifier: MIT */
/* A slot's list and its transfer cache (src/cache/cache.h, bin.c) while another thread drains the
 * slot (close.c), from the slot's first use on, in Promela. drain.pml has the list
 * alone, in more detail.
 *
 * Two threads of one slot begin with a block each. They push and pop it, put the whole list into
 * the transfer cache, and make a list of the transfer cache the slot's. Lists that do not fit go to
 * the central lists. A closer exchanges both words for closed ones, fences, checks both, and takes
 * the lists.
 *
 * Checked: no thread gets a block that another one has; at the end each block is in one place.
 *
 * The broken variants:
 *   PUSH_ANYTHING  a push does not check whether the list is closed
 *   LIST_ALONE     the closer checks only the list after the fence
 *   NO_FENCE       both count as closed directly after the exchange
 *   BEGIN_STORES   the first use stores its words unconditionally
 *   READ_LATE      the closer reads the transfer cache after it has opened it */
#ifndef OPS
#define OPS 2
#endif
#define BLOCKS 2
#define THREADS 2
#define PLACES 2 /* of the transfer cache */

/* Words of the list: a block's number, or */
#define EMPTY 10
#define CLOSED 11
#define UNUSED 12

/* The number of the transfer cache: its lists, plus 1; or */
#define CLOSED_TRANSFERS 20

byte list = UNUSED;
byte transfers = 0;
byte transfer[PLACES];
byte link[BLOCKS];
bool owned[BLOCKS];

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

/* From here on the central lists own each block of a list. */
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
		transfers = 1;
		list = EMPTY
	:: else -> skip
	fi
#else
	atomic {
		if
		:: transfers == 0 -> transfers = 1
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
	:: true -> /* take_list, transfer_push */
		STEP(word = list, failed);
		if
		:: word >= EMPTY -> goto failed
		:: else -> skip
		fi;
		COMMIT(list = EMPTY; hand = word, failed);
		begin_sequence();
		STEP(word = transfers, keep);
		if
		:: word == 0 || word > PLACES -> goto keep
		:: else -> skip
		fi;
		STEP(transfer[word - 1] = hand, keep);
		COMMIT(transfers = word + 1; hand = EMPTY, keep)
	:: true -> /* transfer_pop, fill */
		STEP(word = transfers, failed);
		if
		:: word < 2 || word == CLOSED_TRANSFERS -> goto failed
		:: else -> skip
		fi;
		STEP(rest = transfer[word - 2], failed);
		COMMIT(transfers = word - 1; hand = rest, failed);
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
	atomic { number = transfers; transfers = CLOSED_TRANSFERS };
	atomic { word = list; list = CLOSED };
	if
	:: number != CLOSED_TRANSFERS -> lists = number
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
	:: list == CLOSED && transfers != CLOSED_TRANSFERS -> goto again
#endif
	:: else -> skip
	fi;
#ifdef READ_LATE
	transfers = 1;
	give(truth);
	list = EMPTY;
#endif
	i = 0;
	do
	:: i + 1 < lists ->
		word = transfer[i];
		give(word);
		i++
	:: else -> break
	od;
#ifndef READ_LATE
	give(truth);
	transfers = 1;
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
	:: i + 1 < transfers && transfers != CLOSED_TRANSFERS ->
		word = transfer[i];
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
