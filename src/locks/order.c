/* SPDX-License-Identifier: MIT */
/* Who holds what, see order.h.
 *
 * Who can be where, and what stops each:
 *
 * - Two threads in the graph: its lock. The list of what a thread holds is its own.
 * - A signal handler: locks are not for handlers, and so the checker is not either.
 * - A child of a fork that came while another thread had the lock, in the middle of a change: finds
 *   the lock held, and begins with an empty graph. As in src/parking/lot.c, a child sees the
 *  stores of  another thread up to one of them, so that it sees the lock with the first change.
 * - A thread that ended: what it had is found by its number when a thread with the same one
 *   comes, or by the kernel's word that there is no such thread, when room is needed.
 * - A child of vfork: works on the parent's list, as on the rest of its memory.
 * - Several copies of the library: the memory and the thread's list are the process's. */
#define _GNU_SOURCE
#include "order.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "parking/lot.h"
#include "owner.h"
#include "ground/tsan.h"

#define THREADS_AT_FIRST 64
#define MAP (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

static void say(const char *what)
{
	struct iovec line[] = {
		{(void *)"nearcpu: lock order: ", 21},
		{(void *)what, strlen(what)},
		{(void *)"\n", 1},
	};
	int saved = errno;

	/* The system call itself: writev() is a cancellation point. */
	syscall(SYS_writev, 2, line, 3);
	errno = saved;
}

static void say_once(uint32_t *said, enum near__order_full what, const char *text)
{
	if (!(__atomic_fetch_or(said, what, __ATOMIC_RELAXED) & what))
		say(text);
}

/* Acquire: pairs with the release of who made it. NULL: nobody has. */
static struct near__order *known(void)
{
	return __atomic_load_n(&near__lot.order, __ATOMIC_ACQUIRE);
}

/* A mapping is zero, and what is not is set before it is known. */
static struct near__order *state(void)
{
	struct near__order *o = known(), *new;
	int saved = errno;

	if (o)
		return o;
	new = mmap(NULL, sizeof(*new), PROT_READ | PROT_WRITE, MAP, -1, 0);
	errno = saved;
	if (new == MAP_FAILED) {
		say_once(&near__lot.order_said, NEAR__ORDER_NO_MEMORY,
			 "no memory to check with: locks are not checked");
		return NULL;
	}
	new->threads_limit = THREADS_AT_FIRST;
	if (__atomic_compare_exchange_n(&near__lot.order, &o, new, false, __ATOMIC_RELEASE,
					__ATOMIC_RELAXED))
		return new;
	munmap(new, sizeof(*new));
	return known();
}

/* The fence: a child that finds a change finds the lock held, on weakly ordered CPUs, too. */
static void enter(struct near__order *o)
{
	near_lock_lock(&o->lock);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void leave(struct near__order *o)
{
	near_lock_unlock(&o->lock);
}

static struct near__order_thread *find_thread(struct near__order *o, uint32_t owner)
{
	struct near__order_thread *free = NULL;

	for (uint32_t i = 0; i < o->threads_used; i++) {
		uint32_t found = __atomic_load_n(&o->threads[i].owner, __ATOMIC_RELAXED);

		if (found == owner)
			return &o->threads[i];
		if (!found)
			free = &o->threads[i];
	}
	if (!free && o->threads_used < o->threads_limit)
		free = &o->threads[o->threads_used++];
	return free;
}

/* Frees what ended threads had; more may be used if that was less than half. */
static void sweep_threads(struct near__order *o)
{
	int saved = errno;
	uint32_t alive = 0;

	for (uint32_t i = 0; i < o->threads_used; i++) {
		uint32_t *at = &o->threads[i].owner;
		uint32_t owner = __atomic_load_n(at, __ATOMIC_RELAXED);
		bool ended = owner &&
			     syscall(SYS_tgkill, getpid(), owner >> NEAR__OWNER_SHIFT, 0) &&
			     errno == ESRCH;

		if (ended)
			__atomic_store_n(at, 0, __ATOMIC_RELAXED);
		alive += owner && !ended;
	}
	if (alive > o->threads_limit / 2 && o->threads_limit < NEAR__ORDER_THREADS)
		o->threads_limit *= 2;
	errno = saved;
}

static struct near__order_thread *enlist(struct near__order *o, uint32_t owner)
{
	struct near__order_thread *t;

	enter(o);
	t = find_thread(o, owner);
	if (!t) {
		sweep_threads(o);
		t = find_thread(o, owner);
	}
	if (t) {
		/* That its thread has ended is the kernel's word, which orders all it did. */
		NEAR__TSAN_ACQUIRE(t);
		__atomic_store_n(&t->owner, owner, __ATOMIC_RELAXED);
		t->count = 0;
	}
	leave(o);
	if (!t)
		say_once(&o->said, NEAR__ORDER_MANY_THREADS,
			 "too many threads: those that come now are not checked");
	return t;
}

/* Of a thread whose storage a child of clone shares; called in that thread, so that the store to
 * storage_is_shared, always of this function, needs no order. */
static void forget_number(void)
{
	near__owner = NEAR__NO_OWNER;
}

bool near__order_begin(void)
{
	struct near__order *o;
	uint32_t owner;

	/* In the middle of the decision the answer is not known yet. */
	if (!near__process_init())
		return false;
	/* The child of a vfork has a number of its own, which its parent must not find. */
	if (near__self.state == NEAR__VFORKED || near__self.state == NEAR__CLONED)
		return false;
	owner = near__owner_ask();
	near__owner_given(owner);
	o = near__process.conf.lock_check ? state() : NULL;
	near__order_self = o ? enlist(o, owner) : NULL;
	__atomic_store_n(&near__process.storage_is_shared, forget_number, __ATOMIC_RELAXED);
	if (!near__order_self && !near__is_watched) /* else every lock comes to the library */
		near__owner = owner;
	return near__order_self;
}

static void check_with(struct near__order *o, const struct near__order_step *pair)
{
	struct near__order_circle circle;
	bool full = false, closes;

	enter(o);
	closes = near__order_add(o, pair, &circle, &full);
	leave(o);
	if (full)
		say_once(&o->said, NEAR__ORDER_MANY_PAIRS,
			 "too many pairs of locks: those that are new now are not checked");
	if (!closes)
		return;
	near__order_tell(o, &circle);
	if (near__process.conf.lock_check == NEAR__LOCK_CHECK_STOPS)
		near__die("lock order: stopped, as NEAR_CONF=lock_check:2 says");
}

void near__order_check(const void *lock, const void *site)
{
	struct near__order_thread *t = near__order_self;
	struct near__order_step pair = {.wanted = {lock, site}, .owner = near__owner_now()};

	for (uint32_t i = 0; i < t->count; i++)
		if (t->held[i].lock == lock)
			return; /* a reader once more; of a mutex the caller is told otherwise */
	for (uint32_t i = 0; i < t->count; i++) {
		pair.held = t->held[i];
		check_with(known(), &pair);
	}
	NEAR__TSAN_RELEASE(t);
}

void near__order_push(const void *lock, const void *site)
{
	struct near__order_thread *t = near__order_self;

	if (t->count < NEAR__ORDER_HELD)
		t->held[t->count++] = (struct near__order_held){lock, site};
	else
		say_once(&known()->said, NEAR__ORDER_MANY_HELD,
			 "a thread holds too many locks: its last ones are not checked");
	NEAR__TSAN_RELEASE(t);
}

void near__order_pop(const void *lock)
{
	struct near__order_thread *t = near__order_self;
	uint32_t i = t->count;

	while (i && t->held[i - 1].lock != lock)
		i--;
	if (!i)
		return;
	memmove(&t->held[i - 1], &t->held[i], (t->count - i) * sizeof(t->held[0]));
	t->count--;
	NEAR__TSAN_RELEASE(t);
}

void near__order_drop(const void *lock)
{
	struct near__order *o = known();

	enter(o);
	near__order_drop_node(o, lock);
	leave(o);
}

static void empty(struct near__order *o)
{
	o->nodes_used = o->nodes_free = o->nodes_forgotten = o->edges_used = 0;
	memset(o->node_heads, 0, sizeof(o->node_heads));
	memset(o->edge_heads, 0, sizeof(o->edge_heads));
}

void near__order_forked(void)
{
	struct near__order *o = known();

	if (!o)
		return;
	if (o->lock.word)
		empty(o);
	memset(&o->lock, 0, sizeof(o->lock));
	memset(&o->telling, 0, sizeof(o->telling));
	o->used = 0;
}
