/* SPDX-License-Identifier: MIT */
/* One operation under locks, and what a signal handler needs to know of it.
 *
 * A handler may interrupt a thread in the midst of a section, and use the same object, or another
 * one under the same lock. It cannot wait: the section goes on when the handler has returned. So
 * the holder writes down what it is about to do, before it does it; the handler takes back what
 * was done of that, does its own operation, and keeps what the object then holds (help.c). When
 * the interrupted code goes on, it goes on writing what is no longer true; at the end it finds
 * `helped` set, brings the object back to what was kept, and does its operation again. Nobody else
 * sees the object meanwhile, as the lock is held. So the interrupted operation happens after the
 * handler's as a whole. (Were it completed by the handler, others could see that it is done, and
 * free what it goes on writing to.) It has happened with the step NOTHING at its end, if `helped`
 * is not set then: one store, before which the handler takes all back, and behind which it takes
 * the object as it is.
 *
 * `step` tells how far it is. Until it is decided (LOAD, EXCHANGE, COMPARE) the object is as it
 * was, and `in` and, for COMPARE, `out` are as the caller gave them. WRITE: `out` has what the
 * object held, which is being overwritten by `in`. FAIL: the comparison found a difference, `out`
 * is being overwritten; that stays, as the value that it found. The store of `step` decides: one
 * word, which the handler sees or does not. A store of more than NEAR__COPY_MAX bytes has no `out`
 * to take it back from: the handler completes it. */
#ifndef NEARCPU_ATOMIC_SECTION_H
#define NEARCPU_ATOMIC_SECTION_H

#include "copy.h"
#include "table.h"

enum near__step {
	NEAR__LOAD,     /* out = object */
	NEAR__EXCHANGE, /* out = object, object = in */
	NEAR__COMPARE,  /* object == out ? object = in : out = object */
	NEAR__WRITE,    /* object = in; out, if there is one, is what it was */
	NEAR__FAIL,     /* out = object, not equal */
	NEAR__NOTHING,  /* nothing yet, or it has happened; or the locks are held for a fork */
};

struct near__section {
	void *object, *out;
	size_t size;
	int step;
	/* The rest is a handler's, but `in`. */
	int helped; /* what was done is taken back */
	int found;  /* the step that it was at, then */
	const void *in;
	struct near__section *next; /* of those that one handler meets */
	unsigned char *kept;        /* the object's content since; behind it, what `out` shall be */
	unsigned char own[2 * NEAR__COPY_MAX];
};

#define NEAR__BARRIER() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* By hand, as most of it need not be written to. `in` is for who does it by near__section_do. */
static inline void near__section_begin(struct near__section *s, int step, size_t size, void *object,
				       void *out)
{
	s->object = object;
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

/* Whether a handler must see to it before it uses the object. */
static inline bool near__is_open(const struct near__section *s)
{
	return s && (s->step != NEAR__NOTHING || s->helped);
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

/* Of a section that was helped, and began with this step: mends the object, does the operation
 * again, and takes it off its locks, which stay held. Returns as near__section_do. */
struct near__locks;
bool near__atomic_mend(struct near__section *s, int step, const struct near__locks *locks);

/* The operation of `s` in a handler, where this thread holds a lock already. */
bool near__atomic_help(struct near__section *s, struct near__locks *locks);

#endif
