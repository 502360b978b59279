/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-rwlock: threads that take one lock for reading and, --writes of 1,000 times,
 * for writing. Readers compare two numbers that writers increment one after the other: a reader
 * that overlaps a writer is noticed. */
#include "locks/window.h"

#include <nearcpu/rwlock.h>
#include <pthread.h>

static uint64_t twin __attribute__((aligned(LINE))); /* of window.count */

/* Of Marsaglia: 13, 7, 17. */
static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	return *seed ^= *seed << 17;
}

static bool is_write(const struct window *w, uint64_t *seed)
{
	return w->writes && next_random(seed) % 1000 < w->writes;
}

/* Both numbers are read, whatever the compiler knows of the lock. */
static bool is_torn(const struct window *w)
{
	return *(const volatile uint64_t *)&w->count != *(const volatile uint64_t *)&twin;
}

static void count_write(struct window *w)
{
	w->count++;
	window_spin(w->inside);
	twin++;
}

#define RW_LOOP(name, type, prefix, BEFORE, AFTER)                                                 \
	static void name(struct window_thread *t)                                                  \
	{                                                                                          \
		struct window *w = t->window;                                                      \
		type *lock = (type *)w->lock;                                                      \
		uint64_t n = 0, seed = t->index + 1, writes = 0;                                   \
		bool torn = false;                                                                 \
                                                                                                   \
		for (; !window_is_over(w); n++) {                                                  \
			bool writing = is_write(w, &seed);                                         \
                                                                                                   \
			BEFORE;                                                                    \
			if (writing) {                                                             \
				prefix##_write_lock(lock);                                         \
				AFTER;                                                             \
				count_write(w);                                                    \
				prefix##_write_unlock(lock);                                       \
				writes++;                                                          \
			} else {                                                                   \
				prefix##_read_lock(lock);                                          \
				AFTER;                                                             \
				torn |= is_torn(w);                                                \
				window_spin(w->inside);                                            \
				prefix##_read_unlock(lock);                                        \
			}                                                                          \
			window_spin(w->outside);                                                   \
		}                                                                                  \
		t->done = n;                                                                       \
		t->counted = writes + torn;                                                        \
	}

#define RW_ROW(name, label, type, setup, prefix, unlocked)                                         \
	RW_LOOP(name##_work, type, prefix, (void)0, (void)0)                                       \
	RW_LOOP(name##_timed, type, prefix, uint64_t began = window_ns(), window_note(began))      \
	static void name##_init(struct window *w)                                                  \
	{                                                                                          \
		type *lock = (type *)w->lock;                                                      \
                                                                                                   \
		setup;                                                                             \
		prefix##_read_lock(lock); /* as LOCK_ROW: the first use is not measured */         \
		prefix##_read_unlock(lock);                                                        \
		twin = 0;                                                                          \
	}                                                                                          \
	static WINDOW_ROW(name##_row, label, name##_init, name##_work, name##_timed,               \
			  .is_unlocked = unlocked)

/* ---- ours, with slots: readers first, or writers; and of zeros, with one word ---- */

static void rwlock_begin(struct near_rwlock *l, enum near_rwlock_policy policy)
{
	if (near_rwlock_init(l, &(struct near_rwlock_options){.policy = policy}))
		window_give_up("error", "not enough memory");
}

RW_ROW(slots, "near-rwlock", struct near_rwlock, rwlock_begin(lock, 0), near_rwlock, false)
RW_ROW(first, "near-writers", struct near_rwlock, rwlock_begin(lock, NEAR_RWLOCK_WRITERS_FIRST),
       near_rwlock, false)
RW_ROW(word, "near-zero", struct near_rwlock, *lock = (struct near_rwlock)NEAR_RWLOCK_INIT,
       near_rwlock, false)

/* ---- the C library's ---- */

#define pthread_read_lock pthread_rwlock_rdlock
#define pthread_read_unlock pthread_rwlock_unlock
#define pthread_write_lock pthread_rwlock_wrlock
#define pthread_write_unlock pthread_rwlock_unlock

RW_ROW(pthread, "pthread", pthread_rwlock_t, pthread_rwlock_init(lock, NULL), pthread, false)

#ifdef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP

static void writer_begin(pthread_rwlock_t *l)
{
	pthread_rwlockattr_t a;

	pthread_rwlockattr_init(&a);
	pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(l, &a);
	pthread_rwlockattr_destroy(&a);
}

RW_ROW(writer, "pthread-writer", pthread_rwlock_t, writer_begin(lock), pthread, false)
#else
static MISSING_ROW(writer_row, "pthread-writer", "this C library has no such lock")
#endif

/* ---- nsync, whose mutex has readers ---- */

#ifdef HAVE_NSYNC
#include "nsync_functions.h"

#define nsync_read_lock nsync.rlock
#define nsync_read_unlock nsync.runlock
#define nsync_write_lock nsync.lock
#define nsync_write_unlock nsync.unlock

static void nsync_begin(nsync_mu *m)
{
	const char *why = nsync_load();

	if (why)
		window_give_up("missing", why);
	*m = (nsync_mu)NSYNC_MU_INIT;
}

RW_ROW(nsync, "nsync", nsync_mu, nsync_begin(lock), nsync, false)
#else
	static MISSING_ROW(nsync_row, "nsync", "built without nsync (package libnsync-dev)")
#endif

/* ---- what the rest costs ---- */

static void none_read_lock(char *lock) { (void)lock; }

#define none_read_unlock none_read_lock
#define none_write_lock none_read_lock
#define none_write_unlock none_read_lock

RW_ROW(none, "unlocked", char, (void)0, none, true)

const struct window_row *const window_rows[] = {&pthread_row, &writer_row, &nsync_row, &slots_row,
						&first_row,   &word_row,   &none_row,  0};
