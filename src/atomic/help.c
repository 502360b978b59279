/* SPDX-License-Identifier: MIT */
/* Operations of signal handlers on objects whose locks the interrupted code holds: section.h.
 *
 * All of it runs with signals blocked, so that no further handler comes between; but for those
 * that tell of a fault, which would end the program if they were blocked. Two system calls, once
 * in a very great while.
 *
 * Who can be where:
 *   - the interrupted code stands still, at any instruction of its section: handler and code are
 *     one thread. Before `section` is shown and after it is taken away the object is whole, and
 *     this code does not write to it any more; the handler changes it like any holder.
 *   - a handler that this one interrupted has sections of its own under locks of its own, in the
 *     same way. Two sections of one thread never share a lock: who finds a lock that his thread
 *     holds comes here, and shows none.
 *   - other threads wait for the locks, or see that they are held, or will see that the words have
 *     changed when the interrupted code lets go. Or they borrow the locks (lend.h), and come here
 *     in the handler's place. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "../die.h"
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

void near__atomic_drop_kept(struct near__section *s)
{
	int saved_errno = errno;

	if (s->size > NEAR__COPY_MAX)
		munmap(s->kept, 2 * s->size);
	errno = saved_errno;
}

/* Does what the section had left to do, and keeps what it shall return. */
static void complete(struct near__section *s)
{
	unsigned char *saved;

	make_room(s);
	saved = s->kept + s->size;
	s->equal = true;
	s->has_out = s->step != NEAR__WRITE;
	s->writes = s->step != NEAR__LOAD; /* a constant must not be */
	if (s->step == NEAR__COMPARE && near__same(s->object, s->out, s->size)) {
		near__copy(saved, s->out, s->size);
		s->step = NEAR__WRITE;
	} else if (s->step != NEAR__WRITE) {
		near__copy(saved, s->object, s->size);
		s->equal = s->step == NEAR__LOAD || s->step == NEAR__EXCHANGE;
	}
	if (s->step == NEAR__WRITE || s->step == NEAR__EXCHANGE)
		near__copy(s->object, s->in, s->size);
	s->helped = 1;
}

/* Afterwards the object is whole. */
static void complete_or_mend(struct near__section *s)
{
	if (!s->helped)
		complete(s);
	else if (s->writes)
		near__copy(s->object, s->kept, s->size);
}

bool near__atomic_mend(struct near__section *s, const struct near__locks *locks)
{
	struct near__blocked b = near__block_signals();
	bool equal = s->equal;

	if (s->writes)
		near__copy(s->object, s->kept, s->size);
	if (s->has_out)
		near__copy(s->out, s->kept + s->size, s->size);
	near__show(locks, NULL);
	near__atomic_drop_kept(s);
	s->helped = 0;
	near__unblock_signals(&b);
	return equal;
}

/* ---- the handler's operation ---- */

/* The sections under these locks, which are all held or borrowed: of locks that were free there are
 * none. */
static struct near__section *sections_at(const struct near__locks *locks)
{
	struct near__section *all = NULL;

	for (unsigned i = 0; i < locks->count; i++) {
		struct near__section *s = near__nth(locks, i)->section, *known = all;

		if (!s || s->step == NEAR__NOTHING)
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
	struct near__holding holding;
	bool equal;

	near__take_or_borrow(locks, near__held_by_me(), &b, &holding);
	near__nth(locks, 0)->helped++;
	interrupted = sections_at(locks);
	for (i = interrupted; i; i = i->next)
		complete_or_mend(i);
	equal = near__section_do(s, s->step);
	for (i = interrupted; i; i = i->next)
		near__copy(i->kept, i->object, i->size);
	near__let_go_holding(&holding, NEAR__DONE);
	near__claim_all(&holding.loan);
	near__unblock_signals(&b);
	return equal;
}
