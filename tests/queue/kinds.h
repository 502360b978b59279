/* SPDX-License-Identifier: MIT */
/* near_queue and near_fifo as one type, for the tests of what is the same for both. Elements are
 * numbers. */
#ifndef NEARCPU_TESTS_KINDS_H
#define NEARCPU_TESTS_KINDS_H

#include <nearcpu/fifo.h>
#include <nearcpu/queue.h>

#include "unit.h"

struct queue_kind {
	const char *name;
	bool is_fifo;
	int (*init)(void *q, size_t capacity);
	void (*destroy)(void *q);
	int (*try_put)(void *q, void *e);
	int (*try_get)(void *q, void **e);
	int (*put)(void *q, void *e);
	int (*get)(void *q, void **e);
	int (*put_until)(void *q, void *e, int clock, const struct timespec *deadline,
			 struct near_cancel *cancel);
	int (*get_until)(void *q, void **e, int clock, const struct timespec *deadline,
			 struct near_cancel *cancel);
	long (*try_put_many)(void *q, void *const *e, size_t n);
	long (*try_get_many)(void *q, void **e, size_t n);
	long (*get_many_until)(void *q, void **e, size_t n, int clock,
			       const struct timespec *deadline, struct near_cancel *cancel);
	int (*get_or_arm)(void *q, void **e, struct near_watch *watch);
	void (*done)(void *q, size_t n);
	void (*join)(void *q);
	int (*join_until)(void *q, int clock, const struct timespec *deadline,
			  struct near_cancel *cancel);
	void (*close)(void *q);
	size_t (*count)(void *q);
};

#define UNTIL_PARAMETERS int clock, const struct timespec *deadline, struct near_cancel *cancel
#define QUEUE_KIND(type, the_init, the_destroy, the_try_put, the_try_get, the_put, the_get,        \
		   the_put_until, the_get_until, the_try_put_many, the_try_get_many,               \
		   the_get_many_until, the_get_or_arm, the_done, the_join, the_join_until,         \
		   the_close, the_count)                                                           \
	static int type##_init(void *q, size_t n)                                                  \
	{                                                                                          \
		return the_init(q, n);                                                             \
	}                                                                                          \
	static void type##_destroy(void *q)                                                        \
	{                                                                                          \
		the_destroy(q);                                                                    \
	}                                                                                          \
	static int type##_try_put(void *q, void *e)                                                \
	{                                                                                          \
		return the_try_put(q, e);                                                          \
	}                                                                                          \
	static int type##_try_get(void *q, void **e)                                               \
	{                                                                                          \
		return the_try_get(q, e);                                                          \
	}                                                                                          \
	static int type##_put(void *q, void *e)                                                    \
	{                                                                                          \
		return the_put(q, e);                                                              \
	}                                                                                          \
	static int type##_get(void *q, void **e)                                                   \
	{                                                                                          \
		return the_get(q, e);                                                              \
	}                                                                                          \
	static int type##_put_until(void *q, void *e, UNTIL_PARAMETERS)                            \
	{                                                                                          \
		return the_put_until(q, e, clock, deadline, cancel);                               \
	}                                                                                          \
	static int type##_get_until(void *q, void **e, UNTIL_PARAMETERS)                           \
	{                                                                                          \
		return the_get_until(q, e, clock, deadline, cancel);                               \
	}                                                                                          \
	static long type##_try_put_many(void *q, void *const *e, size_t n)                         \
	{                                                                                          \
		return the_try_put_many(q, e, n);                                                  \
	}                                                                                          \
	static long type##_try_get_many(void *q, void **e, size_t n)                               \
	{                                                                                          \
		return the_try_get_many(q, e, n);                                                  \
	}                                                                                          \
	static long type##_get_many_until(void *q, void **e, size_t n, UNTIL_PARAMETERS)           \
	{                                                                                          \
		return the_get_many_until(q, e, n, clock, deadline, cancel);                       \
	}                                                                                          \
	static int type##_get_or_arm(void *q, void **e, struct near_watch *watch)                  \
	{                                                                                          \
		return the_get_or_arm(q, e, watch);                                                \
	}                                                                                          \
	static void type##_done(void *q, size_t n)                                                 \
	{                                                                                          \
		the_done(q, n);                                                                    \
	}                                                                                          \
	static void type##_join(void *q)                                                           \
	{                                                                                          \
		the_join(q);                                                                       \
	}                                                                                          \
	static int type##_join_until(void *q, UNTIL_PARAMETERS)                                    \
	{                                                                                          \
		return the_join_until(q, clock, deadline, cancel);                                 \
	}                                                                                          \
	static void type##_close(void *q)                                                          \
	{                                                                                          \
		the_close(q);                                                                      \
	}                                                                                          \
	static size_t type##_count(void *q)                                                        \
	{                                                                                          \
		return the_count(q);                                                               \
	}                                                                                          \
	static const struct queue_kind kind_##type = {                                             \
		#type,                                                                             \
		sizeof(#type) == sizeof("fifo"),                                                   \
		type##_init,                                                                       \
		type##_destroy,                                                                    \
		type##_try_put,                                                                    \
		type##_try_get,                                                                    \
		type##_put,                                                                        \
		type##_get,                                                                        \
		type##_put_until,                                                                  \
		type##_get_until,                                                                  \
		type##_try_put_many,                                                               \
		type##_try_get_many,                                                               \
		type##_get_many_until,                                                             \
		type##_get_or_arm,                                                                 \
		type##_done,                                                                       \
		type##_join,                                                                       \
		type##_join_until,                                                                 \
		type##_close,                                                                      \
		type##_count,                                                                      \
	}

QUEUE_KIND(queue, near_queue_init, near_queue_destroy, near_queue_try_put, near_queue_try_get,
	   near_queue_put, near_queue_get, near_queue_put_until, near_queue_get_until,
	   near_queue_try_put_many, near_queue_try_get_many, near_queue_get_many_until,
	   near_queue_get_or_arm, near_queue_done, near_queue_join, near_queue_join_until,
	   near_queue_close, near_queue_count);
QUEUE_KIND(fifo, near_fifo_init, near_fifo_destroy, near_fifo_try_put, near_fifo_try_get,
	   near_fifo_put, near_fifo_get, near_fifo_put_until, near_fifo_get_until,
	   near_fifo_try_put_many, near_fifo_try_get_many, near_fifo_get_many_until,
	   near_fifo_get_or_arm, near_fifo_done, near_fifo_join, near_fifo_join_until,
	   near_fifo_close, near_fifo_count);

static const struct queue_kind *const queue_kinds[] = {&kind_queue, &kind_fifo};

union any_queue {
	struct near_queue queue;
	struct near_fifo fifo;
};

static inline void *element(uintptr_t n)
{
	return (void *)n;
}

#endif
