/* SPDX-License-Identifier: MIT */
/* The operations on objects of any size: by one instruction if the object is a word; else on the
 * aligned word of 4, 8 or 16 bytes that contains it; else under locks. Compilers have built-in
 * functions of these names, so the functions have other names here. */
#include "atomic/locked.h"
#include "atomic/wide_word.h"
#include "base/tsan.h"

#include "atomic/copy.h"

#define NAMED(name) __asm__(#name) __attribute__((visibility("default")))
#define NOINLINE static __attribute__((noinline))
#define INLINE static inline __attribute__((always_inline))

typedef uint8_t __attribute__((may_alias)) word1;

#define ALIGNED(p, n) (((uintptr_t)(p) & ((n)-1)) == 0)
#define AT(type, p) ((type __attribute__((may_alias)) *)(p))

void near__any_load(size_t n, const void *p, void *out, int order) NAMED(__atomic_load);
void near__any_store(size_t n, void *p, const void *in, int order) NAMED(__atomic_store);
void near__any_exchange(size_t n, void *p, const void *in, void *out, int order)
	NAMED(__atomic_exchange);
bool near__any_compare_exchange(size_t n, void *p, void *expected, const void *in, int success,
				int failure) NAMED(__atomic_compare_exchange);
bool near__any_is_lock_free(size_t n, const void *p) NAMED(__atomic_is_lock_free);

/* ---- words that are not the whole object: each operation is a function of its own, never inlined,
 * as it takes more registers than those for words ---- */

enum operation { LOAD, STORE, EXCHANGE, COMPARE };

/* Returns whether a comparison found the two equal; true for the others. */
#define DEFINE_CONTAINED(name)                                                                     \
	INLINE bool in_##name(enum operation operation, size_t n, void *p, const void *in,         \
			      void *out)                                                           \
	{                                                                                          \
		if (operation == COMPARE)                                                          \
			return near__##name##_compare_exchange(n, p, out, in);                     \
		if (operation == LOAD)                                                             \
			near__##name##_load(n, p, out);                                            \
		else                                                                               \
			near__##name##_exchange(n, p, in, operation == STORE ? NULL : out);        \
		return true;                                                                       \
	}

DEFINE_CONTAINED(word4)
DEFINE_CONTAINED(word8)
#if NEAR__HAS_WIDE
DEFINE_CONTAINED(word16)
#endif

INLINE bool under_locks(enum operation operation, size_t n, void *p, const void *in, void *out)
{
	switch (operation) {
	case LOAD:
		return near__locked_load(n, p, out);
	case STORE:
		return near__locked_store(n, p, in);
	case EXCHANGE:
		return near__locked_exchange(n, p, in, out);
	default:
		return near__locked_compare_exchange(n, p, out, in);
	}
}

INLINE bool object_contained(enum operation operation, size_t n, void *p, const void *in, void *out)
{
	if (near__within(p, n, 4))
		return in_word4(operation, n, p, in, out);
	if (near__within(p, n, 8))
		return in_word8(operation, n, p, in, out);
#if NEAR__HAS_WIDE
	if (near__within(p, n, 16) && near__wide_mode() != NEAR__WIDE_LOCKS)
		return in_word16(operation, n, p, in, out);
#endif
	return under_locks(operation, n, p, in, out);
}

/* Defines name_contained for all objects that are not exact words. The compiler notifies
 * ThreadSanitizer of operations on exact words (clang not of those of 16 bytes), name_traced of the
 * others. */
#define DEFINE_SLOW(name, operation)                                                               \
	NOINLINE bool name##_untraced(size_t n, void *p, const void *in, void *out)                \
	{                                                                                          \
		return object_contained(operation, n, p, in, out);                                 \
	}                                                                                          \
                                                                                                   \
	NOINLINE bool name##_traced(size_t n, void *p, const void *in, void *out)                  \
	{                                                                                          \
		bool result;                                                                       \
                                                                                                   \
		NEAR__TSAN_RELEASE(p);                                                             \
		result = name##_untraced(n, p, in, out);                                           \
		NEAR__TSAN_ACQUIRE(p);                                                             \
		return result;                                                                     \
	}                                                                                          \
                                                                                                   \
	NOINLINE bool name##_contained(size_t n, void *p, const void *in, void *out)               \
	{                                                                                          \
		if (n == 0)                                                                        \
			return true;                                                               \
		return NEAR__TSAN_HERE ? name##_traced(n, p, in, out)                              \
				       : name##_untraced(n, p, in, out);                           \
	}

DEFINE_SLOW(load, LOAD)
DEFINE_SLOW(store, STORE)
DEFINE_SLOW(exchange, EXCHANGE)
DEFINE_SLOW(compare, COMPARE)

/* ---- exact words ---- */

#if NEAR__HAS_WIDE
#define IF_WIDE(p, action)                                                                         \
	if (ALIGNED(p, 16)) {                                                                      \
		int mode = near__wide_mode_if_known();                                             \
                                                                                                   \
		if (mode > NEAR__WIDE_LOCKS)                                                       \
			action(mode);                                                              \
	}

/* By words, like near__copy_words. */
INLINE near__wide get_wide(const void *p)
{
	const near__word8 *word = p;

	return near__halves(word[0], word[1]);
}

INLINE void put_wide(void *p, near__wide value)
{
	near__word8 *word = p;

	word[0] = (uint64_t)value;
	word[1] = (uint64_t)(value >> 64);
}
#else
#define IF_WIDE(p, action)
#endif

/* For words that an instruction changes, `action` ends the function, or `wide`, whose argument is
 * the implementation of 16 bytes on this CPU. While that is not known, 16 bytes are handled as a
 * part of a word: a call here would cost all operations. */
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

/* Loads and exchanges are sequentially consistent for all orders: this costs next to nothing. */
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

void near__any_load(size_t n, const void *p, void *out, int order)
{
	(void)order;
	if (n > 16) {
		near__locked_load(n, p, out);
		return;
	}
	EXACT(n, p, LOAD_EXACT, LOAD_WIDE)
	load_contained(n, (void *)p, NULL, out);
}

#define STORE_EXACT(type, word)                                                                    \
	{                                                                                          \
		if (near__is_sc(order))                                                            \
			__atomic_store_n(AT(type, p), *(const word *)in, __ATOMIC_SEQ_CST);        \
		else                                                                               \
			__atomic_store_n(AT(type, p), *(const word *)in, __ATOMIC_RELEASE);        \
		return;                                                                            \
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
	store_contained(n, p, in, NULL);
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

void near__any_exchange(size_t n, void *p, const void *in, void *out, int order)
{
	(void)order;
	if (n > 16) {
		near__locked_exchange(n, p, in, out);
		return;
	}
	EXACT(n, p, EXCHANGE_EXACT, EXCHANGE_WIDE)
	exchange_contained(n, p, in, out);
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

bool near__any_compare_exchange(size_t n, void *p, void *expected, const void *in, int success,
				int failure)
{
	(void)success, (void)failure;
	if (n > 16)
		return near__locked_compare_exchange(n, p, expected, in);
	EXACT(n, p, COMPARE_EXACT, COMPARE_WIDE)
	return compare_contained(n, p, in, expected);
}

/* True if the answer is the same on every CPU of this kind: within 8 aligned bytes. A null address
 * stands for an object that is aligned as its size requires. 16 bytes are false, although most CPUs
 * need no lock for them, since on some a load writes; GCC's library returns the same. */
bool near__any_is_lock_free(size_t n, const void *p)
{
	return n <= 8 && near__within(p, n, 8);
}
