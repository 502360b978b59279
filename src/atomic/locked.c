/* SPDX-License-Identifier: MIT */
/* Operations under locks. Above, what nearly every call takes: one lock, which is free. Below,
 * the rest. */
#include "locked.h"

#include <sys/mman.h>

#include "../die.h"
#include "../tsan.h"
#include "locks.h"
#include "section.h"

static inline bool was_helped(const struct near__section *s)
{
	NEAR__BARRIER();
	return __builtin_expect(*(const volatile int *)&s->helped, 0);
}

static __attribute__((noinline)) bool mend_one(struct near__section *s,
					       const struct near__atomic_lock *l)
{
	struct near__locks locks;

	locks.count = 1;
	locks.list[0] = (uint8_t)(l - near__atomic_table.locks);
	return near__atomic_mend(s, &locks);
}

/* The section of one lock that is held: returns as near__section_do. */
static inline __attribute__((always_inline)) bool do_with(struct near__section *s,
							  struct near__atomic_lock *l, int step,
							  size_t size, void *object, const void *in,
							  void *out)
{
	bool result;

	NEAR__BARRIER();
	*(struct near__section *volatile *)&l->section = s;
	NEAR__BARRIER();
	result = near__section_run(s, step, size, object, in, out);
	if (was_helped(s))
		result = mend_one(s, l);
	NEAR__BARRIER();
	*(struct near__section *volatile *)&l->section = NULL;
	NEAR__BARRIER();
	return result;
}

static bool do_under(struct near__section *s, const struct near__locks *locks)
{
	int step = s->step;
	bool result;

	/* All its locks show the section before it can be helped, and until it no longer can. */
	s->step = NEAR__NOTHING;
	near__show(locks, s);
	near__decide(s, step);
	result = near__section_do(s, step);
	if (was_helped(s)) {
		result = near__atomic_mend(s, locks);
	} else {
		near__decide(s, NEAR__NOTHING);
		near__show(locks, NULL);
		/* Between the two looks: nothing is left to mend. */
		if (was_helped(s))
			near__atomic_drop_kept(s);
	}
	return result;
}

static __attribute__((noinline)) bool change_traced(struct near__section *s)
{
	bool result;

	NEAR__TSAN_RELEASE(s->object);
	result = near__atomic_perform(s);
	NEAR__TSAN_ACQUIRE(s->object);
	return result;
}

/* Returns as near__section_do. */
static inline __attribute__((always_inline)) bool change(int step, size_t size, void *object,
							 const void *in, void *out)
{
	struct near__atomic_lock *l = near__lock_of_line(near__line_of(object));
	unsigned long mine = near__held_by_me(), seen;
	char mode = *near__atomic_mode;
	struct near__section s;
	bool result;

	near__section_begin(&s, step, size, object, in, out);
	if (size > NEAR__COPY_MAX)
		return mode == NEAR__TRACED ? change_traced(&s) : near__atomic_perform(&s);
	if (mode == NEAR__SHARED) {
		if (__builtin_expect(!near__try_take(l, mine, &seen), 0))
			return near__atomic_perform(&s);
		result = do_with(&s, l, step, size, object, in, out);
		near__let_go(l, seen);
	} else if (mode == NEAR__ALONE) {
		if (__builtin_expect(!near__try_take_alone(l, mine, &seen), 0))
			return near__atomic_perform(&s);
		result = do_with(&s, l, step, size, object, in, out);
		near__let_go_alone(l, seen);
	} else {
		result = change_traced(&s);
	}
	return result;
}

/* The sizes of few words each have code of their own. */
#define BY_SIZE(size, call)                                                                        \
	switch (size) {                                                                            \
	case 24:                                                                                   \
		return call(24);                                                                   \
	case 32:                                                                                   \
		return call(32);                                                                   \
	case 40:                                                                                   \
		return call(40);                                                                   \
	case 48:                                                                                   \
		return call(48);                                                                   \
	case 64:                                                                                   \
		return call(64);                                                                   \
	default:                                                                                   \
		return call(size);                                                                 \
	}

bool near__locked_store(size_t size, void *object, const void *in)
{
#define STORE(n) change(NEAR__WRITE, n, object, in, NULL)
	BY_SIZE(size, STORE)
}

bool near__locked_compare_exchange(size_t size, void *object, void *expected, const void *in)
{
#define COMPARE(n) change(NEAR__COMPARE, n, object, in, expected)
	BY_SIZE(size, COMPARE)
}

/* The new value is read while the old one is written. So one of them goes elsewhere before. */
static bool exchange_in_place(size_t size, void *object, void *value)
{
	unsigned char small[NEAR__COPY_MAX], *copy = small;

	if (size > sizeof(small)) {
		copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (copy == MAP_FAILED)
			near__die("libatomic: no memory for an exchange in place");
	}
	near__copy(copy, value, size);
	change(NEAR__EXCHANGE, size, object, copy, value);
	if (copy != small)
		munmap(copy, size);
	return true;
}

bool near__locked_exchange(size_t size, void *object, const void *in, void *out)
{
	if (__builtin_expect(in == out, 0))
		return exchange_in_place(size, object, out);
#define EXCHANGE(n) change(NEAR__EXCHANGE, n, object, in, out)
	BY_SIZE(size, EXCHANGE)
}

/* ---- loads ---- */

/* First look, copy, second look: table.h. */
static inline __attribute__((always_inline)) bool
read_at_once(const struct near__atomic_lock *l, void *out, const void *object, size_t size)
{
	unsigned long seen = __atomic_load_n(&l->word, __ATOMIC_SEQ_CST);

	if (seen & 1)
		return false;
	near__copy(out, object, size);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&l->word, __ATOMIC_RELAXED) == seen;
}

/* Words only grow while they are free. So their sum is the same again only if each is. */
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

static bool read_unlocked(const struct near__section *s, const struct near__locks *locks)
{
	unsigned long before, after;

	if (!add_words(locks, __ATOMIC_SEQ_CST, &before))
		return false;
	near__copy(s->out, s->object, s->size);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return add_words(locks, __ATOMIC_RELAXED, &after) && before == after;
}

/* Writers that contend for an object make progress by staying with it for a while; a load that
 * takes its line away from them at any moment ends that, and its own thread's next change fails.
 * So, once a writer had to wait, the next loads take the lock as well, and wait as writers do. */
static bool is_crowded(const struct near__locks *locks)
{
	return __atomic_load_n(&near__nth(locks, 0)->crowded, __ATOMIC_RELAXED) != 0;
}

static __attribute__((noinline)) bool load_slow(size_t size, const void *object, void *out)
{
	struct near__section s;

	near__section_begin(&s, NEAR__LOAD, size, (void *)object, NULL, out);
	return NEAR__TSAN_HERE ? change_traced(&s) : near__atomic_perform(&s);
}

static inline __attribute__((always_inline)) bool load(size_t size, const void *object, void *out)
{
	const struct near__atomic_lock *l = near__lock_of_line(near__line_of(object));

	if (__builtin_expect(__atomic_load_n(&l->crowded, __ATOMIC_RELAXED) != 0, 0) ||
	    __builtin_expect(!read_at_once(l, out, object, size), 0))
		return load_slow(size, object, out);
	return true;
}

bool near__locked_load(size_t size, const void *object, void *out)
{
#define LOAD(n) load(n, object, out)
	if (size > NEAR__COPY_MAX || NEAR__TSAN_HERE)
		return load_slow(size, object, out);
	BY_SIZE(size, LOAD)
}

/* ---- whatever it takes ---- */

static void count_read(struct near__atomic_lock *l)
{
	l->read++;
	if (l->crowded)
		__atomic_store_n(&l->crowded, l->crowded - 1, __ATOMIC_RELAXED);
}

bool near__atomic_perform(struct near__section *s)
{
	struct near__locks locks;
	bool result;

	near__locks_of(&locks, s->object, s->size);
	if (s->step == NEAR__LOAD && !is_crowded(&locks) && read_unlocked(s, &locks))
		return true;
	if (!near__take_all(&locks, near__held_by_me(), s->step != NEAR__LOAD))
		return near__atomic_help(s, &locks);
	if (s->step == NEAR__LOAD)
		count_read(near__nth(&locks, 0));
	result = do_under(s, &locks);
	near__let_go_all(&locks);
	return result;
}
