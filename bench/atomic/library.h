/* SPDX-License-Identifier: MIT */
/* library: the functions that compilers call for atomics, of the library that is measured.
 *
 * All libraries are called in the same way, through pointers that are resolved once: the cost of a
 * call is part of every row. Objects of 1, 4, 8 and 16 bytes have functions of their own, others
 * use the generic ones. All orders are sequentially consistent, the default in C. */
#ifndef BENCH_ATOMIC_LIBRARY_H
#define BENCH_ATOMIC_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 uint128;

/* X(bytes, type) */
#define LIBRARY_SIZES(X) X(1, uint8_t) X(4, uint32_t) X(8, uint64_t) X(16, uint128)

#define LIBRARY_SIZED(n, type)                                                                     \
	type (*load_##n)(const void *p, int order);                                                \
	void (*store_##n)(void *p, type value, int order);                                         \
	type (*exchange_##n)(void *p, type value, int order);                                      \
	bool (*cas_##n)(void *p, type *expected, type value, int order, int failed);               \
	type (*add_##n)(void *p, type value, int order);

struct library {
	void (*load)(size_t size, const void *p, void *out, int order);
	void (*store)(size_t size, void *p, const void *value, int order);
	void (*exchange)(size_t size, void *p, const void *value, void *out, int order);
	bool (*cas)(size_t size, void *p, void *expected, const void *value, int order, int failed);
	LIBRARY_SIZES(LIBRARY_SIZED)
};

/* For the libraries that are part of the program: each has functions of these names, with its
 * prefix. */
#define LIBRARY_SIZED_OF(n, prefix)                                                                \
	.load_##n = prefix##_load_##n, .store_##n = prefix##_store_##n,                            \
	.exchange_##n = prefix##_exchange_##n, .cas_##n = prefix##_cas_##n,                        \
	.add_##n = prefix##_add_##n
#define LIBRARY_OF(prefix)                                                                         \
	{                                                                                          \
		.load = prefix##_load, .store = prefix##_store, .exchange = prefix##_exchange,     \
		.cas = prefix##_cas, LIBRARY_SIZED_OF(1, prefix), LIBRARY_SIZED_OF(4, prefix),     \
		LIBRARY_SIZED_OF(8, prefix), LIBRARY_SIZED_OF(16, prefix)                          \
	}

/* Set before threads begin. */
extern struct library library;

/* Load a file. They end the program if there is none. */
void library_take_gcc(void);
void library_take_near(void);

/* spin.c, mutex.c */
extern const struct library library_spin, library_mutex;

/* Makes a mutex for each of `count` objects at a distance of 1 << shift bytes. All addresses within
 * one object map to its mutex. */
void library_set_mutexes(const void *first, unsigned shift, unsigned count);

#endif
