/* SPDX-License-Identifier: MIT */
/* Signal handlers within sections of libatomic (src/atomic/section.h, help.c, lend.h, locks.c) in Promela.
 *
 * Three objects of two words: X under locks 0 and 1, Y under lock 2, Z under lock 1. Each operation exchanges an
 * object's value for one of its own, a bit, word by word. Thread 0 has a section on X, thread 1 one on Y; at any
 * step of it a handler may come to each, and operate on the other's object; a third thread, which has no section to
 * interrupt, operates on THIRD, which is Z unless it is said. With ALONE it is a second handler of thread 0 instead. All accesses to a lock, a section and the words of an object are steps of their own, but for what is
 * done with signals blocked to a section that stands still.
 *
 * A wait is one step, which is possible when the lock is free or lent: atomic_lock.pml shows that a waiter
 * hears of it. Who gives up what it has because another has the rest may do so again and again, if that one does
 * the same: the C code's pauses end that, here it is progress.
 *
 * Checked: no operation returns half of one value and half of another; each value was returned by one operation, or is
 * the object's in the end; nobody writes to an object after another has seen that he changed it; no code goes on with a
 * section while its locks are not its own, and nobody touches a section whose code runs; nobody waits for ever.
 *
 * NO_NOTHING shows sections of two locks as those of one, without a first step NOTHING, and is right (it is not run with
 * the others). The broken variants:
 *   NO_LEND           a handler that waits lends nothing
 *   NO_CLAIM          it returns without claiming back
 *   BORROW_UNBLOCKED  a handler comes to a borrower
 *   BORROW_PART       who borrows does not take all locks of a section
 *   NO_KEEP           who operates on a section's object does not keep what it then holds
 *   NO_MEND           the interrupted code leaves what it wrote
 *   MEND_OBJECT       it mends the object, and does not do its operation again
 *   MEND_LATE         it looks whether it was helped before the step is NOTHING, and no more
 *   COMPLETE          who operates on a section's object completes the section instead of taking it back
 *   TAKE_BACK_AGAIN   a section that was taken back is taken back again
 *   DECIDE_EARLY      the step is WRITE before the old value is read
 *   DECIDE_LATE       ... after the first word is written
 *   DECIDE_NEVER      the step stays
 *   SHOW_LATE         the section is shown after the old value is read
 */
#define LOCKS 3
#define X 0
#define Y 1
#define Z 2

#ifndef THIRD
#define THIRD Z
#endif

#define KEPT 0
#define LENT 1
#define BORROWED 2

#define NOTHING 0
#define EXCHANGE 1
#define WRITE 2

#define FREE 9

byte holder[LOCKS] = FREE, lent[LOCKS];
byte shows[LOCKS] = FREE; /* whose section */
byte a[3], b[3];          /* the objects' words */

/* The sections of the threads 0 and 1; `object` of thread i is i. */
byte step[2], kept[2], first[2], second[2];
bool helped[2];
bool seen[2]; /* somebody has seen its value */

/* The interrupted code stands still. */
bool interrupted[4];
bool begun[2], ended[2]; /* a handler may come between */

byte given[3], returned[3];
#ifdef BORROW_UNBLOCKED
byte left = 6;
#else
byte left = 5; /* who has not finished */
#endif /* who has not finished */

#define LOCKS_OF(o) (o == X -> 3 : (o == Y -> 4 : 2))
#define VALUE(o) (a[o])

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

#define IN_ORDER(o) (a[o] == b[o] && given[o] == returned[o] + a[o])

inline finish()
{
	atomic {
		left--;
		if
		:: left == 0 -> assert(IN_ORDER(X) && IN_ORDER(Y) && IN_ORDER(Z))
		:: else
		fi
	}
}

/* ---- sections ---- */

#define OPEN(s) (step[s] != NOTHING || helped[s])

/* A step of the code that handlers interrupt. */
#define STEP(statement) atomic { !interrupted[me] -> statement }
#define STEP_IF(condition, statement) atomic { !interrupted[me] && (condition) -> statement }

#define IS_OWN(l) (holder[l] != me || lent[l] == KEPT)
#define GOES_ON() assert(IS_OWN(0) && IS_OWN(1) && IS_OWN(2))

#if defined(DECIDE_EARLY) || defined(DECIDE_LATE) || defined(DECIDE_NEVER)
#define DECIDE_RIGHT(what) skip
#else
#define DECIDE_RIGHT(what) STEP(step[me] = what; GOES_ON())
#endif

inline run_section(in)
{
#ifdef DECIDE_EARLY
	STEP(step[me] = WRITE);
#endif
	STEP(first[me] = a[me]; GOES_ON());
	STEP(second[me] = b[me]; GOES_ON());
	DECIDE_RIGHT(WRITE);
	STEP(a[me] = in; GOES_ON(); assert(!seen[me]));
#ifdef DECIDE_LATE
	STEP(step[me] = WRITE);
#endif
	STEP(b[me] = in; GOES_ON(); assert(!seen[me]))
}

/* near__atomic_mend: with signals blocked. */
inline mend(in)
{
	STEP(
		GOES_ON();
#ifndef NO_MEND
		assert(!seen[me]);
		a[me] = kept[me];
		b[me] = kept[me];
#if !defined(MEND_OBJECT) && !defined(COMPLETE)
		first[me] = a[me];
		second[me] = b[me];
		a[me] = in;
		b[me] = in;
#endif
#endif
		shows[0] = (shows[0] == me -> FREE : shows[0]);
		shows[1] = (shows[1] == me -> FREE : shows[1]);
		shows[2] = (shows[2] == me -> FREE : shows[2])
	)
}

#ifdef MEND_LATE
#define happen() skip
#define happen_late() STEP(step[me] = NOTHING; GOES_ON())
#else
#define happen() STEP(step[me] = NOTHING; GOES_ON())
#define happen_late() skip
#endif

inline over()
{
	account(me, (1 << me), first[me], second[me]);
	STEP(ended[me] = true; first[me] = 0; second[me] = 0; kept[me] = 0; finish())
}

/* Two locks: near__take_all, do_under, near__let_go_all. */
active proctype on_two()
{
	byte me = 0;

	STEP_IF(holder[0] == FREE, holder[0] = me; begun[me] = true);
	do
	:: STEP_IF(holder[1] == FREE, holder[1] = me); break
#if THIRD == Z && !defined(ALONE) /* else nobody has it who does not have lock 0 */
	:: STEP_IF(holder[1] != FREE, GOES_ON(); holder[0] = FREE);
progress:
		STEP_IF(holder[0] == FREE && holder[1] == FREE, holder[0] = me)
#endif
	od;
#ifdef NO_NOTHING
	STEP(step[me] = EXCHANGE);
#endif
#ifdef SHOW_LATE
	STEP(step[me] = EXCHANGE);
	run_section(1);
	STEP(shows[0] = me);
	STEP(shows[1] = me);
#else
	STEP(shows[0] = me; GOES_ON());
	STEP(shows[1] = me; GOES_ON());
#ifndef NO_NOTHING
	STEP(step[me] = EXCHANGE; GOES_ON());
#endif
	run_section(1);
#endif
	happen();
	if
	:: STEP_IF(helped[me], GOES_ON()); mend(1)
	:: STEP_IF(!helped[me], GOES_ON());
		happen_late();
		STEP(shows[0] = FREE; GOES_ON());
		STEP(shows[1] = FREE; GOES_ON())
	fi;
	STEP(holder[0] = FREE);
	STEP(holder[1] = FREE);
	over()
}

/* One: do_with. */
active proctype on_one()
{
	byte me = 1;

	STEP(step[me] = EXCHANGE);
	STEP_IF(holder[2] == FREE, holder[2] = me; begun[me] = true);
	STEP(shows[2] = me; GOES_ON());
	run_section(2);
	happen();
	if
	:: STEP_IF(helped[me], GOES_ON()); mend(2)
	:: STEP_IF(!helped[me], GOES_ON());
		happen_late();
		STEP(shows[2] = FREE; GOES_ON())
	fi;
	STEP(holder[2] = FREE);
	over()
}

/* ---- handlers, and who borrows: near__atomic_help ---- */

#define HAS(set, l) (((set) >> l) & 1)
#define MISSES(l) (HAS(need, l) && !HAS(taken | borrowed, l) && !(holder[l] == me && lent[l] == KEPT))

/* near__lend_all */
#ifdef NO_LEND
#define LENDS(l) false
#else
#define LENDS(l) (holder[l] == me && lent[l] == KEPT)
#endif

inline lend(l)
{
	if
	:: LENDS(l) -> lent[l] = LENT; loan = loan | (1 << l)
	:: else
	fi
}

/* near__let_go_holding */
inline give_back(l)
{
	if
	:: HAS(borrowed, l) -> lent[l] = LENT
	:: HAS(taken, l) -> holder[l] = FREE
	:: else
	fi
}

inline give_back_all()
{
	atomic { give_back(0); give_back(1); give_back(2); taken = 0; borrowed = 0 }
}

inline claim(l)
{
	if
	:: HAS(loan, l) -> atomic { lent[l] == LENT -> lent[l] = KEPT }
	:: else
	fi
}

/* Sections of whose locks one is among those that are needed. */
#define SHOWN_AT(s, l) (HAS(need, l) && shows[l] == s)
#define IS_SHOWN(s) ((SHOWN_AT(s, 0) || SHOWN_AT(s, 1) || SHOWN_AT(s, 2)) && OPEN(s))

/* Only what stands still, and whose locks are all here. */
#define STANDS(s) assert(interrupted[s]); \
	assert(s == me || lent[(s == 0 -> 0 : 2)] == BORROWED)

#ifdef TAKE_BACK_AGAIN
#define WAS_HELPED(s) false
#else
#define WAS_HELPED(s) helped[s]
#endif

inline make_whole(s)
{
	if
	:: IS_SHOWN(s) ->
		STANDS(s);
#ifdef COMPLETE
		first[s] = (!WAS_HELPED(s) && step[s] == EXCHANGE -> a[s] : first[s]);
		second[s] = (!WAS_HELPED(s) && step[s] == EXCHANGE -> b[s] : second[s]);
		a[s] = (WAS_HELPED(s) -> kept[s] : 1 << s);
		b[s] = a[s];
#else
		a[s] = (WAS_HELPED(s) -> kept[s] : (step[s] == WRITE -> first[s] : a[s]));
		b[s] = (WAS_HELPED(s) -> kept[s] : (step[s] == WRITE -> second[s] : b[s]));
#endif
		assert(a[s] == b[s]);
		helped[s] = true
	:: else
	fi
}

inline keep(s)
{
	if
	:: IS_SHOWN(s) ->
		STANDS(s);
#ifndef NO_KEEP
		assert(a[s] == b[s]);
		kept[s] = a[s]
#endif
	:: else
	fi
}

inline help()
{
	need = LOCKS_OF(o);
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
		:: atomic { lent[l] == LENT ->
				lent[l] = BORROWED;
				borrowed = borrowed | (1 << l);
#ifndef BORROW_PART
				if
				:: shows[l] != FREE && OPEN(shows[l]) ->
					need = need | LOCKS_OF(shows[l])
				:: else
				fi
#endif
			}
		:: atomic { holder[l] == FREE -> holder[l] = me; taken = taken | (1 << l) }
		:: atomic { lent[l] != LENT && holder[l] != FREE -> skip };
			give_back_all();
			atomic { lend(0); lend(1); lend(2) };
progress:
			holder[l] == FREE || lent[l] == LENT
		fi
	od;
#ifdef BORROW_UNBLOCKED
	if
	:: me == 2 && borrowed -> atomic { interrupted[2] = true }; !interrupted[2]
	:: else
	fi;
#endif
	atomic { l = 0; make_whole(0); make_whole(1) };
	one = a[o];
	two = b[o];
	a[o] = in;
	b[o] = in;
	atomic { keep(0); keep(1) };
	atomic { account(o, in, one, two); one = 0; two = 0; need = 0; o = 0 };
	give_back_all();
#ifndef NO_CLAIM
	claim(0);
	claim(1);
	claim(2)
#endif
}

/* The other's, or the third's. */
inline choose()
{
	if
	:: in == 4 -> o = Y
	:: in == 8 -> o = X
	:: in >= 16 -> o = THIRD
	fi
}

#define MAY_COME (me < 2 && begun[me] && !ended[me] && !interrupted[me])

proctype operation(byte me; byte in)
{
	byte o, need, taken, borrowed, loan, l, one, two;

	if
	:: atomic { MAY_COME -> interrupted[me] = true }
	:: atomic { me < 2 && ended[me] -> goto done }
#ifndef ALONE
	:: me == 2
#endif
#ifdef BORROW_UNBLOCKED
	:: atomic { me == 3 && interrupted[2] -> skip }
#endif
	fi;
	choose();
	help();
#ifdef BORROW_UNBLOCKED
	atomic { interrupted[2] = (me == 3 -> false : interrupted[2]) };
#endif
	atomic { loan = 0; interrupted[(me < 2 -> me : 3)] = false };
done:
	finish()
}

init {
	atomic {
		run operation(0, 4);
		run operation(1, 8);
#ifdef ALONE
		run operation(0, 16);
#else
		run operation(2, 16);
#endif
#ifdef BORROW_UNBLOCKED
		run operation(3, 32)
#endif
	}
}
