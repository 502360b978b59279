/* SPDX-License-Identifier: MIT */
/* rows: the loops of nearcpu-maps. Threads search keys, all of which are in the map, and check the
 * value of the object that they find; of some keys they replace the object by a new one from
 * malloc, and free the old one when nobody reads it any more.
 *
 * A row is compiled with its map's own inline functions:
 *
 *     void X_begin(void)               a map with room for KEYS keys; once
 *     void X_begin_thread(void), X_end_thread(void)
 *     bool X_read(uint64_t key)        whether it found value_of(key)
 *     void X_write(uint64_t key)       inserts or replaces
 */
#ifndef BENCH_MAP_ROWS_H
#define BENCH_MAP_ROWS_H

#include "locks/window.h"

#include <stdlib.h>

#define KEYS 100000u /* 1 to KEYS */
#define DRAWS (1u << 17)
#define WRITES ((uint32_t)1 << 31) /* in a draw: the key is to be replaced */

extern const struct window_row row_mutex, row_rwlock, row_near, row_near64;

/* The keys, in the order in which threads take them, each from another place on. */
extern WINDOW_API uint32_t map_draws[DRAWS];

static inline uint64_t value_of(uint64_t key) { return ~key; }

/* The same for all maps: the finalizer of MurmurHash3. */
static inline uint64_t hash_of(uint64_t key)
{
	key = (key ^ key >> 33) * 0xff51afd7ed558ccdu;
	key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53u;
	return key ^ key >> 33;
}

static inline void *map_object(size_t size)
{
	void *p = malloc(size);

	if (!p)
		abort();
	return p;
}

static inline const char *map_check(const struct window *w, const struct window_thread *threads)
{
	for (uint32_t i = 0; i < w->threads; i++)
		if (threads[i].counted)
			return "wrong result: a key was not found, or its value is wrong";
	return 0;
}

#define MAP_LOOP(name, x, BEFORE, AFTER)                                                           \
	static void name(struct window_thread *t)                                                  \
	{                                                                                          \
		struct window *w = t->window;                                                      \
		uint64_t n = t->index * (uint64_t)(DRAWS / 8 + 7), first = n, wrong = 0;           \
                                                                                                   \
		x##_begin_thread();                                                                \
		for (; !window_is_over(w); n++) {                                                  \
			uint32_t draw = map_draws[n % DRAWS];                                      \
                                                                                                   \
			BEFORE;                                                                    \
			if (__builtin_expect(draw & WRITES, 0))                                    \
				x##_write(draw & ~WRITES);                                         \
			else                                                                       \
				wrong += !x##_read(draw);                                          \
			AFTER;                                                                     \
		}                                                                                  \
		x##_end_thread();                                                                  \
		t->done = n - first;                                                               \
		t->counted = wrong;                                                                \
	}

bool map_choose(const char *name);

#define MAP_ROW(row, label, x)                                                                     \
	MAP_LOOP(row##_work, x, (void)0, (void)0)                                                  \
	MAP_LOOP(row##_timed, x, uint64_t began = window_ns(), window_note(began))                 \
	static void row##_init(struct window *w)                                                   \
	{                                                                                          \
		static bool filled;                                                                \
                                                                                                   \
		(void)w;                                                                           \
		if (filled)                                                                        \
			return;                                                                    \
		filled = true;                                                                     \
		x##_begin();                                                                       \
		x##_begin_thread();                                                                \
		for (uint64_t key = 1; key <= KEYS; key++)                                         \
			x##_write(key);                                                            \
		for (uint64_t key = 1; key <= KEYS; key++)                                         \
			if (!x##_read(key))                                                        \
				window_give_up("error", "wrong result: a key was not found");      \
		x##_end_thread();                                                                  \
	}                                                                                          \
	WINDOW_ROW(row, label, row##_init, row##_work, row##_timed, .choose = MAP_CHOOSE,          \
		   .check = map_check)
#ifndef MAP_CHOOSE
#define MAP_CHOOSE map_choose
#endif

#endif
