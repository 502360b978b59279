/* SPDX-License-Identifier: MIT */
/* Operations of signal handlers on objects whose locks the interrupted code holds: section.h has
 * the protocol.
 *
 * All of this runs with signals blocked, so that no further handler interrupts it; the exceptions
 * are the signals of faults, which would end the program if they were blocked. That costs two
 * system calls here and two more in the interrupted code.
 *
 * What may run concurrently:
 *   - the interrupted code is stopped, at any instruction of its section: it and the handler are
 *     one thread. Before `section` is published and after it is unpublished the object is whole,
 *     and the interrupted code does not write to it, but may have copied it; the handler changes it
 *     as any holder does, and sets `changed`.
 *   - a handler that this one interrupted is stopped in the same way, with sections under locks of
 *     its own. Two sections of one thread never share a lock: an operation that finds a lock held
 *     by its own thread is done here, and publishes no section.
 *   - other threads wait for the locks, or find them held, or will find that the words have changed
 *     when the interrupted code releases the locks. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "atomic/locks.h"
#include "atomic/section_signals.h"
#include "base/die.h"

/* ---- the saved content of a section that is rolled back ---- */

static void saved_make_room(struct near__section *s)
{
	s->kept = s->own;
	if (s->size <= NEAR__COPY_MAX)
		return;
	/* Not on the stack, which is the handler's; not malloc, which it may have interrupted. */
	s->kept =
		mmap(NULL, 2 * s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->kept == MAP_FAILED)
		near__die("libatomic: no memory for a signal handler's operation on an object that "
			  "the interrupted code is changing");
}

static void drop_kept(const struct near__section *s)
{
	if (s->size > NEAR__COPY_MAX)
		munmap(s->kept, 2 * s->size);
}

/* Restores the object, except after a large store, which it completes. */
static void roll_back(struct near__section *s)
{
	unsigned char *saved;

	saved_make_room(s);
	saved = s->kept + s->size;
	s->found_step = s->step;
	if (s->found_step == NEAR__WRITE || s->found_step == NEAR__COPIED)
		near__copy(s->object, s->out ? s->out : s->in, s->size);
	else if (s->found_step == NEAR__COMPARE)
		near__copy(saved, s->out, s->size);
	else if (s->found_step == NEAR__FAIL)
		near__copy(saved, s->object, s->size);
	s->rolled_back = 1;
}

/* Whether the interrupted code does not write to the object after this step. The object may then be
 * a constant. */
static bool only_reads(const struct near__section *s)
{
	return s->found_step == NEAR__LOAD || s->found_step == NEAR__FAIL;
}

static void make_whole(struct near__section *s)
{
	if (!s->rolled_back)
		roll_back(s);
	else if (!only_reads(s))
		near__copy(s->object, s->kept, s->size);
}

bool near__atomic_redo(struct near__section *s, int step, const struct near__locks *locks)
{
	struct near__blocked b = near__block_signals();
	bool result;

	if (!only_reads(s))
		near__copy(s->object, s->kept, s->size);
	if (s->found_step == NEAR__COMPARE || s->found_step == NEAR__FAIL)
		near__copy(s->out, s->kept + s->size, s->size);
	/* A failed comparison remains one; the handler has completed a large store. */
	if (s->found_step == NEAR__FAIL)
		result = false;
	else
		result = step == NEAR__WRITE || near__section_do(s, step);
	near__publish(locks, NULL);
	drop_kept(s);
	near__unblock_signals(&b);
	return result;
}

/* ---- the handler's operation ---- */

/* Whether the section's old content may be from before another handler. It then has not changed the
 * object. */
static bool is_stale(const struct near__section *s, const struct near__atomic_lock *l)
{
	return s->step == NEAR__COPIED && l->changed;
}

/* A list of the open sections under these locks, which this thread holds. A lock that it took just
 * now has none. Sets `changed` of the locks that have none: the interrupted code may be about to
 * publish one. */
static struct near__section *sections_at(const struct near__locks *locks)
{
	struct near__section *all = NULL;

	for (unsigned i = 0; i < locks->count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);
		struct near__section *s = l->section, *known = all;

		if (!near__is_open(s) || is_stale(s, l)) {
			l->changed = 1;
			continue;
		}
		while (known && known != s)
			known = known->next;
		if (known)
			continue;
		s->next = all;
		all = s;
	}
	return all;
}

bool near__atomic_nested(struct near__section *s, struct near__locks *locks)
{
	struct near__blocked b = near__block_signals();
	struct near__section *interrupted, *i;
	struct near__locks taken;
	bool equal;

	near__take_missing(locks, near__held_by_me(), &b, false, &taken);
	near__nth(locks, 0)->nested++;
	interrupted = sections_at(locks);
	for (i = interrupted; i; i = i->next)
		make_whole(i);
	equal = near__section_do(s, s->step);
	for (i = interrupted; i; i = i->next)
		near__copy(i->kept, i->object, i->size);
	near__release_all(&taken);
	near__unblock_signals(&b);
	return equal;
}
