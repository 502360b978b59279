/* SPDX-License-Identifier: MIT */
/* Signal handlers that interrupt operations of libatomic (src/atomic/section.h, handler.c, locks.c) in Promela.
 *
 * There are three objects of two words: X under locks 0 and 1, Y under lock 2, Z under lock 1. Each operation exchanges
 * an object's value for a value of its own, one bit, word by word. Thread 0 operates on X; a handler, which operates on X
 * or Z, may interrupt it at any step, and with AGAIN a second one on OTHER. Another thread, without a handler, operates on
 * OTHER, by default Z. If OTHER is Y, it copies the old value before it publishes its section (`object_change` in locked.c), and
 * it has a handler, which operates on Y, too, or with AGAIN two; the handler of thread 0 then operates on X or Y, and waits
 * for that thread. Each access to a lock, a section or a word of an object is a step of its own, except
 * those that a handler makes to a section that it interrupted: it has blocked signals, and holds the section's locks.
 *
 * A wait is one step, which is possible when the lock is free: atomic_lock.pml shows that a waiter is woken. An operation
 * that releases its locks because another operation has the rest may do so again and again if both do; the pauses of the C
 * code end that, here it counts as progress.
 *
 * Checked: no operation returns half of one value and half of another; each value was returned by one operation, or is
 * the object's at the end; no thread writes to an object after another operation has returned the value that it stored;
 * no handler touches a section of another thread; no operation waits for ever.
 *
 * Each broken variant undoes one part of the protocol:
 *   NO_KEEP           a handler does not save the content that it leaves in the object of a rolled back operation
 *   NO_REDO           the interrupted code leaves the object as it wrote it
 *   REDO_HALF         it restores the object, and does not do its operation again
 *   CHECK_EARLY       it checks `rolled_back` before its step is DONE, not after
 *   COMPLETE          a handler completes the interrupted operation instead of rolling it back
 *   ROLL_BACK_AGAIN   an operation that was rolled back is rolled back again
 *   WRITE_EARLY       the step is WRITE before the old value is read
 *   WRITE_LATE        ... after the first word is written
 *   WRITE_NEVER       the step never is WRITE
 *   PUBLISH_LATE      the section is published after the old value is read
 * With OTHER=Y:
 *   NO_CHANGED        a handler that finds no open section does not set `changed`
 *   CHANGED_EARLY     the operation checks `changed` before it publishes its section, not after
 *   CHANGED_IGNORED   a handler restores the object from a copy from before another handler
 *   CLEAR_EARLY       `changed` is cleared before the section with the old copy is unpublished
 */
#define LOCKS 3
#define X 0
#define Y 1
#define Z 2

#ifndef OTHER
#define OTHER Z
#endif

#define DONE 0
#define EXCHANGE 1
#define WRITE 2
#define COPIED 3

#define FREE 9

byte holder[LOCKS] = FREE;
byte section[LOCKS] = FREE; /* the thread whose section the lock shows */
byte a[3], b[3];            /* the objects' words */
bool changed;               /* of lock 2: a handler found no open section */

/* The sections of the threads 0 and 1; thread i operates on object i. */
byte step[2], kept[2], old_a[2], old_b[2];
bool rolled_back[2];
bool seen[2]; /* some operation has returned its value */

bool interrupted[3]; /* that of thread 2 is not used */
bool begun[2], ended[2]; /* in between, a handler may interrupt the thread */

byte given[3], returned[3];
#if OTHER == Y && defined(AGAIN)
byte left = 5;
#elif OTHER == Y || defined(AGAIN)
byte left = 4; /* operations that have not finished */
#else
byte left = 3;
#endif

#define LOCKS_OF(o) (o == X -> 3 : (o == Y -> 4 : 2))

inline account(o, in, one, two)
{
	atomic {
		assert(one == two);
		given[o] = given[o] + in;
		returned[o] = returned[o] + one;
		seen[0] = seen[0] || one == 1;
		seen[1] = seen[1] || one == 2
	}
}

#define IS_WHOLE(o) (a[o] == b[o] && given[o] == returned[o] + a[o])

inline finish()
{
	atomic {
		left--;
		if
		:: left == 0 -> assert(IS_WHOLE(X) && IS_WHOLE(Y) && IS_WHOLE(Z))
		:: else
		fi
	}
}

/* ---- the code that handlers interrupt ---- */

#define STEP(statement) atomic { !interrupted[me] -> statement }
#define STEP_IF(condition, statement) atomic { !interrupted[me] && (condition) -> statement }

#if defined(WRITE_EARLY) || defined(WRITE_LATE) || defined(WRITE_NEVER)
#define SET_WRITE() skip
#else
#define SET_WRITE() STEP(step[me] = WRITE)
#endif

/* near__section_run */
inline run_section(in)
{
#ifdef WRITE_EARLY
	STEP(step[me] = WRITE);
#endif
	STEP(old_a[me] = a[me]);
	STEP(old_b[me] = b[me]);
	SET_WRITE();
	STEP(a[me] = in; assert(!seen[me]));
#ifdef WRITE_LATE
	STEP(step[me] = WRITE);
#endif
	STEP(b[me] = in; assert(!seen[me]))
}

inline unpublish()
{
	section[0] = (section[0] == me -> FREE : section[0]);
	section[1] = (section[1] == me -> FREE : section[1]);
	section[2] = (section[2] == me -> FREE : section[2])
}

/* near__atomic_redo: with signals blocked. */
inline redo(in)
{
	STEP(
#ifndef NO_REDO
		assert(!seen[me]);
		a[me] = kept[me];
		b[me] = kept[me];
#if !defined(REDO_HALF) && !defined(COMPLETE)
		old_a[me] = a[me];
		old_b[me] = b[me];
		a[me] = in;
		b[me] = in;
#endif
#endif
		unpublish()
	)
}

#ifdef CHECK_EARLY
#define SET_DONE() skip
#define SET_DONE_LATE() STEP(step[me] = DONE)
#else
#define SET_DONE() STEP(step[me] = DONE)
#define SET_DONE_LATE() skip
#endif

inline return_old()
{
	account(me, (1 << me), old_a[me], old_b[me]);
	STEP(ended[me] = true; old_a[me] = 0; old_b[me] = 0; kept[me] = 0; finish())
}

/* Two locks: near__take_all, run_under, near__release_all. */
active proctype on_two()
{
	byte me = 0;

	STEP_IF(holder[0] == FREE, holder[0] = me; begun[me] = true);
	do
	:: STEP_IF(holder[1] == FREE, holder[1] = me); break
#if OTHER == Z /* else no other thread holds lock 1 alone */
	:: STEP_IF(holder[1] != FREE, holder[0] = FREE);
progress:
		STEP_IF(holder[0] == FREE && holder[1] == FREE, holder[0] = me)
#endif
	od;
#ifdef PUBLISH_LATE
	STEP(step[me] = EXCHANGE);
	run_section(1);
	STEP(section[0] = me);
	STEP(section[1] = me);
#else
	STEP(section[0] = me);
	STEP(section[1] = me);
	STEP(step[me] = EXCHANGE);
	run_section(1);
#endif
	SET_DONE();
	if
	:: STEP_IF(rolled_back[me], skip); redo(1)
	:: STEP_IF(!rolled_back[me], skip);
		SET_DONE_LATE();
		STEP(section[0] = FREE);
		STEP(section[1] = FREE)
	fi;
	STEP(holder[0] = FREE);
	STEP(holder[1] = FREE);
	return_old()
}

#if OTHER == Y
/* The values of objects are copied before. */
inline write_copied(in)
{
	STEP(a[me] = in; assert(!seen[me]));
	STEP(b[me] = in; assert(!seen[me]))
}

#ifdef CLEAR_EARLY
#define UNPUBLISH_COPY() STEP(changed = false); STEP(section[2] = FREE)
#else
#define UNPUBLISH_COPY() STEP(section[2] = FREE); STEP(changed = false)
#endif

/* begin_again: releases the lock; then run_under. */
inline begin_again(in)
{
	UNPUBLISH_COPY();
	STEP(holder[2] = FREE);
	STEP(step[me] = DONE);
	STEP_IF(holder[2] == FREE, holder[2] = me);
	STEP(section[2] = me);
	STEP(step[me] = EXCHANGE);
	run_section(in)
}

#ifdef CHANGED_EARLY
#define PUBLISH_COPY() skip
#define PUBLISH_COPY_LATE() STEP(section[2] = me)
#else
#define PUBLISH_COPY() STEP(section[2] = me)
#define PUBLISH_COPY_LATE() skip
#endif

/* One lock: change. */
active proctype on_one()
{
	byte me = 1;

	STEP(step[me] = COPIED);
	STEP_IF(holder[2] == FREE, holder[2] = me; begun[me] = true);
	STEP(old_a[me] = a[me]);
	STEP(old_b[me] = b[me]);
	PUBLISH_COPY();
	if
	:: STEP_IF(changed, skip); begin_again(2)
	:: STEP_IF(!changed, skip); PUBLISH_COPY_LATE(); write_copied(2)
	fi;
	SET_DONE();
	if
	:: STEP_IF(rolled_back[me], skip); redo(2)
	:: STEP_IF(!rolled_back[me], skip);
		SET_DONE_LATE();
		STEP(section[2] = FREE)
	fi;
	STEP(holder[2] = FREE);
	return_old()
}
#endif

/* ---- handlers, and the other thread: near__atomic_nested ---- */

#define HAS(set, l) (((set) >> l) & 1)
#define MISSES(l) (HAS(LOCKS_OF(o), l) && holder[l] != me)

inline release(l)
{
	if
	:: HAS(taken, l) -> holder[l] = FREE
	:: else
	fi
}

inline release_all()
{
	atomic { release(0); release(1); release(2); taken = 0 }
}

/* near__take_missing */
inline take_missing()
{
	do
	:: atomic {
			if
			:: MISSES(0) -> l = 0
			:: !MISSES(0) && MISSES(1) -> l = 1
			:: !MISSES(0) && !MISSES(1) && MISSES(2) -> l = 2
			:: else -> break
			fi
		};
		if
		:: atomic { holder[l] == FREE -> holder[l] = me; taken = taken | (1 << l) }
		:: atomic { holder[l] != FREE -> skip };
			release_all();
progress:
			holder[l] == FREE
		fi
	od;
	l = 0
}

/* A section that a lock shows whose holder this operation is. */
#define SHOWS_OWN(l) (HAS(LOCKS_OF(o), l) && section[l] == me)
#define SHOWS_OTHER(l) (HAS(LOCKS_OF(o), l) && section[l] != me && section[l] != FREE)

#ifdef CHANGED_IGNORED
#define IS_STALE false
#else
#define IS_STALE (step[me] == COPIED && changed) /* the thread has not written, and begins again */
#endif

#define IS_OPEN (me < 2 && (SHOWS_OWN(0) || SHOWS_OWN(1) || SHOWS_OWN(2)) && \
		 (step[me] != DONE || rolled_back[me]) && !IS_STALE)

#ifdef NO_CHANGED
#define CHANGES false
#else
#define CHANGES HAS(LOCKS_OF(o), 2)
#endif
#define HAS_OLD(me) (step[me] == WRITE || step[me] == COPIED)

#ifdef ROLL_BACK_AGAIN
#define IS_ROLLED_BACK false
#else
#define IS_ROLLED_BACK rolled_back[me]
#endif

inline make_whole()
{
	assert(!SHOWS_OTHER(0) && !SHOWS_OTHER(1) && !SHOWS_OTHER(2));
	if
	:: IS_OPEN ->
#ifdef COMPLETE
		old_a[me] = (!IS_ROLLED_BACK && step[me] == EXCHANGE -> a[me] : old_a[me]);
		old_b[me] = (!IS_ROLLED_BACK && step[me] == EXCHANGE -> b[me] : old_b[me]);
		a[me] = (IS_ROLLED_BACK -> kept[me] : 1 << me);
		b[me] = a[me];
#else
		a[me] = (IS_ROLLED_BACK -> kept[me] : (HAS_OLD(me) -> old_a[me] : a[me]));
		b[me] = (IS_ROLLED_BACK -> kept[me] : (HAS_OLD(me) -> old_b[me] : b[me]));
#endif
		assert(a[me] == b[me]);
		rolled_back[me] = true
	:: else -> changed = changed || CHANGES
	fi
}

inline keep()
{
	if
	:: IS_OPEN ->
#ifndef NO_KEEP
		assert(a[me] == b[me]);
		kept[me] = a[me]
#endif
	:: else
	fi
}

inline choose()
{
	if
	:: in == 4 -> o = X
	:: in == 4 -> o = (OTHER == Y -> Y : Z)
	:: in != 4 -> o = OTHER
	fi
}

#define MAY_INTERRUPT (me < 2 && begun[me] && !ended[me] && !interrupted[me])

proctype operation(byte me; byte in)
{
	byte o, taken, l, one, two;

	if
	:: atomic { MAY_INTERRUPT -> interrupted[me] = true }
	:: atomic { me < 2 && ended[me] -> goto done }
#if OTHER != Y
	:: me == 2
#endif
	fi;
	atomic { choose() };
	take_missing();
	atomic { make_whole() };
	one = a[o];
	two = b[o];
	a[o] = in;
	b[o] = in;
	atomic { keep() };
	atomic { account(o, in, one, two); one = 0; two = 0; o = 0 };
	release_all();
	interrupted[me] = false;
done:
	finish()
}

init {
	atomic {
		run operation(0, 4);
#if OTHER == Y
		run operation(1, 8);
#ifdef AGAIN
		run operation(1, 32)
#endif
#else
		run operation(2, 16);
#ifdef AGAIN
		run operation(0, 32)
#endif
#endif
	}
}
