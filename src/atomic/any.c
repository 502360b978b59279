/* SPDX-License-Identifier: MIT */
/* The operations for objects of any size: by one instruction where the object is a word; else on
 * the aligned word that contains it, of 4, 8 or 16 bytes; else under locks. Compilers know
 * functions of these names themselves, hence the others here. */
#include "ground/tsan.h"
#include "locked.h"
#include "wide_word.h"

#include "copy.h"

#define NAMED(name) __asm__(#name) __attribute__((visibility("default")))

typedef uint8_t __attribute__((may_alias)) word1;

#define ALIGNED(p, n) (((uintptr_t)(p) & ((n)-1)) == 0)
#define AT(type, p) ((type __attribute__((may_alias)) *)(p))

#if NEAR__HAS_WIDE
#define IF_WIDE(p, action)                                                                         \
	if (ALIGNED(p, 16)) {                                                                      \
		int mode = near__wide_mode_if_known();                                             \
                                                                                                   \
		if (mode > NEAR__WIDE_LOCKS)                                                       \
			action(mode);                                                              \
	}
#else
#define IF_WIDE(p, action)
#endif

/* Exact words that instructions change: then `action` ends the function, or `wide`, whose argument
 * is how this CPU does 16 bytes. While that is not known, they go on as words that contain the
 * object: no call here, which would cost all of them. */
#define EXACT(n, p, action, wide)                                                                  \
	switch (n) {                                                                               \
	case 1:                                                                                    \
		if (NEAR__NARROWEST <= 1)                                                          \
			action(uint8_t, word1);                                                    \
		break;                                                                             \
	case 2:                                                                                    \
		if (NEAR__NARROWEST <= 2 && ALIGNED(p, 2))                                         \
			action(uint16_t, near__word2);                                             \
		break;                                                                             \
	case 4:                                                                                    \
		if (ALIGNED(p, 4))                                                                 \
			action(uint32_t, near__word4);                                             \
		break;                                                                             \
	case 8:                                                                                    \
		if (ALIGNED(p, 8))                                                                 \
			action(uint64_t, near__word8);                                             \
		break;                                                                             \
	case 16:                                                                                   \
		IF_WIDE(p, wide)                                                                   \
		break;                                                                             \
	}

/* Else the smallest word that contains it: `action` ends the function. Apart from the exact
 * words, and never inlined: it takes more registers. The compiler tells ThreadSanitizer of exact
 * words (clang not of those of 16 bytes); of the others it is told here. */
#define APART static __attribute__((noinline))
#define CONTAINED(n, p, action)                                                                    \
	if (near__within(p, n, 4))                                                                 \
		action(word4);                                                                     \
	if (near__within(p, n, 8))                                                                 \
		action(word8);                                                                     \
	CONTAINED_WIDE(n, p, action)

#if NEAR__HAS_WIDE
#define CONTAINED_WIDE(n, p, action)                                                               \
	if (near__within(p, n, 16) && near__wide_mode() != NEAR__WIDE_LOCKS)                       \
		action(word16);
#else
#define CONTAINED_WIDE(n, p, action)
#endif

void near__any_load(size_t n, const void *p, void *out, int order) NAMED(__atomic_load);
void near__any_store(size_t n, void *p, const void *in, int order) NAMED(__atomic_store);
void near__any_exchange(size_t n, void *p, const void *in, void *out, int order)
	NAMED(__atomic_exchange);
bool near__any_compare_exchange(size_t n, void *p, void *expected, const void *in, int success,
				int failure) NAMED(__atomic_compare_exchange);
bool near__any_is_lock_free(size_t n, const void *p) NAMED(__atomic_is_lock_free);

#if NEAR__HAS_WIDE
/* By words, like near__copy_words. */
static inline near__wide get_wide(const void *p)
{
	const near__word8 *word = p;

	return near__halves(word[0], word[1]);
}

static inline void put_wide(void *p, near__wide value)
{
	near__word8 *word = p;

	word[0] = (uint64_t)value;
	word[1] = (uint64_t)(value >> 64);
}
#endif

/* Orders: a load is sequentially consistent always, which costs next to nothing, so are
 * exchanges. */
#define LOAD_EXACT(type, word)                                                                     \
	{                                                                                          \
		*(word *)out = __atomic_load_n(AT(const type, p), __ATOMIC_SEQ_CST);               \
		return;                                                                            \
	}
#define LOAD_WIDE(mode)                                                                            \
	{                                                                                          \
		put_wide(out, near__wide_load(mode, p));                                           \
		return;                                                                            \
	}
#define LOAD_CONTAINED(name)                                                                       \
	{                                                                                          \
		near__##name##_load(n, p, out);                                                    \
		return;                                                                            \
	}

APART void load_contained(size_t n, const void *p, void *out)
{
	CONTAINED(n, p, LOAD_CONTAINED)
	near__locked_load(n, p, out);
}

APART void load_told(size_t n, const void *p, void *out)
{
	NEAR__TSAN_RELEASE((void *)p);
	load_contained(n, p, out);
	NEAR__TSAN_ACQUIRE((void *)p);
}

APART void load_odd(size_t n, const void *p, void *out)
{
	if (n == 0)
		return;
	if (NEAR__TSAN_HERE)
		load_told(n, p, out);
	else
		load_contained(n, p, out);
}

void near__any_load(size_t n, const void *p, void *out, int order)
{
	(void)order;
	if (n > 16) {
		near__locked_load(n, p, out);
		return;
	}
	EXACT(n, p, LOAD_EXACT, LOAD_WIDE)
	load_odd(n, p, out);
}

#define STORE_EXACT(type, word)                                                                    \
	{                                                                                          \
		if (near__is_sc(order))                                                            \
			__atomic_store_n(AT(type, p), *(const word *)in, __ATOMIC_SEQ_CST);        \
		else                                                                               \
			__atomic_store_n(AT(type, p), *(const word *)in, __ATOMIC_RELEASE);        \
		return;                                                                            \
	}
#define STORE_CONTAINED(name)                                                                      \
	{                                                                                          \
		near__##name##_exchange(n, p, in, NULL);                                           \
		return;                                                                            \
	}

APART void store_contained(size_t n, void *p, const void *in)
{
	CONTAINED(n, p, STORE_CONTAINED)
	near__locked_store(n, p, in);
}

APART void store_told(size_t n, void *p, const void *in)
{
	NEAR__TSAN_RELEASE(p);
	store_contained(n, p, in);
	NEAR__TSAN_ACQUIRE(p);
}

APART void store_odd(size_t n, void *p, const void *in)
{
	if (n == 0)
		return;
	if (NEAR__TSAN_HERE)
		store_told(n, p, in);
	else
		store_contained(n, p, in);
}

#define STORE_WIDE(mode)                                                                           \
	{                                                                                          \
		near__wide_store(mode, p, get_wide(in), near__is_sc(order));                       \
		return;                                                                            \
	}

void near__any_store(size_t n, void *p, const void *in, int order)
{
	if (n > 16) {
		near__locked_store(n, p, in);
		return;
	}
	EXACT(n, p, STORE_EXACT, STORE_WIDE)
	store_odd(n, p, in);
}

#define EXCHANGE_EXACT(type, word)                                                                 \
	{                                                                                          \
		*(word *)out =                                                                     \
			__atomic_exchange_n(AT(type, p), *(const word *)in, __ATOMIC_SEQ_CST);     \
		return;                                                                            \
	}
#define EXCHANGE_WIDE(mode)                                                                        \
	{                                                                                          \
		near__wide value = get_wide(in), seen = near__wide_guess(p);                       \
                                                                                                   \
		while (!near__wide_cas(mode, p, &seen, value))                                     \
			;                                                                          \
		put_wide(out, seen);                                                               \
		return;                                                                            \
	}
#define EXCHANGE_CONTAINED(name)                                                                   \
	{                                                                                          \
		near__##name##_exchange(n, p, in, out);                                            \
		return;                                                                            \
	}

APART void exchange_contained(size_t n, void *p, const void *in, void *out)
{
	CONTAINED(n, p, EXCHANGE_CONTAINED)
	near__locked_exchange(n, p, in, out);
}

APART void exchange_told(size_t n, void *p, const void *in, void *out)
{
	NEAR__TSAN_RELEASE(p);
	exchange_contained(n, p, in, out);
	NEAR__TSAN_ACQUIRE(p);
}

APART void exchange_odd(size_t n, void *p, const void *in, void *out)
{
	if (n == 0)
		return;
	if (NEAR__TSAN_HERE)
		exchange_told(n, p, in, out);
	else
		exchange_contained(n, p, in, out);
}

void near__any_exchange(size_t n, void *p, const void *in, void *out, int order)
{
	(void)order;
	if (n > 16) {
		near__locked_exchange(n, p, in, out);
		return;
	}
	EXACT(n, p, EXCHANGE_EXACT, EXCHANGE_WIDE)
	exchange_odd(n, p, in, out);
}

#define COMPARE_EXACT(type, word)                                                                  \
	{                                                                                          \
		type seen = *(word *)expected;                                                     \
                                                                                                   \
		if (NEAR__NATIVE_CAS(AT(type, p), &seen, *(const word *)in))                       \
			return true;                                                               \
		*(word *)expected = seen;                                                          \
		return false;                                                                      \
	}
#define COMPARE_WIDE(mode)                                                                         \
	{                                                                                          \
		near__wide seen = get_wide(expected);                                              \
                                                                                                   \
		if (near__wide_cas(mode, p, &seen, get_wide(in)))                                  \
			return true;                                                               \
		put_wide(expected, seen);                                                          \
		return false;                                                                      \
	}
#define COMPARE_CONTAINED(name) return near__##name##_compare_exchange(n, p, expected, in)

APART bool compare_contained(size_t n, void *p, void *expected, const void *in)
{
	CONTAINED(n, p, COMPARE_CONTAINED)
	return near__locked_compare_exchange(n, p, expected, in);
}

APART bool compare_told(size_t n, void *p, void *expected, const void *in)
{
	bool done;

	NEAR__TSAN_RELEASE(p);
	done = compare_contained(n, p, expected, in);
	NEAR__TSAN_ACQUIRE(p);
	return done;
}

APART bool compare_odd(size_t n, void *p, void *expected, const void *in)
{
	if (n == 0)
		return true;
	return NEAR__TSAN_HERE ? compare_told(n, p, expected, in)
			       : compare_contained(n, p, expected, in);
}

bool near__any_compare_exchange(size_t n, void *p, void *expected, const void *in, int success,
				int failure)
{
	(void)success, (void)failure;
	if (n > 16)
		return near__locked_compare_exchange(n, p, expected, in);
	EXACT(n, p, COMPARE_EXACT, COMPARE_WIDE)
	return compare_odd(n, p, expected, in);
}

/* True where every CPU of this kind says so: within 8 aligned bytes. No object: one that is
 * aligned as its size asks for. 16 bytes are false, although most CPUs need no lock for them, as
 * for some a load writes; so is the answer of GCC's library. */
bool near__any_is_lock_free(size_t n, const void *p)
{
	return n <= 8 && near__within(p, n, 8);
}
