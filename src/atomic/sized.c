/* SPDX-License-Identifier: MIT */
/* The functions for objects of 1, 2, 4 and 8 bytes. */
#include "atomic/sized.h"

#define NARROW(n, type)                                                                            \
	static inline type near__read_##n(const volatile void *p)                                  \
	{                                                                                          \
		return __atomic_load_n((const type *)p, __ATOMIC_SEQ_CST);                         \
	}                                                                                          \
	static inline type near__guess_##n(const volatile void *p)                                 \
	{                                                                                          \
		return __atomic_load_n((const type *)p, __ATOMIC_RELAXED);                         \
	}                                                                                          \
	static inline void near__write_##n(volatile void *p, type value, int order)                \
	{                                                                                          \
		(void)order;                                                                       \
		__atomic_store_n((type *)p, value, __ATOMIC_SEQ_CST);                              \
	}                                                                                          \
	static inline bool near__cas_##n(volatile void *p, void *expected, type value)             \
	{                                                                                          \
		return near__word4_compare_exchange(n, (void *)p, expected, &value);               \
	}                                                                                          \
	NEAR__LOOP(n, type)

#if NEAR__NARROWEST == 1
NEAR__NATIVE(1, uint8_t)
NEAR__NATIVE(2, uint16_t)
#else
NARROW(1, uint8_t)
NARROW(2, uint16_t)
#endif
NEAR__NATIVE(4, uint32_t)
NEAR__NATIVE(8, uint64_t)
