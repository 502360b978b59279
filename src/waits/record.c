/* SPDX-License-Identifier: MIT */
/* What a wait adds to the file of its process: a count at its call stack, an event, the thread's
 * sums; and the holder of the lock.
 *
 * A call stack is taken by the C library's unwinder, as programs are compiled without frame
 * pointers: some microseconds, before the thread waits, so that no section becomes longer; only in
 * pthread_cond_wait the thread still holds the mutex. Unwinding takes no lock where it finds a
 * function's frame by _dl_find_object (glibc 2.35, gcc 12). Without that function, and with musl, a
 * stack is the caller alone: the unwinder would wait for a lock that dlopen holds while it runs
 * constructors. */
#define _GNU_SOURCE
#include "waits/record.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OURS 6 /* frames of this library, at most */
#define relaxed memory_order_relaxed

__thread struct near__waits_self near__waits_self;

int backtrace(void **stack, int size) __attribute__((weak));

static _Atomic bool has_unwinder;

__attribute__((constructor)) static void unwinder_prime(void)
{
	void *stack[2];

	if (backtrace && dlsym(RTLD_DEFAULT, "_dl_find_object") && backtrace(stack, 2) > 0)
		atomic_store_explicit(&has_unwinder, true, relaxed);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* All counters are independent of each other: a reader takes what is there. */
static void count_add(_Atomic uint64_t *to, uint64_t n)
{
	atomic_fetch_add_explicit(to, n, relaxed);
}

/* ---- the locks that threads wait for, or hold after they have waited ---- */

/* An entry is free once nobody waits and nobody holds it so. It may be taken for another lock while
 * a thread adds itself: then a release may be counted for the wrong lock, or not at all, and a
 * holder's time is missing. No count of waits depends on it. */
struct near__waits_lock {
	_Atomic(const void *) lock;
	_Atomic uint32_t waiters, owner;
	_Atomic uint64_t since; /* `owner` has it */
	_Atomic uint64_t begin; /* of the first waiter since the last release; 0: none */
};

static struct near__waits_lock locks[1024];

static bool lock_is_free(struct near__waits_lock *l)
{
	return !atomic_load_explicit(&l->waiters, relaxed) &&
	       !atomic_load_explicit(&l->owner, relaxed);
}

/* NULL: it has none, or there is no room. */
static struct near__waits_lock *lock_find(const void *lock, bool make)
{
	size_t at = (size_t)((uintptr_t)lock * UINT64_C(0x9e3779b97f4a7c15) >> 54);
	struct near__waits_lock *l, *free = NULL;
	const void *was;

	for (size_t i = 0; i < 8; i++) {
		l = &locks[(at + i) % 1024];
		if (atomic_load_explicit(&l->lock, relaxed) == lock)
			return l;
		if (!free && lock_is_free(l))
			free = l;
	}
	if (!make || !free)
		return NULL;
	was = atomic_load_explicit(&free->lock, relaxed);
	if (!atomic_compare_exchange_strong_explicit(&free->lock, &was, lock, relaxed, relaxed))
		return NULL;
	atomic_store_explicit(&free->begin, 0, relaxed);
	return free;
}

/* What is known of the holder when a wait begins. */
static void lock_wait(struct near__wait *w)
{
	struct near__waits_lock *l = w->known = lock_find(w->lock, true);
	uint64_t since = 0, none = 0;

	if (!l)
		return;
	if (!atomic_fetch_add_explicit(&l->waiters, 1, relaxed))
		atomic_store_explicit(&l->begin, 0, relaxed); /* of a release after a time limit */
	if (w->holder && atomic_load_explicit(&l->owner, relaxed) == w->holder) {
		since = atomic_load_explicit(&l->since, relaxed);
		w->is_since = since != 0;
	}
	if (!atomic_compare_exchange_strong_explicit(&l->begin, &none, w->begin, relaxed,
						     relaxed) &&
	    !since)
		since = none;
	w->held_ns = since && since < w->begin ? w->begin - since : 0;
}

static void lock_end(struct near__wait *w, uint64_t end, bool is_holder)
{
	struct near__waits_self *self = &near__waits_self;
	struct near__waits_lock *l = w->known;

	if (!l)
		return;
	if (is_holder && self->held < NEAR__WAITS_HELD) {
		self->holds[self->held++] = l;
		atomic_store_explicit(&l->since, end, relaxed);
		atomic_store_explicit(&l->owner, self->tid, relaxed);
	}
	if (atomic_fetch_sub_explicit(&l->waiters, 1, relaxed) == 1)
		atomic_store_explicit(&l->begin, 0, relaxed);
}

static void lock_forget(const void *lock)
{
	struct near__waits_self *self = &near__waits_self;

	for (unsigned i = 0; i < self->held; i++)
		if (atomic_load_explicit(&self->holds[i]->lock, relaxed) == lock) {
			atomic_store_explicit(&self->holds[i]->since, 0, relaxed);
			atomic_store_explicit(&self->holds[i]->owner, 0, relaxed);
			self->holds[i] = self->holds[--self->held];
			return;
		}
}

/* Of a process that was forked: no other thread is left. */
void near__waits_forget_locks(void)
{
	memset((void *)locks, 0, sizeof(locks));
}

/* ---- sites ---- */

/* From the caller on. */
static uint32_t stack_take(uint64_t *stack, const void *caller)
{
	void *frames[NEAR__WAITS_FRAMES + OURS];
	int n = 0, first = 0;

	if (atomic_load_explicit(&has_unwinder, relaxed))
		n = backtrace(frames, NEAR__WAITS_FRAMES + OURS);
	while (first < n && frames[first] != caller)
		first++;
	n = n - first < NEAR__WAITS_FRAMES ? n - first : NEAR__WAITS_FRAMES;
	stack[0] = (uint64_t)(uintptr_t)caller;
	for (int i = 1; i < n; i++)
		stack[i] = (uint64_t)(uintptr_t)frames[first + i];
	return n > 0 ? (uint32_t)n : 1;
}

static uint64_t key_add(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

/* Its entry, which may be another thread's that fills it now: counts are added in any case. NULL:
 * there is none, and `room` of them are used. A free one ends the search. */
static struct near__waits_site *site_find(struct near__waits *f, const struct near__waits_site *s,
					  uint32_t room)
{
	uint64_t key = key_add(key_add(s->kind, s->lock), s->depth);

	for (uint32_t i = 0; i < s->depth; i++)
		key = key_add(key, s->stack[i]);
	key |= 1;
	for (unsigned i = 0; i < 64; i++) {
		struct near__waits_site *to = &f->sites[(key + i) % NEAR__WAITS_SITES];
		uint64_t was = atomic_load_explicit(&to->key, relaxed);

		if (!was && atomic_load_explicit(&f->head.sites, relaxed) >= room)
			return NULL;
		if (!was && atomic_compare_exchange_strong_explicit(&to->key, &was, key, relaxed,
								    relaxed)) {
			to->lock = s->lock;
			to->kind = s->kind;
			to->depth = s->depth;
			memcpy(to->stack, s->stack, s->depth * sizeof(*s->stack));
			atomic_fetch_add_explicit(&f->head.sites, 1, relaxed);
			atomic_store_explicit(&to->is_complete, 1, memory_order_release);
			near__waits_add_site(f);
			return to;
		}
		if (was == key)
			return to;
	}
	return NULL;
}

/* Without the lock where other call stacks need the room that many locks take. */
static void site_choose(struct near__wait *w)
{
	struct near__waits_site s;

	s.kind = w->kind;
	s.lock = (uint64_t)(uintptr_t)w->lock;
	s.depth = stack_take(s.stack, w->caller);
	w->site = site_find(w->file, &s, NEAR__WAITS_SITES / 4 * 3);
	if (w->site)
		return;
	s.lock = 0;
	w->site = site_find(w->file, &s, NEAR__WAITS_SITES);
	count_add(w->site ? &w->file->head.merged : &w->file->head.lost, 1);
}

static void site_add(struct near__waits_site *s, uint64_t ns, uint64_t end, bool has)
{
	uint64_t longest = atomic_load_explicit(&s->longest, relaxed);

	atomic_fetch_add_explicit(&s->buckets[near__waits_bucket(ns)], 1, relaxed);
	count_add(&s->total, ns);
	if (!has)
		count_add(&s->failed, 1);
	while (ns > longest || !longest)
		if (atomic_compare_exchange_weak_explicit(&s->longest, &longest, ns ? ns : 1,
							  relaxed, relaxed)) {
			atomic_store_explicit(&s->longest_end, end, relaxed);
			break;
		}
	count_add(&s->count, 1);
}

/* ---- threads and events ---- */

/* The last entry is for all threads that find no room. */
static uint32_t thread_index(struct near__waits *f)
{
	enum { OTHERS = NEAR__WAITS_THREADS - 1 };
	struct near__waits_self *self = &near__waits_self;
	uint32_t was = 1, at = OTHERS;

	if (self->thread)
		return self->thread - 1;
	for (uint32_t i = 0; i < 64 && was; i++) {
		at = (self->tid + i) % OTHERS;
		was = 0;
		atomic_compare_exchange_strong_explicit(&f->threads[at].tid, &was, self->tid,
							relaxed, relaxed);
	}
	at = was ? OTHERS : at;
	if (was)
		strcpy(f->threads[at].name, "others");
	else
		prctl(PR_GET_NAME, f->threads[at].name);
	atomic_store_explicit(&f->threads[at].is_complete, 1, memory_order_release);
	self->thread = at + 1;
	return at;
}

/* A thread that a whole round has overtaken while it writes keeps its place: the event of the one
 * that finds it so is missing. */
static void event_add(const struct near__wait *w, uint32_t thread, uint64_t ns)
{
	struct near__waits *f = w->file;
	uint64_t number = atomic_fetch_add_explicit(&f->head.events, 1, relaxed) + 1;
	struct near__waits_event *e = &f->ring[number % NEAR__WAITS_EVENTS];
	uint64_t was = atomic_load_explicit(&e->number, relaxed);

	/* Acquire: pairs with the release below, of the round before. */
	if (was == UINT64_MAX ||
	    !atomic_compare_exchange_strong_explicit(&e->number, &was, UINT64_MAX,
						     memory_order_acquire, relaxed))
		return;
	e->begin = w->begin;
	e->ns = ns;
	e->site = (uint32_t)(w->site - f->sites);
	e->thread = thread;
	e->holder = w->holder;
	e->is_since = w->is_since;
	e->held_ns = w->held_ns;
	atomic_store_explicit(&e->number, number, memory_order_release);
}

static void wait_record(struct near__wait *w, uint64_t end, bool has)
{
	uint64_t ns = end > w->begin ? end - w->begin : 0;
	uint32_t thread = thread_index(w->file);

	if (!w->site)
		return;
	site_add(w->site, ns, end, has);
	event_add(w, thread, ns);
	count_add(&w->file->threads[thread].count[w->kind], 1);
	count_add(&w->file->threads[thread].total[w->kind], ns);
}

/* ---- a wait, a release ---- */

static bool self_enter(struct near__wait *w)
{
	struct near__waits_self *self = &near__waits_self;

	w->file = NULL;
	if (self->inside)
		return false;
	self->inside = true;
	atomic_signal_fence(memory_order_seq_cst); /* for handlers */
	w->file = near__waits_file();
	if (w->file && !self->tid)
		self->tid = (uint32_t)syscall(SYS_gettid);
	return true;
}

static void self_leave(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	near__waits_self.inside = false;
}

/* `inside` is false while the thread waits: handlers that interrupt it may wait, too. */
void near__wait_begin(struct near__wait *w)
{
	int saved = errno;

	if (!self_enter(w))
		return;
	if (w->file) {
		w->begin = now_ns();
		w->is_since = 0;
		w->held_ns = 0;
		lock_wait(w);
		site_choose(w);
	}
	self_leave();
	errno = saved;
}

void near__wait_end(struct near__wait *w, enum near__wait_end how)
{
	int saved = errno;
	uint64_t end;

	if (!w->file)
		return;
	near__waits_self.inside = true;
	atomic_signal_fence(memory_order_seq_cst);
	end = now_ns();
	lock_end(w, end, how == NEAR__WAIT_HOLDS);
	if (how != NEAR__WAIT_ERROR)
		wait_record(w, end, how != NEAR__WAIT_FAILED);
	self_leave();
	errno = saved;
}

void near__release_begin(struct near__wait *w, const void *lock, const void *caller)
{
	struct near__waits_lock *l;

	if (near__waits_self.held)
		lock_forget(lock);
	w->begin = 0;
	if (!near__waits_on())
		return;
	l = lock_find(lock, false);
	if (!l || !atomic_load_explicit(&l->begin, relaxed))
		return;
	w->kind = NEAR__WAIT_HELD;
	w->lock = lock;
	w->caller = caller;
	w->known = l;
	w->holder = w->is_since = 0;
	w->held_ns = now_ns();
	/* The others wait for the next holder from now on. */
	w->begin = atomic_exchange_explicit(&l->begin, w->held_ns, relaxed);
	if (w->begin && !self_enter(w))
		w->begin = 0;
}

/* The stack is taken when others can go on. */
void near__release_end(struct near__wait *w)
{
	int saved = errno;
	uint64_t end = w->held_ns;

	if (!w->begin)
		return;
	if (w->file) {
		w->held_ns = 0;
		site_choose(w);
		wait_record(w, end, true);
	}
	self_leave();
	errno = saved;
}
