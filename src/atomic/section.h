/* SPDX-License-Identifier: MIT */
/* One operation under locks, and what a signal handler needs to know of it.
 *
 * A handler may interrupt a thread in the midst of a section, and use the same object, or another
 * one under the same lock. It cannot wait: the section goes on when the handler has returned. So
 * the holder writes down what it is about to do, before it does it; the handler completes the
 * operation on the holder's behalf, does its own, and keeps what the object then holds (help.c).
 * When the interrupted code goes on, it goes on writing what is no longer true; at the end it
 * finds `helped` set, brings the object back to what was kept, and takes its results from here.
 * Nobody else sees the object meanwhile, as the lock is held. So the interrupted operation has
 * happened before the handler's as a whole.
 *
 * `step` tells how far it is. Until it is decided (LOAD, EXCHANGE, COMPARE) the object is as it
 * was, and `in` and, for COMPARE, `out` are as the caller gave them. WRITE: `out` has all that it
 * shall have, the object is being overwritten by `in`. FAIL: the comparison found a difference,
 * `out` is being overwritten. The store of `step` decides: one word, which the handler sees or
 * does not. */
#ifndef NEARCPU_ATOMIC_SECTION_H
#define NEARCPU_ATOMIC_SECTION_H

#include "copy.h"
#include "table.h"

enum near__step {
	NEAR__LOAD,     /* out = object */
	NEAR__EXCHANGE, /* out = object, object = in */
	NEAR__COMPARE,  /* object == out ? object = in : out = object */
	NEAR__WRITE,    /* object = in */
	NEAR__FAIL,     /* out = object, not equal */
	NEAR__NOTHING,  /* nothing yet, or no longer; or the locks are held for a fork */
};

struct near__section {
	void *object;
	const void *in;
	void *out;
	size_t size;
	int step;
	/* The rest is a handler's. */
	int helped;                 /* the operation is completed, */
	bool equal;                 /* with this result, */
	bool has_out;               /* and what stands behind `kept` for `out`, */
	bool writes;                /* and `kept` for the object */
	struct near__section *next; /* of those that one handler completes */
	unsigned char *kept;        /* the object's content since; `saved` stands behind it */
	unsigned char own[2 * NEAR__COPY_MAX];
};

#define NEAR__BARRIER() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* By hand, as most of it need not be written to. */
static inline void near__section_begin(struct near__section *s, int step, size_t size, void *object,
				       const void *in, void *out)
{
	s->object = object;
	if (step != NEAR__LOAD)
		s->in = in;
	if (step != NEAR__WRITE)
		s->out = out;
	s->size = size;
	s->step = step;
	s->helped = 0;
}

/* Tells a handler of ours that the operation is decided, before the first store that follows from
 * that. Volatile: the handler is part of this thread, and more order is not needed. */
static inline void near__decide(struct near__section *s, int step)
{
	NEAR__BARRIER();
	*(volatile int *)&s->step = step;
	NEAR__BARRIER();
}

/* Does it. Returns whether a comparison found the two equal; true for all else. The arguments are
 * the section's, where the caller has them in registers, or knows them. */
static inline __attribute__((always_inline)) bool near__section_run(struct near__section *s,
								    int step, size_t size,
								    void *object, const void *in,
								    void *out)
{
	switch (step) {
	case NEAR__LOAD:
		near__copy(out, object, size);
		return true;
	case NEAR__EXCHANGE:
		near__copy(out, object, size);
		near__decide(s, NEAR__WRITE);
		break;
	case NEAR__COMPARE:
		if (!near__same(object, out, size)) {
			near__decide(s, NEAR__FAIL);
			near__copy(out, object, size);
			return false;
		}
		near__decide(s, NEAR__WRITE);
		break;
	}
	near__copy_words(object, in, size);
	return true;
}

static inline bool near__section_do(struct near__section *s, int step)
{
	return near__section_run(s, step, s->size, s->object, s->in, s->out);
}

/* The operation of `s`, whatever it takes. Returns as near__section_do. */
bool near__atomic_perform(struct near__section *s);

/* ---- help.c ---- */

/* Of a section that was helped: mends object and results, and takes it off its locks, which stay
 * held. Returns the result. */
struct near__locks;
bool near__atomic_mend(struct near__section *s, const struct near__locks *locks);

/* Gives back what a handler took for a large section. */
void near__atomic_drop_kept(struct near__section *s);

/* The operation of `s` in a handler, where this thread holds a lock already; or where one is
 * lent. */
bool near__atomic_help(struct near__section *s, struct near__locks *locks);

#endif
