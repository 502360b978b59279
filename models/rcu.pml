/* SPDX-License-Identifier: MIT */
/* near_rcu (src/rcu/rcu.h) in Promela: sections, grace periods, and which threads sleep. Memory is
 * sequentially consistent, except with WEAK; rcu.cc has C11's orderings.
 *
 * READERS threads are in SECTIONS sections each; SYNCHRONIZERS publish a version, wait for a grace
 * period and free the version before. A sequence loads the phase and counts on the slot that the
 * thread has at that moment; a fence aborts it, as does a signal. A section may end on another slot
 * than it began, or on the fallback slot. Counters of slots that no section has used are not in the
 * sums. Adding to a counter is one step, since a slot has one thread at a time.
 *
 * With WEAK, a reader may load the pointer ahead of its sequence, until a fence makes it load
 * again; and what it counts out may be visible later than its load of `sleeps`, until a fence.
 * FALLBACK readers count in without sequences. HANDLER: a reader uses read_lock, and a signal
 * handler does so between any two of its steps; what the thread remembers is a token and a depth.
 * FORK: that reader forks within its section or after it; what follows is the child, where another
 * thread frees what the section may have. With FORK sections begin on one slot and end on the other.
 *
 * Checked: no section has a version that was freed; no thread sleeps for ever; not more sections
 * end than begin.
 *
 * The broken variants:
 *   PHASE_OUTSIDE    the phase is loaded before the sequence
 *   ONE_CHECK        FALLBACK: the reader does not load the phase again
 *   PUBLISH_LATE     the version is published after the flip
 *   NO_FIRST_FENCE   WEAK: nothing is between publication and flip
 *   NO_SECOND_FENCE  sections are added up directly after the flip
 *   OUT_ONCE         the sections that ended are added up before those that began
 *   JOIN_ANY         a synchronizer waits for the grace period that has begun
 *   SLEEP_BLIND      the driver sleeps without a sum after the announcement
 *   SLEEP_UNFENCED   WEAK: it does not fence in between
 *   WAKE_EARLY       a reader loads the announcement before it counts out
 *   TURNS_FIRST      `turns` changes before the driver has given up its part
 *   NO_TURNS         it does not change
 *   WAKE_NOBODY      the driver does not wake waiters
 *   DEPTH_FIRST      HANDLER: the depth is set before the section is counted in
 *   TOKEN_FIRST      HANDLER: the token is remembered before the depth is set
 *   CLEAR_LATE       HANDLER: the depth is cleared after the section was counted out
 *   KEEP_READERS     FORK: the child keeps the sections of other threads
 *   DROP_OWN         FORK: it drops its own, too
 *   KEEP_DRIVER      FORK: it waits for the driver of its parent
 */
#ifndef READERS
#define READERS 1
#endif
#ifndef FALLBACKS
#define FALLBACKS 0
#endif
#ifndef SYNCHRONIZERS
#define SYNCHRONIZERS 1
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef SECTIONS
#define SECTIONS 1
#endif
#define MOST 2 /* readers; or one, and a handler or a fallback reader */

byte phase;
byte in[4], out[4]; /* of slot s and phase p: 2 * s + p */
bool used[2];
byte fallback_in[2], fallback_out[2];
byte version, versions;
bool freed[6];
bool aborted[MOST]; /* by a fence, or a signal */
bool early[MOST];   /* the pointer was loaded ahead */
byte late[MOST];    /* 1 + index in `out`: counted out, but not visible yet */

byte begun, done;
bool drives, turns;
byte waiters;
bool sleeps;
bool waits[2]; /* asleep on `turns` */
bool handler_runs;
bool child;

inline make_visible(i)
{
#ifdef WEAK
	if
	:: late[i] > 0 -> out[late[i] - 1]++; late[i] = 0
	:: else
	fi
#else
	skip
#endif
}

inline fence_one(i)
{
	atomic { aborted[i] = true; early[i] = false; make_visible(i) }
}

/* Each CPU has its moment. */
inline fence()
{
	fence_one(0);
	fence_one(1)
}

/* ---- readers ---- */

inline wake_driver()
{
	if
	:: sleeps -> sleeps = false
	:: else
	fi
}

inline load_pointer(me)
{
#ifdef WEAK
	atomic {
		if
		:: early[me] -> early[me] = false
		:: else -> p = version
		fi
	}
#else
	p = version
#endif
}

/* Counts in on either slot; `token` is then the phase. */
inline count_in(me)
{
#ifdef PHASE_OUTSIDE
	token = phase;
#endif
	do
	:: true ->
		atomic {
			aborted[me] = false;
#ifdef WEAK
			early[me] = false;
			if
			:: true -> p = version; early[me] = true
			:: true
			fi
#endif
		};
#ifndef PHASE_OUTSIDE
		token = phase;
#endif
		if
		:: atomic { !aborted[me] -> in[token]++; used[0] = true }; break
#ifndef FORK
		:: atomic { !aborted[me] -> in[2 + token]++; used[1] = true }; break
#endif
		:: aborted[me]
		fi
	od
}

inline count_out(me, t)
{
#ifdef WAKE_EARLY
	wake_driver();
#endif
	if
	:: atomic {
		used[1] = true;
#ifdef WEAK
		late[me] = 1 + 2 + t
#else
		out[2 + t]++
#endif
	   }
#ifndef FORK
	:: atomic { used[0] = true; out[t]++ }
	:: fallback_out[t]++
#endif
	fi;
#ifndef WAKE_EARLY
	wake_driver();
#endif
#ifdef WEAK
	atomic { make_visible(me) }
#endif
}

inline use()
{
	assert(!freed[p]);
	assert(!freed[p])
}

#if READERS > 0
proctype reader(byte me)
{
	byte token, p, sections;

#ifdef FORK
	{
#endif
		do
		:: sections < SECTIONS ->
			count_in(me);
			load_pointer(me);
			use();
			atomic { p = 0; sections++ };
			count_out(me, token)
		:: else -> break
		od
#ifdef FORK
	} unless {
		child
	}
#endif
}
#endif

#if FALLBACKS > 0
proctype fallback_reader()
{
	byte token, p, sections;

	do
	:: sections < SECTIONS ->
		do
		:: true ->
			token = phase;
			fallback_in[token]++;
#ifdef ONE_CHECK
			break
#else
			if
			:: phase == token -> break
			:: else -> fallback_in[token]--; wake_driver()
			fi
#endif
		od;
		p = version;
		use();
		atomic { p = 0; sections++ };
		count_out(1, token)
	:: else -> break
	od
}
#endif

/* ---- read_lock; what it remembers ---- */

#if defined(HANDLER) || defined(FORK)
byte depth, remembered;

inline read_lock(me)
{
	if
	:: depth > 0 -> depth++
	:: else ->
#ifdef DEPTH_FIRST
		depth = 1;
#endif
		count_in(me);
#ifdef TOKEN_FIRST
		remembered = token;
#endif
#ifndef DEPTH_FIRST
		depth = 1;
#endif
#ifndef TOKEN_FIRST
		remembered = token
#endif
	fi
}

inline read_unlock(me)
{
	token = remembered;
	if
	:: depth > 1 -> depth--
	:: else ->
#ifndef CLEAR_LATE
		depth = 0;
#endif
		count_out(me, token);
#ifdef CLEAR_LATE
		depth = 0
#endif
	fi
}
#endif

/* Nested. */
inline lock_twice()
{
	do
	:: n < 2 -> read_lock(0); n++
	:: else -> break
	od
}

inline unlock_twice()
{
	do
	:: n > 0 -> read_unlock(0); n--
	:: else -> break
	od
}

#ifdef HANDLER
proctype interrupted() provided (!handler_runs)
{
	byte token, p, n;

	lock_twice();
	load_pointer(0);
	use();
	p = 0;
	unlock_twice()
}

proctype handler()
{
	byte token, p;

	atomic { handler_runs = true; aborted[0] = true; early[0] = false };
	read_lock(1);
	load_pointer(1);
	use();
	p = 0;
	read_unlock(1);
	handler_runs = false
}
#endif

#ifdef FORK
inline drop_readers(i)
{
#ifndef KEEP_READERS
	fallback_out[i] = fallback_out[i] + in[i] + in[2 + i] + fallback_in[i] - out[i] -
			  out[2 + i] - fallback_out[i]
#else
	skip
#endif
}

/* A step: nothing else runs in the child. */
inline reset()
{
	atomic {
		child = true;
		drop_readers(0);
		drop_readers(1);
#ifndef DROP_OWN
		if
		:: depth > 0 -> remembered = phase; in[phase]++; used[0] = true
		:: else
		fi;
#endif
		begun = done;
#ifndef KEEP_DRIVER
		drives = false;
#endif
		sleeps = false;
		run synchronizer(0, true)
	}
}

proctype forks()
{
	byte token, p, n;

	lock_twice();
	load_pointer(0);
	if
	:: true
	:: use(); unlock_twice()
	fi;
	reset();
	if
	:: n > 0 -> use(); p = 0; unlock_twice()
	:: else
	fi
}
#endif

/* ---- grace periods ---- */

/* One slot after the other; `drained` is the result. */
inline add_up_ends()
{
#ifdef OUT_ONCE
	ends = ends_before;
#else
	ends = (used[0] -> out[old] : 0);
	ends = ends + (used[1] -> out[2 + old] : 0);
#endif
	begins = fallback_in[old];
	ends = ends + fallback_out[old];
	atomic {
		assert(ends <= locks + begins);
		drained = ends == locks + begins;
		ends = 0;
		begins = 0
	}
}

inline drive()
{
	begun++;
#ifndef NO_FIRST_FENCE
	fence();
#endif
	atomic { old = phase; phase = 1 - phase };
#ifdef PUBLISH_LATE
	publish();
#endif
#ifdef OUT_ONCE
	ends_before = out[old] + out[2 + old];
#endif
#ifndef NO_SECOND_FENCE
	fence();
#endif
	locks = (used[0] -> in[old] : 0);
	locks = locks + (used[1] -> in[2 + old] : 0);
	add_up_ends();
	do
	:: drained -> break
	:: else ->
		sleeps = true;
#ifndef SLEEP_UNFENCED
		fence();
#endif
#ifndef SLEEP_BLIND
		add_up_ends();
#endif
		if
		:: !drained -> !sleeps
		:: else
		fi
#ifdef SLEEP_BLIND
		;
		add_up_ends()
#endif
	od;
	atomic { sleeps = false; drained = false; locks = 0; old = 0 };
	done = begun
}

inline end_turn()
{
#ifdef TURNS_FIRST
	turns = !turns;
#endif
	drives = false;
#if !defined(TURNS_FIRST) && !defined(NO_TURNS)
	turns = !turns;
#endif
#if SYNCHRONIZERS > 1 && !defined(WAKE_NOBODY)
	if
	:: waiters > 0 -> atomic { waits[0] = false; waits[1] = false }
	:: else
	fi
#endif
}

inline sleep(me)
{
	waiters++;
	seen = turns;
	if
	:: done < period && drives ->
		atomic { waits[me] = (turns == seen) };
		!waits[me]
	:: else
	fi;
	atomic { waiters--; seen = false }
}

inline publish()
{
	atomic { before = version; versions++; version = versions }
}

proctype synchronizer(byte me; bool in_child)
{
	byte before, period, old, locks, begins, ends, rounds;
	bool drained, seen;
#ifdef OUT_ONCE
	byte ends_before;
#endif

#ifdef FORK
	{
#endif
		do
		:: rounds < ROUNDS ->
#ifndef PUBLISH_LATE
			publish();
#endif
#ifdef JOIN_ANY
			atomic { period = (begun != done -> begun : begun + 1) };
#else
			period = begun + 1;
#endif
			do
			:: done >= period -> break
			:: else ->
#if SYNCHRONIZERS > 1
				if
				:: atomic { !drives -> drives = true };
					if
					:: done < period -> drive()
					:: else
					fi;
					end_turn()
				:: drives -> sleep(me)
				fi
#else
				atomic { !drives -> drives = true };
				drive();
				end_turn()
#endif
			od;
			atomic { freed[before] = true; before = 0; period = 0; rounds++ }
		:: else -> break
		od
#ifdef FORK
	} unless {
		child && !in_child
	}
#endif
}

init
{
	atomic {
#if READERS > 0 && !defined(FORK)
		run reader(0);
#endif
#if READERS > 1
		run reader(1);
#endif
#if FALLBACKS > 0
		run fallback_reader();
#endif
#ifdef HANDLER
		run interrupted();
		run handler();
#endif
#ifdef FORK
		run forks();
#if READERS > 0
		run reader(1);
#endif
#endif
		run synchronizer(0, false);
#if SYNCHRONIZERS > 1
		run synchronizer(1, false)
#endif
	}
}
