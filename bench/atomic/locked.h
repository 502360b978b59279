/* SPDX-License-Identifier: MIT */
/* locked: the functions of a library that guards objects by locks. The file that includes this
 * defines:
 *
 * NAME(f)           the name of function f in the library
 * LOCK              the type of a lock
 * lock_of(p)        the lock of the object at p
 * take(l)           takes it
 * release(l)        releases it
 * IS_FREE(type, p)  whether the object needs no lock, as one instruction changes it
 */
#include "atomic/library.h"

#include <string.h>

static inline void locked_load(size_t size, const void *p, void *out)
{
	LOCK *lock = lock_of(p);

	take(lock);
	memcpy(out, p, size);
	release(lock);
}

static inline void locked_store(size_t size, void *p, const void *value)
{
	LOCK *lock = lock_of(p);

	take(lock);
	memcpy(p, value, size);
	release(lock);
}

static inline void locked_exchange(size_t size, void *p, const void *value, void *out)
{
	LOCK *lock = lock_of(p);

	take(lock);
	memcpy(out, p, size);
	memcpy(p, value, size);
	release(lock);
}

static inline bool locked_cas(size_t size, void *p, void *expected, const void *value)
{
	LOCK *lock = lock_of(p);
	bool same;

	take(lock);
	same = memcmp(p, expected, size) == 0;
	if (same)
		memcpy(p, value, size);
	else
		memcpy(expected, p, size);
	release(lock);
	return same;
}

/* The functions of the library. They ignore the memory order. */
#define LOCKED_READS(n, type)                                                                      \
	static type NAME(load_##n)(const void *p, __attribute__((unused)) int order)               \
	{                                                                                          \
		type value;                                                                        \
                                                                                                   \
		if (IS_FREE(type, p))                                                              \
			return __atomic_load_n((const type *)p, __ATOMIC_SEQ_CST);                 \
		locked_load(n, p, &value);                                                         \
		return value;                                                                      \
	}

#define LOCKED_WRITES(n, type)                                                                     \
	static void NAME(store_##n)(void *p, type value, __attribute__((unused)) int order)        \
	{                                                                                          \
		if (IS_FREE(type, p))                                                              \
			__atomic_store_n((type *)p, value, __ATOMIC_SEQ_CST);                      \
		else                                                                               \
			locked_store(n, p, &value);                                                \
	}                                                                                          \
	static type NAME(exchange_##n)(void *p, type value, __attribute__((unused)) int order)     \
	{                                                                                          \
		type old;                                                                          \
                                                                                                   \
		if (IS_FREE(type, p))                                                              \
			return __atomic_exchange_n((type *)p, value, __ATOMIC_SEQ_CST);            \
		locked_exchange(n, p, &value, &old);                                               \
		return old;                                                                        \
	}

#define LOCKED_CHANGES(n, type)                                                                    \
	static bool NAME(cas_##n)(void *p, type *expected, type value,                             \
				  __attribute__((unused)) int order,                               \
				  __attribute__((unused)) int failed)                              \
	{                                                                                          \
		if (IS_FREE(type, p))                                                              \
			return __atomic_compare_exchange_n((type *)p, expected, value, false,      \
							   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);    \
		return locked_cas(n, p, expected, &value);                                         \
	}                                                                                          \
	static type NAME(add_##n)(void *p, type value, __attribute__((unused)) int order)          \
	{                                                                                          \
		LOCK *lock = lock_of(p);                                                           \
		type old, sum;                                                                     \
                                                                                                   \
		if (IS_FREE(type, p))                                                              \
			return __atomic_fetch_add((type *)p, value, __ATOMIC_SEQ_CST);             \
		take(lock);                                                                        \
		memcpy(&old, p, n);                                                                \
		sum = (type)(old + value);                                                         \
		memcpy(p, &sum, n);                                                                \
		release(lock);                                                                     \
		return old;                                                                        \
	}

LIBRARY_SIZES(LOCKED_READS)
LIBRARY_SIZES(LOCKED_WRITES)
LIBRARY_SIZES(LOCKED_CHANGES)

/* A generic call for an object that needs no lock, and whose size has functions of its own, calls
 * these. */

#define FREE(n, type, ...)                                                                         \
	if (size == (n) && IS_FREE(type, p)) {                                                     \
		type one;                                                                          \
                                                                                                   \
		__VA_ARGS__;                                                                       \
	}
#define LOAD_FREE(n, type)                                                                         \
	FREE(n, type, one = NAME(load_##n)(p, order); memcpy(out, &one, n); return )
#define STORE_FREE(n, type)                                                                        \
	FREE(n, type, memcpy(&one, value, n); NAME(store_##n)(p, one, order); return )
#define EXCHANGE_FREE(n, type)                                                                     \
	FREE(n, type, memcpy(&one, value, n); one = NAME(exchange_##n)(p, one, order);             \
	     memcpy(out, &one, n); return )
#define CAS_FREE(n, type)                                                                          \
	FREE(n, type, memcpy(&one, value, n); return NAME(cas_##n)(p, expected, one, order, failed))

static void NAME(load)(size_t size, const void *p, void *out, int order)
{
	(void)order;
	LIBRARY_SIZES(LOAD_FREE)
	locked_load(size, p, out);
}

static void NAME(store)(size_t size, void *p, const void *value, int order)
{
	(void)order;
	LIBRARY_SIZES(STORE_FREE)
	locked_store(size, p, value);
}

static void NAME(exchange)(size_t size, void *p, const void *value, void *out, int order)
{
	(void)order;
	LIBRARY_SIZES(EXCHANGE_FREE)
	locked_exchange(size, p, value, out);
}

static bool NAME(cas)(size_t size, void *p, void *expected, const void *value, int order,
		      int failed)
{
	(void)order;
	(void)failed;
	LIBRARY_SIZES(CAS_FREE)
	return locked_cas(size, p, expected, value);
}
