/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-parking: pairs of threads that wake each other by turns, each thread on an
 * address of its own, next to threads that sleep on others: what a lock of all sleepers costs
 * unrelated threads. One queue with one lock is what OpenBSD had until 2024,
 * 64 of them what it has since. */
#include "locks/window.h"

#include <nearcpu/lock.h>
#include <nearcpu/park.h>

#include <linux/futex.h>
#include <sys/syscall.h>

#define MAX_THREADS 9216

/* ---- ways to sleep while a word has a value, and to wake a sleeper ---- */

static long futex(uint32_t *word, int op, uint32_t value)
{
	return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static uint32_t word_load(uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static void futex_sleep(uint32_t *word, uint32_t value) { futex(word, FUTEX_WAIT_PRIVATE, value); }
static void futex_wake(uint32_t *word) { futex(word, FUTEX_WAKE_PRIVATE, 1); }

struct still {
	uint32_t *word, value;
};

static bool is_still(void *arg)
{
	struct still *s = arg;

	return word_load(s->word) == s->value;
}

static void near_sleep(uint32_t *word, uint32_t value)
{
	struct still s = {word, value};
	struct near_park how = {.validate = is_still, .arg = &s};

	near_park(word, &how);
}

static void near_wake(uint32_t *word) { near_unpark(word, 1, 0); }

/* Queues of waiters, each with a lock; as near_park without what it can do besides. */
struct waiter {
	struct waiter *next;
	uint32_t *word, woken;
};

static struct queue {
	struct near_lock lock __attribute__((aligned(64)));
	struct waiter *first;
} queues[64];

static void queue_sleep(struct queue *q, uint32_t *word, uint32_t value)
{
	struct waiter w = {NULL, word, 0}, **at = &q->first;

	near_lock_lock(&q->lock);
	if (word_load(word) != value) {
		near_lock_unlock(&q->lock);
		return;
	}
	while (*at)
		at = &(*at)->next;
	*at = &w;
	near_lock_unlock(&q->lock);
	while (!word_load(&w.woken))
		futex(&w.woken, FUTEX_WAIT_PRIVATE, 0);
}

static void queue_wake(struct queue *q, uint32_t *word)
{
	struct waiter **at = &q->first, *w;
	uint32_t *woken = NULL;

	near_lock_lock(&q->lock);
	while (*at && (*at)->word != word)
		at = &(*at)->next;
	w = *at;
	if (w) {
		*at = w->next;
		woken = &w->woken;
	}
	near_lock_unlock(&q->lock);
	if (woken) {
		__atomic_store_n(woken, 1, __ATOMIC_RELEASE);
		futex(woken, FUTEX_WAKE_PRIVATE, 1);
	}
}

static void one_sleep(uint32_t *word, uint32_t value) { queue_sleep(&queues[0], word, value); }
static void one_wake(uint32_t *word) { queue_wake(&queues[0], word); }

static struct queue *queue_of(const uint32_t *word)
{
	uintptr_t ident = (uintptr_t)word >> 3; /* OpenBSD's hash */

	return &queues[(ident ^ ident >> 6) & 63];
}

static void many_sleep(uint32_t *word, uint32_t value) { queue_sleep(queue_of(word), word, value); }
static void many_wake(uint32_t *word) { queue_wake(queue_of(word), word); }

/* ---- threads ---- */

static struct word {
	uint32_t value __attribute__((aligned(LINE)));
} words[MAX_THREADS];

static void prepare(struct window *w)
{
	(void)w;
	for (unsigned i = 0; i < MAX_THREADS; i++)
		words[i].value = 0;
}

/* Of an odd number of threads the last one has nobody: it is its own partner. */
static uint32_t *partner_of(const struct window_thread *t)
{
	uint32_t other = t->index ^ 1;

	return &words[other < t->window->threads ? other : t->index].value;
}

#define SEND(wake, word) (__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST), wake(word))

/* The even one of a pair begins. Each sends before it waits, so that at the end none is left. */
#define PARK_LOOP(name, sleep, wake, BEFORE, AFTER)                                                \
	static void name(struct window_thread *t)                                                  \
	{                                                                                          \
		uint32_t *mine = &words[t->index].value, *other = partner_of(t), seen = 0;         \
                                                                                                   \
		if (t->index % 2 == 0)                                                             \
			SEND(wake, other);                                                         \
		for (; !window_is_over(t->window); seen++) {                                       \
			BEFORE;                                                                    \
			while (word_load(mine) == seen)                                            \
				sleep(mine, seen);                                                 \
			AFTER;                                                                     \
			SEND(wake, other);                                                         \
			t->done++;                                                                 \
		}                                                                                  \
		SEND(wake, other);                                                                 \
	}

#define PARK_ROW(row, label, sleep, wake)                                                          \
	PARK_LOOP(row##_work, sleep, wake, (void)0, (void)0)                                       \
	PARK_LOOP(row##_timed, sleep, wake, uint64_t began = window_ns(), window_note(began))      \
	static void row##_stand_by(struct window_thread *t)                                        \
	{                                                                                          \
		while (word_load(&words[t->index].value) == 0)                                     \
			sleep(&words[t->index].value, 0);                                          \
	}                                                                                          \
	static void row##_end(struct window_thread *t) { SEND(wake, &words[t->index].value); }     \
	static WINDOW_ROW(row, label, prepare, row##_work, row##_timed,                            \
			  .stand_by = row##_stand_by, .end_stand_by = row##_end)

PARK_ROW(futex_row, "futex", futex_sleep, futex_wake)
PARK_ROW(near_row, "near-park", near_sleep, near_wake)
PARK_ROW(many_row, "64-queues", many_sleep, many_wake)
PARK_ROW(one_row, "one-queue", one_sleep, one_wake)

const struct window_row *const window_rows[] = {&one_row, &many_row, &futex_row, &near_row, 0};
