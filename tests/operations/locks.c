/* SPDX-License-Identifier: MIT */
/* The operations on locks. No operation waits, so that each one completes while another one is
 * stopped. */
#include "objects.h"

#include <stdlib.h>

#include "locks/mutex.h"

static void read_inside(struct actor *me)
{
	int64_t first = OBJ.guarded[0];

	OBJ.torn |= first != OBJ.guarded[1];
	number(me, first);
}

void rwlock_read(struct actor *me)
{
	if (!call_try_read_lock())
		return;
	read_inside(me);
	call_read_unlock();
}

void rwlock_read_nested(struct actor *me)
{
	if (!call_try_read_lock())
		return;
	read_inside(me);
	rwlock_read(me);
	read_inside(me);
	call_read_unlock();
}

void rwlock_read_slow(struct actor *me)
{
	if (!near__rwlock_try_read_lock_slow(&OBJ.rwlock))
		return;
	read_inside(me);
	near__rwlock_read_unlock_slow(&OBJ.rwlock);
}

static bool write_inside(struct actor *me)
{
	if (!near_rwlock_try_write_lock(&OBJ.rwlock))
		return false;
	OBJ.torn |= OBJ.guarded[0] != OBJ.guarded[1];
	OBJ.guarded[0]++;
	me->written++;
	OBJ.guarded[1]++;
	return true;
}

void rwlock_write(struct actor *me)
{
	if (write_inside(me))
		near_rwlock_write_unlock(&OBJ.rwlock);
}

void rwlock_downgrade(struct actor *me)
{
	if (!write_inside(me))
		return;
	near_rwlock_downgrade(&OBJ.rwlock);
	read_inside(me);
	call_read_unlock();
}

/* The slots are closed, and open again. */
void rwlock_write_read(struct actor *me)
{
	rwlock_write(me);
	OBJ.rwlock.rebias_after = 1;
	rwlock_read(me);
}

static void use_section(struct actor *me)
{
	me->sections++;
	OBJ.sections++;
	call_unlock(ops_mutex);
}

void mutex_use(struct actor *me)
{
	call_lock(ops_mutex);
	use_section(me);
}

void mutex_try(struct actor *me)
{
	if (near_mutex_try_lock(ops_mutex))
		use_section(me);
}

static void use_alone(struct near_mutex *m)
{
#if NEAR__LOCKS_BY_SEQ
	__atomic_store_n(&__libc_single_threaded, 1, __ATOMIC_RELAXED);
	call_lock(m);
	__atomic_store_n(&__libc_single_threaded, 0, __ATOMIC_RELAXED);
#else
	call_lock(m);
#endif
	if (!near_mutex_is_mine(m))
		abort();
	call_unlock(m);
}

/* What near_mutex_lock does in a process with one thread: so each actor has its own mutex. Once it
 * is free, once it has a flag that a waiter left. */
void mutex_alone(struct actor *me)
{
	struct near_mutex *m = &ops_mutex[1 + me->id];

	use_alone(m);
	m->word = PARKED;
	use_alone(m);
}

/* ---- how the mutexes are made ---- */

static bool create_mutex(void)
{
	for (unsigned i = 0; i < 3; i++)
		ops_mutex[i] = (struct near_mutex)NEAR_MUTEX_INIT;
	OBJ.sections = 0;
	return true;
}

/* The thread is known. */
static void enter_mutex(void)
{
	call_lock(ops_mutex);
	call_unlock(ops_mutex);
}

static void describe_mutex(struct ops_text *t, const struct actor *a, const struct actor *b)
{
	put_field(t, " sections ", OBJ.sections);
}

static bool is_held(const struct near_mutex *m)
{
	return m->word & NEAR__MUTEX_OWNER;
}

static const char *mutex_conserved(const struct actor *a, const struct actor *b)
{
	if (OBJ.sections != a->sections + b->sections || is_held(ops_mutex) ||
	    is_held(&ops_mutex[1]) || is_held(&ops_mutex[2]))
		return "a section of the mutex is lost, or it is still held";
	return NULL;
}

const struct ops_kind kind_mutex = {
	.create = create_mutex,
	.enter = enter_mutex,
	.enter_closed = enter_mutex,
	.describe = describe_mutex,
	.conserved = mutex_conserved,
};
