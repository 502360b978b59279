/* SPDX-License-Identifier: MIT */
/* near_rcu_map (src/rcu/map.h) in Promela: lookups, changes, resizes, iterations. Memory is
 * sequentially consistent; rcu_map.cc has C11's orderings.
 *
 * Hashes are 0 and 1. Tables have two buckets, one for each hash, and one bucket in turns; GROWS:
 * the first has one. A bucket has two slots, and one in its chain. All tags are equal. There is one
 * stripe. Entries FIRST and SECOND, of the two hashes, are in the map for ever. CHANGERS threads
 * make CHANGES changes each of a third key, whose hash is 0 and which has an entry at first.
 * REPLACE_IF: they replace, remove or insert what they had looked up before, in the same section.
 * READERS threads look up LOOKUPS times, the third key or else the second, and the first;
 * ITERATORS iterate. RESIZERS make RESIZES resizes. A grace period ends as soon as it may.
 *
 * Checked: lookups find what is there for ever; those of the third key, by all threads, agree with
 * one order of its changes, in which none is lost; an iteration finds each lasting entry once;
 * nobody has an entry or a table that was freed; each table is retired once.
 *
 * The broken variants:
 *   TAG_LAST         an insertion stores the slot before the tag
 *   KEEP_SLOT        a removal clears the tag alone
 *   REPLACE_APART    a replacement is a removal and an insertion
 *   FREE_ENTRY       an entry is freed without a grace period
 *   FREE_TABLE       a table is
 *   CHECK_LATE       a lookup asks whether the bucket has moved after the slots
 *   MOVED_FIRST      a bucket is marked as moved before its copies are there
 *   MOVE_UNLOCKED    it is moved without the stripe's lock
 *   CHANGE_UNMOVED   a change does not ask whether the bucket has moved
 *   TABLE_UNLOCKED   a change loads the table before it takes the lock
 *   RETIRE_UNLOCKED  the old table is retired without a wait for who has the lock
 *   KEEP_MOVED       the count of moved buckets is not cleared for the next resize
 *   BEGIN_UNLOCKED   a resize begins before the old table is retired
 *   END_UNLOCKED     two threads may end a resize
 *   RETIRED_STORED   the list of retired tables is loaded, and stored
 *   EXPECT_ANY       REPLACE_IF: whatever has the key is replaced
 *   EXPECT_LATER     REPLACE_IF: the section ends after the lookup
 *   RETURN_ALL       an iteration returns all that its bucket has
 *   LAST_OF_NEXT     it does not know which bucket has moved
 */
#ifndef READERS
#define READERS 0
#endif
#ifndef LOOKUPS
#define LOOKUPS 1
#endif
#ifndef ITERATORS
#define ITERATORS 0
#endif
#ifndef CHANGERS
#define CHANGERS 0
#endif
#ifndef CHANGES
#define CHANGES 1
#endif
#ifndef RESIZERS
#define RESIZERS 0
#endif
#ifndef RESIZES
#define RESIZES 1
#endif

#define TABLES (RESIZES + 1)
#define FIRST 1
#define SECOND 2
#define THIRD 3
#define MOST 8 /* entries; tables follow */

#define KEY(e) (e > THIRD -> THIRD : e) /* of an entry; its first one has the same number */
#define HASH(key) (key == SECOND)

#ifdef GROWS
#define BUCKETS(t) (t % 2 + 1)
#else
#define BUCKETS(t) (2 - t % 2)
#endif
#define BUCKET(t, hash) (2 * t + (BUCKETS(t) == 2 && hash))

#define MOVED 8 /* the bits below are tags, of three slots */

byte table;
byte next[TABLES];
byte control[2 * TABLES];
byte slot[6 * TABLES];
bool stripe, resizing; /* locks */
byte moved;
byte retired;  /* a bit for each table */

/* What grace periods know: 0; RETIRED and a bit for each section that may have it. */
#define RETIRED 128
#if READERS + ITERATORS + CHANGERS > 7
#error "sections are seven bits"
#endif
byte life[MOST + TABLES];
byte sections;

/* The third key's entry after each change; those that have begun; up to which all know it. */
byte value[CHANGERS * CHANGES + 1];
byte begun, known;

#define USE(x) assert(life[x] != RETIRED)
#define TOUCH(t) USE(MOST + t)

inline lock(which)
{
	atomic { !which -> which = true }
}

inline unlock(which)
{
	which = false
}

inline enter(me)
{
	sections = sections | (1 << me)
}

inline leave(me)
{
	sections = sections & ~(1 << me);
	x = 0;
	do
	:: x < MOST + TABLES -> life[x] = life[x] & ~(1 << me); x++
	:: else -> break
	od;
	x = 0
}

/* x is freed when the sections of now have ended. */
inline retire(x)
{
	assert(life[x] == 0);
	life[x] = RETIRED | sections
}

/* ---- lookups ---- */

#if READERS > 0
/* Leaves the table's word in t and the control word in c. */
inline find_bucket()
{
	t = table;
	do
	:: atomic { TOUCH(t); c = control[BUCKET(t, HASH(key))] };
#ifdef CHECK_LATE
		break
#else
		if
		:: c & MOVED -> t = next[t]
		:: else -> break
		fi
#endif
	od
}

/* Leaves the entry in e, or 0. */
inline find_slot()
{
	do
	:: s < 3 ->
		atomic {
			TOUCH(t);
			e = (c & (1 << s) -> slot[3 * BUCKET(t, HASH(key)) + s] : 0);
			s++
		};
		atomic {
			USE(e);
			if
			:: e && KEY(e) == key -> break
			:: else ->
				e = 0;
				/* The chain has a control word of its own. */
				c = (s == 2 -> control[BUCKET(t, HASH(key))] : c)
			fi
		}
	:: else -> break
	od
}

/* Changes of the third key that lookups know of stay known. */
inline check()
{
	if
	:: key != THIRD -> assert(e == key)
	:: else ->
		do
		:: low < begun && value[low] != e -> low++
		:: else -> break
		od;
		assert(value[low] == e);
		known = (low > known -> low : known)
	fi
}

proctype reader(byte me)
{
	byte t, c, s, e, key, low, x, lookups;

	do
	:: lookups < LOOKUPS ->
		atomic {
			if
			:: key = FIRST
#if CHANGERS > 0
			:: key = THIRD
#else
			:: key = SECOND
#endif
			fi;
			low = known;
			enter(me)
		};
		find_bucket();
		find_slot();
#ifdef CHECK_LATE
		if
		:: !e && (control[BUCKET(t, HASH(key))] & MOVED) -> t = next[t]; s = 0; find_slot()
		:: else
		fi;
#endif
		atomic { USE(e); check(); leave(me); t = 0; c = 0; s = 0; e = 0; key = 0; low = 0 };
		lookups++
	:: else -> break
	od
}
#endif

/* ---- iterations ---- */

#if ITERATORS > 0
#ifdef RETURN_ALL
#define IS_TO_RETURN(e) (e == FIRST || e == SECOND)
#else
#define IS_TO_RETURN(e) ((e == FIRST || e == SECOND) && HASH(e) >= first && HASH(e) <= last)
#endif

proctype iterator(byte me)
{
	byte t, s, e, first, last, x;
	byte seen[SECOND + 1];

	atomic { enter(me) };
	do
	:: first < 2 ->
		t = table;
		last = 1;
		do
		:: atomic {
			TOUCH(t);
#ifdef LAST_OF_NEXT
			last = (BUCKETS(t) == 2 -> first : 1);
#else
			last = (BUCKETS(t) == 2 -> first : last);
#endif
			if
			:: control[BUCKET(t, first)] & MOVED
			:: else -> break
			fi
		   };
			t = next[t]
		od;
		do
		:: s < 3 ->
			atomic { TOUCH(t); e = slot[3 * BUCKET(t, first) + s]; s++ };
			atomic {
				USE(e);
				if
				:: IS_TO_RETURN(e) -> seen[e]++
				:: else
				fi;
				e = 0
			}
		:: else -> break
		od;
		atomic { s = 0; first = last + 1 }
	:: else -> break
	od;
	atomic { assert(seen[FIRST] == 1 && seen[SECOND] == 1); leave(me) }
}
#endif

/* ---- changes ---- */

/* A slot of a bucket that is free. */
inline find_free(b)
{
	f = 0;
	do
	:: control[b] & (1 << f) -> f++
	:: else -> break
	od;
	assert(f < 3)
}

#if CHANGERS > 0
/* Nobody else writes to the bucket. */
inline find_entry()
{
	TOUCH(t);
	b = BUCKET(t, 0);
	s = 0;
	do
	:: s < 3 && (!(control[b] & (1 << s)) || KEY(slot[3 * b + s]) != THIRD) -> s++
	:: else -> break
	od;
	e = (s < 3 -> slot[3 * b + s] : 0)
}

inline add()
{
	atomic { find_free(b); s = f; f = 0 };
#ifdef TAG_LAST
	atomic { TOUCH(t); slot[3 * b + s] = 3 + begun };
#endif
	atomic { TOUCH(t); control[b] = control[b] | (1 << s) };
#ifndef TAG_LAST
	atomic { TOUCH(t); slot[3 * b + s] = 3 + begun };
#endif
}

inline take_out()
{
#ifndef KEEP_SLOT
	atomic { TOUCH(t); slot[3 * b + s] = 0 };
#endif
	atomic { TOUCH(t); control[b] = control[b] & ~(1 << s) };
}

#ifdef REPLACE_IF
/* As a lookup now, which finds what the last change has left. */
inline expect()
{
	atomic { enter(me); expected = value[begun] };
#ifdef EXPECT_LATER
	leave(me)
#endif
}

inline unexpect()
{
#ifndef EXPECT_LATER
	leave(me);
#endif
	expected = 0
}

/* By its address, which must not be another entry's by now. */
#ifdef EXPECT_ANY
#define IS_EXPECTED(e) true
#else
#define IS_EXPECTED(e) (e == expected)
#endif
#else
#define IS_EXPECTED(e) true
#endif

/* The entry of change n is 3 + n. */
inline record_change(entry)
{
	begun++;
	value[begun] = entry
}

proctype changer(byte me)
{
	byte t, b, s, f, e, changes;
#ifdef REPLACE_IF
	byte expected, x;
#endif

	do
	:: changes < CHANGES ->
#ifdef REPLACE_IF
		expect();
#endif
#ifdef TABLE_UNLOCKED
		t = table;
#endif
		lock(stripe);
#ifndef TABLE_UNLOCKED
		t = table;
#endif
#ifndef CHANGE_UNMOVED
		atomic {
			TOUCH(t);
			if
			:: control[BUCKET(t, 0)] & MOVED -> t = next[t]
			:: else
			fi
		};
#endif
		atomic { find_entry(); assert(e == value[begun]) };
#ifdef REPLACE_IF
		USE(expected);
#endif
		if
		:: atomic { !IS_EXPECTED(e) -> e = 0 }
		:: atomic { !e && IS_EXPECTED(e) -> record_change(3 + begun) };
			add()
		:: atomic {
			e && IS_EXPECTED(e) ->
#ifdef REPLACE_IF
			assert(expected == value[begun]);
#endif
			record_change(3 + begun)
		   };
#ifdef REPLACE_APART
			take_out();
			add()
#else
			atomic { TOUCH(t); slot[3 * b + s] = 3 + begun }
#endif
		:: atomic { e && IS_EXPECTED(e) -> record_change(0) };
			take_out()
		fi;
		atomic {
			known = begun;
			unlock(stripe);
#ifdef FREE_ENTRY
			if
			:: e -> life[e] = RETIRED
			:: else
			fi;
#else
			if
			:: e -> retire(e)
			:: else
			fi;
#endif
#ifdef REPLACE_IF
			unexpect();
#endif
			t = 0;
			b = 0;
			s = 0;
			e = 0;
			changes++
		}
	:: else -> break
	od
}
#endif

/* ---- resizes ---- */

#if RESIZERS > 0
inline mark_moved()
{
	atomic { TOUCH(t); control[BUCKET(t, moved)] = control[BUCKET(t, moved)] | MOVED }
}

inline move_bucket()
{
#ifdef MOVED_FIRST
	mark_moved();
#endif
	do
	:: s < 3 ->
		atomic {
			TOUCH(t);
			e = slot[3 * BUCKET(t, moved) + s];
			s++;
			if
			:: e ->
				find_free(BUCKET(next[t], HASH(e)));
				slot[3 * BUCKET(next[t], HASH(e)) + f] = e;
				control[BUCKET(next[t], HASH(e))] =
					control[BUCKET(next[t], HASH(e))] | (1 << f)
			:: else
			fi;
			e = 0;
			f = 0
		}
	:: else -> break
	od;
	s = 0;
#ifndef MOVED_FIRST
	mark_moved();
#endif
	moved++
}

inline begin_resize()
{
#ifndef BEGIN_UNLOCKED
	lock(resizing);
#endif
	atomic {
		t = table;
		if
		:: !next[t] && t + 1 < TABLES -> next[t] = t + 1
		:: else
		fi;
		t = 0
	};
#ifndef BEGIN_UNLOCKED
	unlock(resizing)
#endif
}

inline move_some()
{
#ifndef MOVE_UNLOCKED
	lock(stripe);
#endif
	t = table;
	atomic { TOUCH(t); all = !next[t] || moved == BUCKETS(t) };
	if
	:: !all -> move_bucket()
	:: else
	fi;
	t = 0;
#ifndef MOVE_UNLOCKED
	unlock(stripe)
#endif
}

inline retire_tables()
{
	atomic {
		list = retired;
		retired = 0;
		t = 0;
		do
		:: list ->
			if
			:: list & 1 ->
#ifdef FREE_TABLE
				life[MOST + t] = RETIRED
#else
				retire(MOST + t)
#endif
			:: else
			fi;
			list = list >> 1;
			t++
		:: else -> break
		od;
		t = 0
	}
}

inline end_resize()
{
#ifndef END_UNLOCKED
	lock(resizing);
#endif
	t = table;
	lock(stripe);
	atomic { all = next[t] && moved == BUCKETS(t); unlock(stripe) };
	if
	:: all ->
		table = next[t];
#ifndef RETIRE_UNLOCKED
		lock(stripe);
#endif
#ifndef KEEP_MOVED
		moved = 0;
#endif
#ifndef RETIRE_UNLOCKED
		unlock(stripe);
#endif
#ifdef RETIRED_STORED
		list = retired;
		retired = list | (1 << t);
#else
		retired = retired | (1 << t)
#endif
	:: else
	fi;
#ifndef END_UNLOCKED
	atomic { t = 0; all = false; list = 0; unlock(resizing) };
#endif
	retire_tables()
}

proctype resizer()
{
	byte t, s, f, e, list;
	bool all;

	do
	:: table < RESIZES ->
		begin_resize();
		do
		:: all -> break
		:: else -> move_some()
		od;
		end_resize()
	:: else -> break
	od
}
#endif

init
{
	byte n;

	atomic {
		slot[0] = FIRST;
#ifdef GROWS
		control[0] = 7;
		slot[1] = SECOND;
		slot[2] = THIRD;
#else
		control[0] = 3;
		slot[1] = THIRD;
		control[1] = 1;
		slot[3] = SECOND;
#endif
		value[0] = THIRD;
		do
		:: n < READERS + ITERATORS ->
#if READERS > 0
			if
			:: n < READERS -> run reader(n)
			:: else
			fi;
#endif
#if ITERATORS > 0
			if
			:: n >= READERS -> run iterator(n)
			:: else
			fi;
#endif
			n++
		:: else -> break
		od;
#if CHANGERS > 0
		run changer(READERS + ITERATORS);
#if CHANGERS > 1
		run changer(READERS + ITERATORS + 1);
#endif
#endif
#if RESIZERS > 0
		run resizer();
#if RESIZERS > 1
		run resizer();
#endif
#endif
	}
}
