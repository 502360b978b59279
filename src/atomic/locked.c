/* SPDX-License-Identifier: MIT */
/* Operations under locks. Above, what nearly every call takes: one lock, which is free. Below,
 * the rest. */
#include "locked.h"

#include <sys/mman.h>

#include "ground/die.h"
#include "ground/tsan.h"
#include "locks.h"
#include "section.h"

static inline bool was_helped(const struct near__section *s)
{
	NEAR__BARRIER();
	return __builtin_expect(*(const volatile int *)&s->helped, 0);
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
	near__decide(s, NEAR__NOTHING);
	if (was_helped(s))
		return near__atomic_mend(s, step, locks);
	near__show(locks, NULL);
	return result;
}

/* ---- the rare ends of a change: apart, so that the usual one needs few registers ---- */

#define APART static __attribute__((noinline))
#define ALWAYS static inline __attribute__((always_inline))

APART bool change_slowly(int step, size_t size, void *object, const void *in, void *out)
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

APART bool end_helped(struct near__section *s, int step, const void *in,
		      struct near__atomic_lock *l, unsigned long seen)
{
	struct near__locks locks;
	bool result;

	locks.count = 1;
	locks.list[0] = (uint8_t)(l - near__atomic_table.locks);
	s->in = in;
	result = near__atomic_mend(s, step, &locks);
	if (near__let_go_quietly(l, seen))
		near__atomic_wake(l);
	return result;
}

APART bool end_waited_for(struct near__atomic_lock *l, bool result)
{
	near__atomic_wake(l);
	return result;
}

/* Returns as near__section_do. */
ALWAYS bool change(int step, size_t size, void *object, const void *in, void *out)
{
	struct near__atomic_lock *l = near__lock_of_line(near__line_of(object));
	unsigned long mine = near__held_by_me(), seen;
	char mode = *near__atomic_mode;
	struct near__section s;
	bool result;

	if (size > NEAR__COPY_MAX || __builtin_expect(mode == NEAR__TRACED, 0))
		return change_slowly(step, size, object, in, out);
	near__section_begin(&s, step, size, object, out);
	if (__builtin_expect(!(mode == NEAR__ALONE ? near__try_take_alone(l, mine, &seen)
						   : near__try_take(l, mine, &seen)),
			     0))
		return change_slowly(step, size, object, in, out);
	near__show_one(l, &s);
	result = near__section_run(&s, step, size, object, in, out);
	near__decide(&s, NEAR__NOTHING); /* it has happened, unless it was helped */
	if (was_helped(&s))
		return end_helped(&s, step, in, l, seen);
	near__show_one(l, NULL);
	if (mode == NEAR__ALONE)
		near__let_go_alone(l, seen);
	else if (__builtin_expect(near__let_go_quietly(l, seen), 0))
		return end_waited_for(l, result);
	return result;
}

/* Functions of their own for the sizes of few words: none needs more registers than it is free to
 * use. Defines name_by_size of name(size, object, in, out). */
#define DEFINE_SIZE(name, n)                                                                       \
	APART bool name##_##n(void *object, const void *in, void *out)                             \
	{                                                                                          \
		return name(n, object, in, out);                                                   \
	}
#define DEFINE_BY_SIZE(name)                                                                       \
	DEFINE_SIZE(name, 24)                                                                      \
	DEFINE_SIZE(name, 32)                                                                      \
	DEFINE_SIZE(name, 40)                                                                      \
	DEFINE_SIZE(name, 48)                                                                      \
	DEFINE_SIZE(name, 64)                                                                      \
	APART bool name##_any(size_t size, void *object, const void *in, void *out)                \
	{                                                                                          \
		return name(size, object, in, out);                                                \
	}                                                                                          \
                                                                                                   \
	static inline bool name##_by_size(size_t size, void *object, const void *in, void *out)    \
	{                                                                                          \
		switch (size) {                                                                    \
		case 24:                                                                           \
			return name##_24(object, in, out);                                         \
		case 32:                                                                           \
			return name##_32(object, in, out);                                         \
		case 40:                                                                           \
			return name##_40(object, in, out);                                         \
		case 48:                                                                           \
			return name##_48(object, in, out);                                         \
		case 64:                                                                           \
			return name##_64(object, in, out);                                         \
		default:                                                                           \
			return name##_any(size, object, in, out);                                  \
		}                                                                                  \
	}

/* As long as it is small, what it overwrites is saved, for a handler to put back. */
ALWAYS bool store(size_t size, void *object, const void *in, void *unused)
{
	unsigned char old[NEAR__COPY_MAX];

	(void)unused;
	if (size > NEAR__COPY_MAX)
		return change_slowly(NEAR__WRITE, size, object, in, NULL);
	return change(NEAR__EXCHANGE, size, object, in, old);
}

ALWAYS bool exchange(size_t size, void *object, const void *in, void *out)
{
	return change(NEAR__EXCHANGE, size, object, in, out);
}

ALWAYS bool compare(size_t size, void *object, const void *in, void *expected)
{
	return change(NEAR__COMPARE, size, object, in, expected);
}

DEFINE_BY_SIZE(store)
DEFINE_BY_SIZE(exchange)
DEFINE_BY_SIZE(compare)

bool near__locked_store(size_t size, void *object, const void *in)
{
	return store_by_size(size, object, in, NULL);
}

bool near__locked_compare_exchange(size_t size, void *object, void *expected, const void *in)
{
	return compare_by_size(size, object, in, expected);
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
	exchange_by_size(size, object, copy, value);
	if (copy != small)
		munmap(copy, size);
	return true;
}

bool near__locked_exchange(size_t size, void *object, const void *in, void *out)
{
	if (__builtin_expect(in == out, 0))
		return exchange_in_place(size, object, out);
	return exchange_by_size(size, object, in, out);
}

/* ---- loads ---- */

/* First look, copy, second look: table.h. */
ALWAYS bool read_at_once(const struct near__atomic_lock *l, void *out, const void *object,
			 size_t size)
{
	unsigned long seen = __atomic_load_n(&l->word, __ATOMIC_SEQ_CST);

	if (seen & 1)
		return false;
	near__copy(out, object, size);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&l->word, __ATOMIC_RELAXED) == seen;
}

/* Words only grow while they are free; with one thread, none falls below what it was here. So
 * their sum is the same again only if each is. */
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

ALWAYS bool load(size_t size, void *object, const void *unused, void *out)
{
	const struct near__atomic_lock *l = near__lock_of_line(near__line_of(object));

	(void)unused;
	if (size > NEAR__COPY_MAX || NEAR__TSAN_HERE ||
	    __builtin_expect(__atomic_load_n(&l->crowded, __ATOMIC_RELAXED) != 0, 0) ||
	    __builtin_expect(!read_at_once(l, out, object, size), 0))
		return change_slowly(NEAR__LOAD, size, object, NULL, out);
	return true;
}

DEFINE_BY_SIZE(load)

bool near__locked_load(size_t size, const void *object, void *out)
{
	return load_by_size(size, (void *)object, NULL, out);
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
