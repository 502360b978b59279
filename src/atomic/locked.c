/* SPDX-License-Identifier: MIT */
/* Operations on objects that no instruction changes. Nearly every call needs one lock, which is
 * free; a load needs none. object_change and object_load do only these calls, near__atomic_perform
 * does all. */
#include "atomic/locked.h"

#include <sys/mman.h>

#include "atomic/locks.h"
#include "atomic/section.h"
#include "base/die.h"
#include "base/tsan.h"

static inline bool was_rolled_back(const struct near__section *s)
{
	NEAR__BARRIER();
	return __builtin_expect(*(const volatile int *)&s->rolled_back, 0);
}

static bool run_under(struct near__section *s, const struct near__locks *locks)
{
	int step = s->step;
	bool result;

	/* All locks show the section before a handler can find it open, and until none can. */
	s->step = NEAR__DONE;
	near__publish(locks, s);
	near__set_step(s, step);
	result = near__section_do(s, step);
	near__set_step(s, NEAR__DONE);
	if (was_rolled_back(s))
		return near__atomic_redo(s, step, locks);
	near__publish(locks, NULL);
	return result;
}

/* ---- the rare ends of a change: not inlined, so that the usual path needs few registers ---- */

#define NOINLINE static __attribute__((noinline))
#define INLINE static inline __attribute__((always_inline))

NOINLINE bool object_perform(int step, size_t size, void *object, const void *in, void *out)
{
	struct near__section s;
	bool result;

	near__section_begin(&s, step, size, object, out);
	s.in = in;
	NEAR__TSAN_RELEASE(object);
	result = near__atomic_perform(&s);
	NEAR__TSAN_ACQUIRE(object);
	return result;
}

NOINLINE bool end_rolled_back(struct near__section *s, int step, const void *in,
			      struct near__atomic_lock *l, unsigned long seen)
{
	struct near__locks locks;
	bool result;

	locks.count = 1;
	locks.list[0] = (uint8_t)(l - near__atomic_locks.locks);
	s->in = in;
	result = near__atomic_redo(s, step, &locks);
	if (near__release(l, seen))
		near__atomic_wake(l);
	return result;
}

/* A handler may have changed the object after its content was copied. The section is withdrawn
 * before `changed` is cleared: section.h. */
NOINLINE bool begin_again(const struct near__section *s, const void *in,
			  struct near__atomic_lock *l, unsigned long seen)
{
	near__publish_one(l, NULL);
	*(volatile uint32_t *)&l->changed = 0;
	l->retries++;
	NEAR__BARRIER();
	if (near__release(l, seen))
		near__atomic_wake(l);
	return object_perform(NEAR__EXCHANGE, s->size, s->object, in, s->out);
}

NOINLINE bool end_waited_for(struct near__atomic_lock *l, bool result)
{
	near__atomic_wake(l);
	return result;
}

INLINE bool was_changed(const struct near__atomic_lock *l)
{
	bool changed = *(const volatile uint32_t *)&l->changed != 0;

	NEAR__BARRIER();
	return __builtin_expect(changed, 0);
}

/* An exchange copies the old content before it publishes its section, which so begins with the step
 * COPIED. Returns as near__section_run. */
INLINE bool object_change(int step, size_t size, void *object, const void *in, void *out)
{
	struct near__atomic_lock *l = near__lock_of_line(near__line_of(object));
	unsigned long mine = near__held_by_me(), seen;
	bool copies = step == NEAR__EXCHANGE, result;
	int first = copies ? NEAR__COPIED : step;
	char mode = *near__atomic_mode;
	struct near__section s;

	if (size > NEAR__COPY_MAX || __builtin_expect(mode == NEAR__TRACED, 0))
		return object_perform(step, size, object, in, out);
	near__section_begin(&s, first, size, object, out);
	if (__builtin_expect(!(mode == NEAR__ALONE ? near__try_take_alone(l, mine, &seen)
						   : near__try_take(l, mine, &seen)),
			     0))
		return object_perform(step, size, object, in, out);
	NEAR__BARRIER();
	if (copies)
		near__copy(out, object, size);
	near__publish_one(l, &s);
	if (copies && was_changed(l))
		return begin_again(&s, in, l, seen);
	result = near__section_run(&s, first, size, object, in, out);
	near__set_step(&s, NEAR__DONE); /* complete, unless it was rolled back */
	if (was_rolled_back(&s))
		return end_rolled_back(&s, step, in, l, seen);
	near__publish_one(l, NULL);
	if (mode == NEAR__ALONE)
		near__release_alone(l, seen);
	else if (__builtin_expect(near__release(l, seen), 0))
		return end_waited_for(l, result);
	return result;
}

/* Defines name_by_size of name(size, object, in, out), with a function for each size of a few
 * words: none of these has to save registers. */
#define DEFINE_SIZE(name, n)                                                                       \
	NOINLINE bool name##_##n(void *object, const void *in, void *out)                          \
	{                                                                                          \
		return name(n, object, in, out);                                                   \
	}
#define CASE(name, n)                                                                              \
	case n:                                                                                    \
		return name##_##n(object, in, out);
#define DEFINE_BY_SIZE(name)                                                                       \
	DEFINE_SIZE(name, 24)                                                                      \
	DEFINE_SIZE(name, 32)                                                                      \
	DEFINE_SIZE(name, 40)                                                                      \
	DEFINE_SIZE(name, 48)                                                                      \
	DEFINE_SIZE(name, 64)                                                                      \
	NOINLINE bool name##_any(size_t size, void *object, const void *in, void *out)             \
	{                                                                                          \
		return name(size, object, in, out);                                                \
	}                                                                                          \
                                                                                                   \
	static inline bool name##_by_size(size_t size, void *object, const void *in, void *out)    \
	{                                                                                          \
		switch (size) {                                                                    \
			CASE(name, 24)                                                             \
			CASE(name, 32)                                                             \
			CASE(name, 40)                                                             \
			CASE(name, 48)                                                             \
			CASE(name, 64)                                                             \
		default:                                                                           \
			return name##_any(size, object, in, out);                                  \
		}                                                                                  \
	}

/* A small store saves the content that it overwrites, from which a handler restores the object. */
INLINE bool object_store(size_t size, void *object, const void *in, void *unused)
{
	unsigned char old[NEAR__COPY_MAX];

	(void)unused;
	if (size > NEAR__COPY_MAX)
		return object_perform(NEAR__WRITE, size, object, in, NULL);
	return object_change(NEAR__EXCHANGE, size, object, in, old);
}

INLINE bool object_exchange(size_t size, void *object, const void *in, void *out)
{
	return object_change(NEAR__EXCHANGE, size, object, in, out);
}

INLINE bool object_compare(size_t size, void *object, const void *in, void *expected)
{
	return object_change(NEAR__COMPARE, size, object, in, expected);
}

DEFINE_BY_SIZE(object_store)
DEFINE_BY_SIZE(object_exchange)
DEFINE_BY_SIZE(object_compare)

bool near__locked_store(size_t size, void *object, const void *in)
{
	return object_store_by_size(size, object, in, NULL);
}

bool near__locked_compare_exchange(size_t size, void *object, void *expected, const void *in)
{
	return object_compare_by_size(size, object, in, expected);
}

/* An exchange whose two values are the same memory: it copies the new value first, as the old one
 * overwrites it. */
static bool exchange_in_place(size_t size, void *object, void *value)
{
	unsigned char small[NEAR__COPY_MAX], *copy = small;

	if (size > sizeof(small)) {
		copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (copy == MAP_FAILED)
			near__die("libatomic: no memory for an exchange in place");
	}
	near__copy(copy, value, size);
	object_exchange_by_size(size, object, copy, value);
	if (copy != small)
		munmap(copy, size);
	return true;
}

bool near__locked_exchange(size_t size, void *object, const void *in, void *out)
{
	if (__builtin_expect(in == out, 0))
		return exchange_in_place(size, object, out);
	return object_exchange_by_size(size, object, in, out);
}

/* ---- loads ---- */

/* Loads the word, copies, and loads the word again: table.h. */
INLINE bool copy_unlocked(const struct near__atomic_lock *l, void *out, const void *object,
			  size_t size)
{
	unsigned long seen = __atomic_load_n(&l->word, __ATOMIC_SEQ_CST);

	if (seen & 1)
		return false;
	near__copy(out, object, size);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&l->word, __ATOMIC_RELAXED) == seen;
}

/* The words of free locks only grow; with one thread, none becomes less than it was here. So their
 * sum is the same at a second time only if each word is. */
static bool add_words(const struct near__locks *locks, int order, unsigned long *sum)
{
	*sum = 0;
	for (unsigned i = 0; i < locks->count; i++) {
		unsigned long seen =
			order == __ATOMIC_RELAXED
				? __atomic_load_n(&near__nth(locks, i)->word, __ATOMIC_RELAXED)
				: __atomic_load_n(&near__nth(locks, i)->word, __ATOMIC_SEQ_CST);

		if (seen & 1)
			return false;
		*sum += seen;
	}
	return true;
}

static bool load_unlocked(const struct near__section *s, const struct near__locks *locks)
{
	unsigned long before, after;

	if (!add_words(locks, __ATOMIC_SEQ_CST, &before))
		return false;
	near__copy(s->out, s->object, s->size);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return add_words(locks, __ATOMIC_RELAXED, &after) && before == after;
}

/* Writers that contend for an object are fast as long as one keeps its cache line for several
 * operations. A load takes the line away, and the next change of its own thread then fails. So once
 * a writer had to wait, the next loads take the lock as well, and wait as writers do; except those
 * of the last thread that waited, or loaded in this way: it has the line. */
NOINLINE bool load_contended(size_t size, void *object, void *out)
{
	struct near__atomic_lock *l = near__lock_of_line(near__line_of(object));

	if (!near__is_contended(l) && copy_unlocked(l, out, object, size))
		return true;
	return object_perform(NEAR__LOAD, size, object, NULL, out);
}

INLINE bool object_load(size_t size, void *object, const void *unused, void *out)
{
	const struct near__atomic_lock *l = near__lock_of_line(near__line_of(object));

	(void)unused;
	if (size > NEAR__COPY_MAX || NEAR__TSAN_HERE)
		return object_perform(NEAR__LOAD, size, object, NULL, out);
	if (__builtin_expect(__atomic_load_n(&l->contended, __ATOMIC_RELAXED) != 0, 0))
		return load_contended(size, object, out);
	if (__builtin_expect(!copy_unlocked(l, out, object, size), 0))
		return object_perform(NEAR__LOAD, size, object, NULL, out);
	return true;
}

DEFINE_BY_SIZE(object_load)

bool near__locked_load(size_t size, const void *object, void *out)
{
	return object_load_by_size(size, (void *)object, NULL, out);
}

/* ---- all sizes and states of locks ---- */

static void count_load(struct near__atomic_lock *l)
{
	l->loads++;
	if (l->contended)
		near__set_contended(l, (l->contended & NEAR__CONTENDED_MOST) - 1);
}

bool near__atomic_perform(struct near__section *s)
{
	struct near__locks locks;
	bool result;

	near__locks_of(&locks, s->object, s->size);
	if (s->step == NEAR__LOAD && !near__is_contended(near__nth(&locks, 0)) &&
	    load_unlocked(s, &locks))
		return true;
	if (!near__take_all(&locks, near__held_by_me(), s->step != NEAR__LOAD))
		return near__atomic_nested(s, &locks);
	if (s->step == NEAR__LOAD)
		count_load(near__nth(&locks, 0));
	result = run_under(s, &locks);
	near__release_all(&locks);
	return result;
}
