/* SPDX-License-Identifier: MIT */
/* The record of one operation under locks, which a signal handler of the same thread reads.
 *
 * A handler may interrupt a thread within an operation, and use the same object, or another one
 * under the same lock. It cannot wait, since the operation continues when the handler has returned.
 * So the holder publishes this record before it changes the object. The handler rolls the
 * interrupted operation back, does its own one, and saves what the object then holds (handler.c).
 * The interrupted code continues to write stale values, but no other thread reads the object
 * while the lock is held; at the end it finds `rolled_back` set, restores the saved content, and
 * does its operation again. The interrupted operation as a whole thus takes effect after the
 * handler's. (If the handler completed it instead, other threads could see that it has taken
 * effect, and free the memory that the interrupted code continues to write to.)
 *
 * The store of the step NEAR__DONE completes an operation: a handler that runs before this store
 * rolls the operation back; one that runs after it takes the object as it is.
 *
 * `step` records the progress of the operation. In LOAD, EXCHANGE and COMPARE the object is
 * unchanged, and `in` and, for COMPARE, `out` are as the caller passed them. In WRITE, `out` has
 * the old content of the object, and `in` overwrites the object. In FAIL, the comparison found a
 * difference and `out` is overwritten; the value that it found remains the result. Each change of
 * `step` is one store, so a handler sees it entirely or not at all. A store of more than
 * NEAR__COPY_MAX bytes has no `out` to restore the object from: the handler completes it.
 *
 * An exchange or small store on the usual path (`object_change` in locked.c) does without the
 * change of `step`: it copies the old content before it publishes its section. The step is then
 * COPIED from the beginning, which means the same as WRITE. But a handler may change the object
 * between the copy and the publication. So a handler that finds no open section under a lock sets
 * the lock's `changed`, and the operation checks that after the publication. If it is set, the
 * operation, which has written nothing yet, unpublishes the section, and then clears `changed`: in
 * the other order a handler could find the section without `changed`, and restore the object from
 * an old copy. It releases the lock and begins again on the other path. A handler that finds COPIED
 * and `changed` takes the object as it is.
 *
 * What this costs (Intel Xeon of the Granite Rapids class, 2 CPUs; one thread; medians of 15
 * interleaved runs, minimum and maximum in brackets, ns per operation):
 *
 *                       with              without            GCC's library
 *     store, 24 bytes    7.7 (7.5-8.2)    7.0 (6.8-7.5)      15.0 (14.8-15.6)
 *     exchange, 24       7.9 (7.7-9.0)    7.2 (7.0-7.5)      15.8 (15.4-16.5)
 *     store, 64          8.4 (8.0-8.6)    7.4 (7.3-7.9)      15.5 (15.2-16.8)
 *
 * With the change of `step` they took 9.3, 9.0 and 9.8 ns.
 *
 * The locked instruction that takes a lock costs 6 ns of that. Before it, the CPU waits until all
 * earlier stores have left its store buffer, so each store to this record counts. */
#ifndef NEARCPU_ATOMIC_SECTION_H
#define NEARCPU_ATOMIC_SECTION_H

#include "atomic/copy.h"
#include "atomic/table.h"

enum near__step {
	NEAR__LOAD,     /* out = object */
	NEAR__EXCHANGE, /* out = object, object = in */
	NEAR__COMPARE,  /* object == out ? object = in : out = object */
	NEAR__WRITE,    /* object = in; out, if not NULL, is the old content */
	NEAR__COPIED,   /* as WRITE; but if `changed` is set: not begun */
	NEAR__FAIL,     /* out = object, which was not equal */
	NEAR__DONE,     /* not begun, or complete; or fork holds the locks */
};

struct near__section {
	void *object, *out;
	size_t size;
	int step;
	/* Only handlers use the rest, except `in`. */
	int rolled_back;
	int found_step; /* the step at which it was rolled back */
	const void *in;
	struct near__section *next; /* in the list that one handler makes */
	unsigned char *kept;        /* the saved content of the object, then that of `out` */
	unsigned char own[2 * NEAR__COPY_MAX];
};

#define NEAR__BARRIER() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Sets what each operation needs. A caller of near__section_do also sets `in`. */
static inline void near__section_begin(struct near__section *s, int step, size_t size, void *object,
				       void *out)
{
	s->object = object;
	s->out = out;
	s->size = size;
	s->step = step;
	s->rolled_back = 0;
}

/* Stores the step before the first store that depends on it. A volatile store is enough: a handler
 * is part of this thread. */
static inline void near__set_step(struct near__section *s, int step)
{
	NEAR__BARRIER();
	*(volatile int *)&s->step = step;
	NEAR__BARRIER();
}

/* Whether a handler must roll it back, or restore its object, before it uses the object. */
static inline bool near__is_open(const struct near__section *s)
{
	return s && (s->step != NEAR__DONE || s->rolled_back);
}

/* Does the operation. Returns false if a comparison found a difference, else true. The arguments
 * repeat the section's members: the caller has them in registers, or as constants. */
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
		near__set_step(s, NEAR__WRITE);
		break;
	case NEAR__COMPARE:
		if (!near__same(object, out, size)) {
			near__set_step(s, NEAR__FAIL);
			near__copy(out, object, size);
			return false;
		}
		near__set_step(s, NEAR__WRITE);
		break;
	}
	near__copy_words(object, in, size);
	return true;
}

static inline bool near__section_do(struct near__section *s, int step)
{
	return near__section_run(s, step, s->size, s->object, s->in, s->out);
}

/* Does the operation of `s`, whatever its size and the state of its locks. Returns as
 * near__section_run. */
bool near__atomic_perform(struct near__section *s);

/* ---- handler.c ---- */

/* Restores the object of a section that was rolled back, and that began with this step; does the
 * operation again and unpublishes the section. Its locks stay held. Returns as
 * near__section_run. */
struct near__locks;
bool near__atomic_redo(struct near__section *s, int step, const struct near__locks *locks);

/* Does the operation of `s` in a handler whose thread holds some of the locks already. */
bool near__atomic_nested(struct near__section *s, struct near__locks *locks);

#endif
