/* SPDX-License-Identifier: MIT */
/* near_rcu: read-copy-update, whose readers count on their own slot.
 *
 * A reader enters a section, loads a pointer with near_rcu_dereference, uses what it points to, and
 * leaves. An updater publishes another version with near_rcu_assign, waits for a grace period, and
 * frees the old one: every section that could have found the old version has then ended.
 *
 * A section is counted in on the slot where it begins and counted out on the slot where it ends. No
 * thread registers, so threads that the library never saw may read, and so may signal handlers. A
 * grace period adds up the slots in use, however many threads there are.
 *
 * Two forms of section, which mix freely:
 *
 *     near_rcu_enter, near_rcu_exit          inline. A token says where the section was counted.
 *                                            Another thread may end it: fibers may read.
 *     near_rcu_read_lock, _unlock            calls. They nest; the thread remembers the section,
 *                                            so that misuse is always found.
 *
 * Cost:      enter and exit together 1.5 ns (Intel Granite Rapids) to 4.0 (AMD Milan), no atomic
 *            instruction; read_lock and unlock 2 to 4 ns. call: a sequence, two counter adds. A
 *            grace period interrupts all CPUs that run this process twice (membarrier), and reads
 *            64 bytes per slot in use; callers at the same time share one.
 * Memory:    the domain, 80 bytes per slot in use, and after the first call a thread, unless the
 *            domain is to have none.
 * Safety:    enter, exit, read_lock, read_unlock, dereference, poll: any thread, signal handlers.
 *            call: the same, if near_rcu_start was called before in this process. All else: any
 *            thread, not signal handlers. errno is left alone; nothing is a cancellation point, and
 *            a thread must not be cancelled asynchronously within a section. A signal handler that
 *            interrupts a wait must return to it.
 * Order:     an updater's stores to an object before near_rcu_assign are seen by a reader that
 *            dereferences the pointer; all accesses of a section happen before the end of a grace
 *            period that waits for it. ThreadSanitizer sees both.
 * Misuse:    stops the program with one line on standard error: read_unlock without read_lock, a
 *            wait for readers within a section of read_lock, a thread that ends within one, more
 *            exits than enters. If sections delay a grace period for ten seconds, lines name the
 *            thread and the caller of those of read_lock, and say whether there are tokens. With
 *            NEAR_CONF=rcu_check:1 the same is found for tokens: all readers then make calls, and
 *            10,000 sections are recorded at a time. A thread that finds
 *            no memory for the record of its first read_lock stops the program.
 * Fork:      sections of the parent's other threads do not exist in the child; one of read_lock of
 *            the thread that forks does. A token must not span the fork, and the child of a signal
 *            handler that forks must not return from the handler, as it may have interrupted the
 *            begin or the end of a section. Callbacks that were pending are pending in the child,
 *            too; the child's first call, barrier or near_rcu_start starts a thread for them. A
 *            child of a bare clone() without these handlers keeps the sections of its parent's
 *            threads, and so never ends a grace period if there were any. A vfork child that is
 *            killed within a section, or while it waits for readers, blocks its parent's grace
 *            periods for ever.
 * Fallback:  an atomic instruction each for enter and exit, on a copy by CPU. With fence:off all
 *            readers use it; grace periods then interrupt no CPU and make no system call unless
 *            they have to sleep.
 *
 * Concurrent with:    read   assign  synchronize, call, barrier   destroy
 *     read             yes    yes              yes                  no
 *     assign           yes    no*              yes                  no    (* of the same pointer)
 *     synchronize ...  yes    yes              yes                  no
 *
 *     struct near_rcu rcu;                        // near_rcu_init(&rcu, NULL)
 *     struct config *current;
 *
 *     near_rcu_token t = near_rcu_enter(&rcu);    // readers
 *     use(near_rcu_dereference(current)->limit);
 *     near_rcu_exit(&rcu, t);
 *
 *     struct config *old = current;               // the updater
 *     near_rcu_assign(current, new);
 *     near_rcu_synchronize(&rcu);
 *     free(old);
 *
 * Source: McKenney and Slingwine's read-copy update; counting in two phases as the kernel's SRCU
 * and liburcu. Differs in that a restartable sequence loads the phase and counts, so that one flip
 * of the phase is a grace period, and in that no thread registers.
 */
#ifndef NEARCPU_RCU_H
#define NEARCPU_RCU_H

#include <nearcpu/counter.h>
#ifdef __cplusplus
#include <atomic>
#endif

NEAR__BEGIN_DECLS

/* What a callback is called by: a member of the object that it frees. */
struct near_rcu_head {
	struct near_rcu_head *next; /* private, as are the others */
	void (*function)(struct near_rcu_head *head);
	size_t bytes;
};

/* Private; src/rcu/rcu.h explains it. One for each domain: sections of one domain do not delay the
 * grace periods of another. */
struct near_rcu {
	/* Loaded by readers; changed by grace periods. */
	uint64_t phase;   /* the address of a word, in slot 0 */
	uint32_t sleeps;  /* a grace period waits for a reader */
	uint32_t section; /* of read_lock: where in what a thread remembers */
	/* Loaded by calls. */
	uint64_t *calls;     /* percpu: the lists */
	uint64_t batch;      /* 0 or 8: which list */
	uint32_t call_wakes; /* whether a call wakes the worker */

	uint32_t interval_us, lazy_interval_us;
	struct near__rcu_slot *slots; /* percpu */
	struct near_rcu *next;        /* of the process's domains */
	struct near_counter called, called_bytes;
	/* Grace periods. */
	uint64_t begun;
	uint64_t done;
	uint32_t drives;  /* a thread drives a grace period */
	uint32_t turns;   /* how often one did: the futex of those who wait for one, */
	uint32_t waiters; /* and their number */
	uint64_t slept;
	uint64_t waits_since; /* in ns; 0: nobody sleeps until readers have left */
	/* The worker. */
	struct near_rcu_head *pushed; /* by threads without a slot */
	struct near_rcu_head *taken, *running, *executing;
	uint64_t ran, ran_bytes, next_ran, next_ran_bytes;
	uint64_t batches_begun, batches_done;
	uint32_t batches_low, batch_waiters; /* the futex of those who wait for one */
	uint32_t request, worker;
	uintptr_t thread;
	uintptr_t works_in; /* the address of near__self of the thread that runs callbacks, or 0 */
	uint64_t flags;     /* of the options */
};

/* Zero fields mean the default. */
struct near_rcu_options {
	uint32_t interval_us;      /* between grace periods for calls; 1,000 */
	uint32_t lazy_interval_us; /* the same for lazy calls; 100,000 */
	uint64_t flags;            /* NEAR_RCU_NO_THREAD */
	uint64_t reserved[4];      /* 0 */
};

/* The domain never starts a thread: callbacks run in near_rcu_work, and in calls that wait for
 * them. */
#define NEAR_RCU_NO_THREAD UINT64_C(1)

/* The phase in which a section is counted; with rcu_check:1 its record. Pass it to the exit of the
 * same section, once. */
typedef struct near_rcu_token {
	uint64_t at;
} near_rcu_token;

/* `options` may be NULL. Returns 0; -EINVAL: an interval of more than an hour, an unknown flag, or
 * a reserved word that is not 0; -ENOMEM. */
NEAR_API int near_rcu_init(struct near_rcu *d, const struct near_rcu_options *options);

/* Waits until all callbacks have run, and frees what the domain has. Requires that nobody reads or
 * uses it, and that it is not called by a callback. */
NEAR_API void near_rcu_destroy(struct near_rcu *d);

/* ---- readers ---- */

NEAR_API uint64_t near__rcu_enter_slow(struct near_rcu *d);
NEAR_API void near__rcu_exit_slow(struct near_rcu *d, uint64_t at) __attribute__((cold));
NEAR_API void near__rcu_wake(struct near_rcu *d) __attribute__((cold));

/* Counts in: loads the phase, and storing one more in its word 2 commits. A word of 0 is of a slot
 * that is not open. A fence after the phase was changed aborts it, unless it has committed. */
NEAR__INLINE bool near__rcu_try_enter(struct near_rcu *d, uint64_t *phase_out)
{
	uint64_t at, phase;
	bool committed = NEAR_SEQ(
		NEAR_OFFSET_UNCHECKED(at)
		NEAR_LOAD8(phase, d, 0)
		NEAR_ADD(at, phase)
		NEAR_LOAD8(near_tmp, at, 16)
		NEAR_BRANCH_ZERO(near_tmp, near_failed)
		NEAR_ADD_CONST(near_tmp, 1)
		NEAR_COMMIT8(near_tmp, at, 16),
		NEAR_OUT(at, phase), NEAR_IN(d));

	if (committed)
		*phase_out = phase;
	return committed;
}

/* Counts out: storing one more in the phase's word 0 commits, a release: pairs with the acquire in
 * src/rcu/period.c. */
NEAR__INLINE bool near__rcu_try_exit(uint64_t phase)
{
	uint64_t at;

	return NEAR_SEQ(
		NEAR_SLOT_UNCHECKED(at, phase)
		NEAR_LOAD8(near_tmp, at, 0)
		NEAR_BRANCH_ZERO(near_tmp, near_failed)
		NEAR_ADD_CONST(near_tmp, 1)
		NEAR_COMMIT8_RELEASE(near_tmp, at),
		NEAR_OUT(at), NEAR_IN(phase));
}

/* Begins a section. Never waits. */
NEAR_INLINE near_rcu_token near_rcu_enter(struct near_rcu *d)
{
	near_rcu_token t;

	NEAR__CHECK_READY(d->slots, d);
	if (__builtin_expect(!near__rcu_try_enter(d, &t.at), 0))
		t.at = near__rcu_enter_slow(d);
	return t;
}

/* Ends a section. May wake a thread that waits for it. */
NEAR_INLINE void near_rcu_exit(struct near_rcu *d, near_rcu_token t)
{
	NEAR__TSAN_RELEASE(&d->slots); /* no atomic store to it makes ThreadSanitizer forget */
	if (__builtin_expect(!near__rcu_try_exit(t.at), 0))
		near__rcu_exit_slow(d, t.at);
	/* After the commit: the fence of the thread that set it orders the two. */
	else if (__builtin_expect(__atomic_load_n(&d->sleeps, __ATOMIC_RELAXED), 0))
		near__rcu_wake(d);
}

/* The same, for a thread: sections of one domain nest. Up to eight domains of a process can be used
 * so; the ninth stops the program. */
NEAR_API void near_rcu_read_lock(struct near_rcu *d);
NEAR_API void near_rcu_read_unlock(struct near_rcu *d);

/* Whether this thread is in a section of read_lock. */
NEAR_API bool near_rcu_is_reading(const struct near_rcu *d);

/* Loads a pointer that near_rcu_assign stores, once. What it points to is as the updater left it
 * before.
 *
 * No CPU with sequences loads from an address before it has the address, and so none needs an
 * instruction for this order; compilers make an acquire of "consume". As in Linux and liburcu it is
 * a plain load, and the caller keeps the dependency: what the pointer is compared with, except for
 * NULL, must not become the address that is used. For other CPUs and ThreadSanitizer it is an
 * acquire. */
#if NEAR__TSAN
#define NEAR__RCU_LOADS __ATOMIC_CONSUME
#else
#define NEAR__RCU_LOADS NEAR__ADDRESS_ORDER
#endif
#define near_rcu_dereference(p) NEAR__RCU_LOADED(p, NEAR__RCU_LOAD(p))

/* Publishes v, a pointer, in p. In C++ both take a std::atomic<T *> as well. */
#define near_rcu_assign(p, v) (NEAR__RCU_STORES(p), NEAR__RCU_STORE(p, v))

#ifdef __cplusplus
#define NEAR__RCU_LOAD(p) near__rcu_load(p)
#define NEAR__RCU_STORE(p, v) near__rcu_store(p, v)
#define NEAR__RCU_TEMPLATE template <class T> __attribute__((always_inline)) inline
extern "C++" {
NEAR__RCU_TEMPLATE T near__rcu_load(const T &p)
{
	return __atomic_load_n(&p, NEAR__RCU_LOADS);
}

NEAR__RCU_TEMPLATE T near__rcu_load(const std::atomic<T> &p)
{
	return p.load(NEAR__RCU_LOADS == __ATOMIC_RELAXED ? std::memory_order_relaxed
							  : std::memory_order_consume);
}

/* The type of v is that of the pointer, as for an assignment. */
NEAR__RCU_TEMPLATE void near__rcu_store(T &p, typename std::remove_reference<T>::type v)
{
	__atomic_store_n(&p, v, __ATOMIC_RELEASE);
}

NEAR__RCU_TEMPLATE void near__rcu_store(std::atomic<T> &p,
					typename std::remove_reference<T>::type v)
{
	p.store(v, std::memory_order_release);
}
}
#else
#define NEAR__RCU_LOAD(p) __atomic_load_n(&(p), NEAR__RCU_LOADS)
#define NEAR__RCU_STORE(p, v) __atomic_store_n(&(p), v, __ATOMIC_RELEASE)
#endif

/* For valgrind's tools, see near_mutex(3). What the library itself loads it annotates once. */
#if NEAR_VALGRIND && !defined(NEAR__LIBRARY)
#define NEAR__RCU_STORES(p) (NEAR__WATCHED_WORD(&(p)), NEAR__WATCHED_RELEASE(&(p)))
#define NEAR__RCU_LOADED(p, load)                                                                  \
	__extension__({                                                                            \
		__typeof__(load) near__loaded = (NEAR__WATCHED_WORD(&(p)), load);                  \
                                                                                                   \
		NEAR__WATCHED_ACQUIRE(&(p));                                                       \
		near__loaded;                                                                      \
	})
#else
#define NEAR__RCU_STORES(p) ((void)0)
#define NEAR__RCU_LOADED(p, load) load
#endif

/* ---- updaters ---- */

/* Waits until every section that had begun before the call has ended. Sections that begin later are
 * not waited for. Concurrent callers share a grace period. Not within a section. */
NEAR_API void near_rcu_synchronize(struct near_rcu *d);

/* The same when there is no hurry: together with all others that do so, once per lazy interval. */
NEAR_API void near_rcu_synchronize_lazy(struct near_rcu *d);

/* Polling. Returns the number of the first grace period that waits for the sections that have
 * begun, and requests that the worker begins it. */
NEAR_API uint64_t near_rcu_poll_start(struct near_rcu *d);

/* Whether that grace period has ended. A load. */
NEAR_API bool near_rcu_poll(const struct near_rcu *d, uint64_t period);

/* Waits until it has. As near_rcu_synchronize. */
NEAR_API void near_rcu_wait(struct near_rcu *d, uint64_t period);

/* Starts the thread that runs callbacks, unless it runs: 0, or -EAGAIN as of pthread_create. The
 * first near_rcu_call does so, too; it must not be in a signal handler. If no thread can be had,
 * callbacks wait for the next call, or for near_rcu_barrier, which then runs them itself. -EINVAL:
 * the domain is to have none. */
NEAR_API int near_rcu_start(struct near_rcu *d);

/* In a domain without a thread: waits for a grace period and runs what was pending, in this thread:
 * true. False: nothing is pending, or another thread is doing that. Not within a section, nor by a
 * callback. */
NEAR_API bool near_rcu_work(struct near_rcu *d);

/* Calls function(head) after a grace period, in the domain's thread, in no particular order, with
 * signals blocked. Never waits; while 500,000 callbacks or 64 MB are pending, each 31st call of a
 * thread yields the CPU. Allowed in sections and in callbacks. The object may be freed
 * before this returns, unless it is called in a section. `bytes`: what the callback will free, for
 * the statistics and for near_rcu_call_bounded. */
NEAR_API void near_rcu_call(struct near_rcu *d, struct near_rcu_head *head,
			    void (*function)(struct near_rcu_head *head), size_t bytes);

/* The same when there is no hurry: within the lazy interval. */
NEAR_API void near_rcu_call_lazy(struct near_rcu *d, struct near_rcu_head *head,
				 void (*function)(struct near_rcu_head *head), size_t bytes);

/* The same; then, if more than max_bytes are pending, waits until callbacks have run, unless a
 * callback calls it. Each thread checks this at its first call and at every 31st, so that 30 calls
 * of each thread can be pending beyond. Not within a section: callbacks wait for that, so that both
 * would wait for ever. */
NEAR_API void near_rcu_call_bounded(struct near_rcu *d, struct near_rcu_head *head,
				    void (*function)(struct near_rcu_head *head), size_t bytes,
				    size_t max_bytes);

/* near_rcu_call for an object without a head: function(object), as free(3), is called after a grace
 * period. Takes 40 bytes of malloc until then. 0; -ENOMEM: there are none, and nothing was done.
 * Not in signal handlers. */
NEAR_API int near_rcu_retire(struct near_rcu *d, void *object, void (*function)(void *object),
			     size_t bytes);

/* Waits until the callbacks of all calls before it have run. Not within a section, nor by a
 * callback. */
NEAR_API void near_rcu_barrier(struct near_rcu *d);

/* Later versions add fields at the end. */
struct near_rcu_stats {
	uint64_t periods;       /* grace periods that have ended */
	uint64_t slept;         /* how often one slept to wait for a reader */
	uint64_t readers;       /* sections now, approximately */
	uint64_t calls;         /* so far */
	uint64_t pending_calls; /* whose callbacks have not run, */
	uint64_t pending_bytes; /* and what they will free */
	/* Nanoseconds for which a grace period has waited for readers by now; 0: none waits. The
	 * sections that delay it, of tokens too, are older. */
	uint64_t waits_ns;
};

/* Fills *out, of which the caller knows `size` bytes. 0; -EINVAL: size is 0. */
NEAR_API int near_rcu_stats(const struct near_rcu *d, struct near_rcu_stats *out, size_t size);

NEAR__END_DECLS

#endif
