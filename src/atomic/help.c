/* SPDX-License-Identifier: MIT */
/* Operations of signal handlers on objects whose locks the interrupted code holds: section.h.
 *
 * All of it runs with signals blocked, so that no further handler comes between; but for those
 * that tell of a fault, which would end the program if they were blocked. Two system calls, and two
 * more of the interrupted code, once in a very great while.
 *
 * Who can be where:
 *   - the interrupted code stands still, at any instruction of its section: handler and code are
 *     one thread. Before `section` is shown and after it is taken away the object is whole, and
 *     this code does not write to it; the handler changes it like any holder.
 *   - a handler that this one interrupted has sections of its own under locks of its own, in the
 *     same way. Two sections of one thread never share a lock: who finds a lock that his thread
 *     holds comes here, and shows none.
 *   - other threads wait for the locks, or see that they are held, or will see that the words have
 *     changed when the interrupted code lets go. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "ground/die.h"
#include "locks.h"
#include "signals.h"

/* ---- what is kept of a helped section ---- */

static void make_room(struct near__section *s)
{
	s->kept = s->own;
	if (s->size <= NEAR__COPY_MAX)
		return;
	/* The handler's stack will be gone, malloc may be what it interrupted. */
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

/* Before another operation: the object is as it was, but for a large store. */
static void take_back(struct near__section *s)
{
	unsigned char *saved;

	make_room(s);
	saved = s->kept + s->size;
	s->found = s->step;
	if (s->found == NEAR__WRITE)
		near__copy(s->object, s->out ? s->out : s->in, s->size);
	else if (s->found == NEAR__COMPARE)
		near__copy(saved, s->out, s->size);
	else if (s->found == NEAR__FAIL)
		near__copy(saved, s->object, s->size);
	s->helped = 1;
}

/* From where the first handler came, the interrupted code does not write to the object, which may
 * be a constant. */
static bool only_reads(const struct near__section *s)
{
	return s->found == NEAR__LOAD || s->found == NEAR__FAIL;
}

static void make_whole(struct near__section *s)
{
	if (!s->helped)
		take_back(s);
	else if (!only_reads(s))
		near__copy(s->object, s->kept, s->size);
}

bool near__atomic_mend(struct near__section *s, int step, const struct near__locks *locks)
{
	struct near__blocked b = near__block_signals();
	bool result;

	if (!only_reads(s))
		near__copy(s->object, s->kept, s->size);
	if (s->found == NEAR__COMPARE || s->found == NEAR__FAIL)
		near__copy(s->out, s->kept + s->size, s->size);
	/* What it found stays; so does a large store, which the handler has completed. */
	if (s->found == NEAR__FAIL)
		result = false;
	else
		result = step == NEAR__WRITE || near__section_do(s, step);
	near__show(locks, NULL);
	drop_kept(s);
	near__unblock_signals(&b);
	return result;
}

/* ---- the handler's operation ---- */

/* The sections under these locks, which are all held: of locks that were free there are none. */
static struct near__section *sections_at(const struct near__locks *locks)
{
	struct near__section *all = NULL;

	for (unsigned i = 0; i < locks->count; i++) {
		struct near__section *s = near__nth(locks, i)->section, *known = all;

		if (!near__is_open(s))
			continue;
		while (known && known != s)
			known = known->next;
		if (known)
			continue;
		s->next = all;
		all = s;
	}
	return all;
}

bool near__atomic_help(struct near__section *s, struct near__locks *locks)
{
	struct near__blocked b = near__block_signals();
	struct near__section *interrupted, *i;
	struct near__locks taken;
	bool equal;

	near__take_missing(locks, near__held_by_me(), &b, false, &taken);
	near__nth(locks, 0)->helped++;
	interrupted = sections_at(locks);
	for (i = interrupted; i; i = i->next)
		make_whole(i);
	equal = near__section_do(s, s->step);
	for (i = interrupted; i; i = i->next)
		near__copy(i->kept, i->object, i->size);
	near__let_go_all(&taken);
	near__unblock_signals(&b);
	return equal;
}
