/* SPDX-License-Identifier: MIT */
/* rcu: what the files of this folder share, and the argument for grace periods.
 *
 * Each slot has a word per phase that counts sections in, and one that counts them out; neither is
 * ever cleared. `phase` is the address of the word that counts out, in slot 0. A grace period
 *     begins     begun + 1: a thread that publishes after this waits for the next grace period
 *     fences     the first fence
 *     flips      the phase
 *     fences     the second fence
 *     adds up    the sections that were counted in by sequences in the old phase
 *     waits      until as many were counted out as these and those of fallback slots
 *     ends       done = begun
 * One thread at a time drives a grace period, so when it begins there is no reader in the phase
 * that it flips to.
 *
 * What can run concurrently, and what orders it (models/rcu.pml, models/rcu.cc):
 *
 * - A sequence that counts in, has loaded the old phase and has not committed. The second fence
 *   aborts it; if it committed before, the sum has it. A sequence that begins after the second
 *   fence loads the new phase. So the sum of the old phase cannot grow any more: it is computed
 *   once. A slot that opens after the sum has no section of the old phase.
 * - A reader on a weakly ordered CPU that loads the pointer ahead of the phase, finds the old
 *   version, and then loads the new phase. The first fence is between publication and flip: it
 *   interrupted the reader before the sequence committed, and the reader loaded both again; or it
 *   came before the reader loaded the pointer, and the reader found the new version.
 * - Counting out. The commit is a release, the sum's loads acquire: what the section accessed is
 *   done when the sum has it. It may be on a slot that opens during the sum: then the sum is too
 *   small, and is computed again.
 * - A reader that cannot count out by a sequence (without rseq, in a vfork child, after 16 aborts):
 *   it adds to the word of a fallback slot, by an atomic, which is part of the sum. How it was
 *   counted in does not matter.
 * - A reader that cannot count in by a sequence. It loads the phase, adds to the word of its
 *   fallback slot, and loads the phase again: if the grace period has not seen it there, it sees
 *   the flip here, takes back what it added, and tries again. All four accesses are sequentially
 *   consistent. That the phase may have been flipped twice does no harm: what counts is that it is
 *   the current one after the add. So after the flip these words have all sections of the old
 *   phase. Now and then one of them also has an add that is about to be taken back. Therefore each
 *   sum of the sections that were counted out loads the words of fallback slots again. No section
 *   is left when as many were counted out as were counted in.
 * - A process without rseq: near__fence does nothing there, so that a sequentially consistent fence
 *   is added.
 * - The sleep. The driver stores `sleeps`, fences, and computes the sum once more before it sleeps.
 *   A reader loads `sleeps` after its commit: either the fence came after the commit, and the sum
 *   has it, or the load came after the fence, and the reader wakes the driver.
 * - Threads that wait for the same grace period, or for the next. The number that they wait for is
 *   begun + 1, loaded behind a sequentially consistent fence: if the load does not find a grace
 *   period that is about to fence, that one's first fence comes after the publication. They sleep
 *   on `turns`, which changes after the driver has given up its part: none sleeps while no thread
 *   drives.
 * - Signal handlers read; they are sequences and atomics as above. read_lock is in section.c.
 * - fork, see rcu_fork.c: a thread that waits for readers holds no lock.
 * - A killed thread ends the process. A vfork child that is killed in a section leaves it counted.
 *
 * Callbacks: each slot has two lists, of which the word `batch` names the one that calls push to,
 * by a sequence that loads `batch` inside. The worker flips `batch`, then waits for a grace period:
 * its first fence aborts pushes to the old lists. From then on these belong to the worker until its
 * next flip; and what was pushed to them was published before that fence. A thread without a slot
 * pushes by CAS to one list of the domain, which the worker takes before the grace period, by an
 * exchange; a head that left and came back does no harm to a push. Before the worker sleeps it
 * stores `call_wakes`, fences and searches the lists. A call loads `call_wakes` after its push: as
 * with `sleeps`. */
#ifndef NEARCPU_RCU_INTERNAL_H
#define NEARCPU_RCU_INTERNAL_H

#include <nearcpu/rcu.h>

#include "base/block.h"
#include "base/fork.h"
#include "percpu/percpu.h"

/* The copy of a slot. Words that sequences count by have the bit NEAR__RCU_OPEN since the slot was
 * opened: so a sequence that loads 0 has found a slot that is not open, and needs no other word. */
#define NEAR__RCU_OPEN ((uint64_t)1 << 63)
struct near__rcu_slot {
	uint64_t out[2];   /* sections that have ended here, wherever they began */
	uint64_t in[2];    /* sections that have begun here */
	uint64_t calls[2]; /* lists of near_rcu_head; not of a fallback slot */
	uint64_t unused[2];
};
_Static_assert(offsetof(struct near__rcu_slot, in) == 16 && sizeof(struct near__rcu_slot) == 64,
	       "near__rcu_try_enter");
_Static_assert(offsetof(struct near_rcu, phase) == 0, "near__rcu_try_enter");
_Static_assert(offsetof(struct near_rcu, begun) - offsetof(struct near_rcu, call_wakes) >= 64,
	       "grace periods must not write to a cache line that readers load");

#define NEAR__RCU_NUMBERS 8 /* domains that read_lock can be used with */

/* What a thread's read_locks of a domain are. */
struct near__rcu_section {
	uint64_t token;   /* of the outermost */
	const void *site; /* its caller */
	uint32_t depth;
};

struct near__rcu_thread {
	uint32_t known; /* NEAR__RCU_NO_SECTION once the thread has registered, else 0 */
	uint32_t tid;
	uint32_t calls; /* of near_rcu_call_bounded, and those that may yield */
	uint32_t exits; /* calls of the key's destructor */
	/* The last is of all domains that have none, and never begun. */
	struct near__rcu_section sections[NEAR__RCU_NUMBERS + 1];
};
NEAR__BLOCK_PART(near__rcu_thread, struct near__rcu_thread, rcu);

/* Opens this slot ahead, if sequences run here: its first reader then makes no system call. */
void near__rcu_open_ahead(struct near_rcu *d, uint32_t slot);

/* Whether this thread runs the domain's callbacks. Relaxed: only the thread itself stores its own
 * address. */
static inline bool near__rcu_works_for(const struct near_rcu *d)
{
	return __atomic_load_n(&d->works_in, __ATOMIC_RELAXED) == (uintptr_t)&near__self;
}

/* near_rcu.section: the bytes from a struct near__rcu_thread to its section of the domain. */
#define NEAR__RCU_SECTION(number)                                                                  \
	((uint32_t)(offsetof(struct near__rcu_thread, sections) +                                  \
		    (number) * sizeof(struct near__rcu_section)))
#define NEAR__RCU_NO_SECTION NEAR__RCU_SECTION(NEAR__RCU_NUMBERS)

static inline struct near__rcu_section *near__rcu_section(const struct near_rcu *d,
							  const struct near__rcu_thread *t)
{
	/* Relaxed: it changes once, to what all threads are to find. */
	return (struct near__rcu_section *)((uintptr_t)t +
					    __atomic_load_n(&d->section, __ATOMIC_RELAXED));
}

struct near__rcu_record;

/* Of the process. */
struct near__rcu {
	union {
		struct {
			uint32_t watches_forks;
			uint32_t used_numbers;  /* bits */
			struct near_lock lock;  /* of all below */
			struct near_lock lists; /* held by a worker while it moves callbacks */
			struct near_rcu *domains;
			uint32_t exit_key, has_exit_key;
			struct near__rcu_record *records; /* with rcu_check:1 */
			uint64_t unopened;                /* memory of the same, see rcu_check.c */
			struct near_lock maps_lock;       /* of both lists; before all others */
			struct near_rcu_map *maps;
			uint32_t watches_map_forks;
			struct near__fork_turn turn;
			struct near_rcu_map64 *maps64;
		};
		char room[256]; /* for later fields */
	};
};
extern NEAR__DATA struct near__rcu near__rcu NEAR__STATE(near__rcu);

static inline struct near__rcu_slot *near__rcu_slot(const struct near_rcu *d, unsigned slot)
{
	return near_percpu_at(d->slots, slot);
}

/* What a word has counted. */
static inline uint64_t near__rcu_count(const uint64_t *word, int order)
{
	return __atomic_load_n(word, order) & ~NEAR__RCU_OPEN;
}

/* 0 or 1: which words are those of this phase. */
static inline unsigned near__rcu_index(const struct near_rcu *d, uint64_t phase)
{
	return phase != (uintptr_t)&d->slots->out[0];
}

/* ---- rcu_fork.c ---- */

void near__rcu_watch_forks(void);

/* ---- read.c ---- */

uint64_t near__rcu_count_in(struct near_rcu *d);
void near__rcu_count_out(struct near_rcu *d, uint64_t token);
/* Sections that were counted in, in phase i, less those that were counted out; while others read,
 * approximately. */
uint64_t near__rcu_inside(const struct near_rcu *d, unsigned i);

/* ---- rcu_check.c: rcu_check:1 ---- */

static inline bool near__rcu_checks(void)
{
	return NEAR__UNLIKELY(near__process.conf.rcu_check);
}
/* Whether there is memory for records. */
bool near__rcu_has_records(void);
uint64_t near__rcu_record(struct near_rcu *d, uint64_t token, const void *site);
/* Returns the token that was recorded. */
uint64_t near__rcu_unrecord(struct near_rcu *d, uint64_t token);
/* Stops the program if this thread has a recorded section, of any domain if d is NULL. */
void near__rcu_check_records(const struct near_rcu *d, const char *what);
void near__rcu_report_records(const struct near_rcu *d);
void near__rcu_drop_records(void);

/* ---- section.c ---- */

/* Calls change(arg) with this lock, one of near__rcu. */
void near__rcu_with_lock(struct near_lock *lock, void (*change)(void *arg), void *arg);
/* Stops the program if this thread is in a section; `what`: the function that must not be
 * called. */
void near__rcu_check_outside(const struct near_rcu *d, const char *what);
/* Reports what a grace period waits for: of `sections` of the phase, those of read_lock by their
 * threads. */
void near__rcu_report(const struct near_rcu *d, unsigned phase, uint64_t sections);
/* In a forked child. */
void near__rcu_drop_number(struct near_rcu *d);

/* ---- period.c ---- */

/* The number of the first grace period that waits for all sections that have begun. */
uint64_t near__rcu_next_period(const struct near_rcu *d);
/* Waits for it. */
void near__rcu_wait(struct near_rcu *d, uint64_t period);

/* ---- worker.c ---- */

/* How soon a batch is to begin; the soonest counts. */
enum near__rcu_request {
	NEAR__RCU_NOTHING,
	NEAR__RCU_LAZILY,
	NEAR__RCU_SOON,
	NEAR__RCU_NOW,
	NEAR__RCU_STOP,
};
/* What near_rcu.call_wakes is. */
enum near__rcu_call_wakes {
	NEAR__RCU_NO_CALL,
	NEAR__RCU_BEHIND, /* no call, but calls yield */
	NEAR__RCU_NOT_LAZY,
	NEAR__RCU_EACH_CALL,
};
/* Before the worker has stored it. No call wakes a worker that will never be. */
static inline uint32_t near__rcu_call_wakes(const struct near_rcu *d)
{
	return d->flags & NEAR_RCU_NO_THREAD ? NEAR__RCU_NO_CALL : NEAR__RCU_EACH_CALL;
}

/* What near_rcu.worker is. */
enum near__rcu_worker { NEAR__RCU_ABSENT, NEAR__RCU_STARTS, NEAR__RCU_RUNS };

/* 0; -EAGAIN, -EINVAL: there is no worker, nor can there be one. */
int near__rcu_request(struct near_rcu *d, enum near__rcu_request how);
bool near__rcu_has_calls(const struct near_rcu *d);

/* What is called and has not run. First what has run: the rest is not negative. */
static inline uint64_t near__rcu_pending_calls(const struct near_rcu *d)
{
	uint64_t ran = __atomic_load_n(&d->ran, __ATOMIC_ACQUIRE);

	return (uint64_t)near_counter_read(&d->called) - ran;
}

static inline uint64_t near__rcu_pending_bytes(const struct near_rcu *d)
{
	uint64_t ran = __atomic_load_n(&d->ran_bytes, __ATOMIC_ACQUIRE);

	return (uint64_t)near_counter_read(&d->called_bytes) - ran;
}

/* Whether no callback is pending or runs. Requires that no thread calls. */
bool near__rcu_is_idle(const struct near_rcu *d);
/* Runs a batch in this thread if there is no worker. False: there is one, or another thread
 * does. */
bool near__rcu_work_here(struct near_rcu *d);
void near__rcu_stop_worker(struct near_rcu *d);

#endif
