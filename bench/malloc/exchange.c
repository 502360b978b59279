/* SPDX-License-Identifier: MIT */
/* exchange: producers and consumers. Half of the threads allocate, the others free. A round is a
 * batch of blocks, handed on through one bounded queue. */
#include "malloc/pattern.h"

#include <pthread.h>

#define BATCH 256
#define QUEUE 64

struct batch {
	void *block[BATCH];
};

static struct batch *queue[QUEUE];
static unsigned first, count, producers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;

static void batch_put(struct batch *b)
{
	pthread_mutex_lock(&lock);
	while (count == QUEUE)
		pthread_cond_wait(&not_full, &lock);
	queue[(first + count++) % QUEUE] = b;
	pthread_mutex_unlock(&lock);
	pthread_cond_signal(&not_empty);
}

/* NULL: nothing will come any more. */
static struct batch *batch_get(void)
{
	struct batch *b = NULL;

	pthread_mutex_lock(&lock);
	while (!count && producers)
		pthread_cond_wait(&not_empty, &lock);
	if (count) {
		b = queue[first];
		first = (first + 1) % QUEUE;
		count--;
	}
	pthread_mutex_unlock(&lock);
	pthread_cond_signal(&not_full);
	return b;
}

static void produce(struct worker *w)
{
	struct batch *b = w_malloc(w, sizeof(*b));

	for (unsigned i = 0; i < BATCH; i++)
		b->block[i] = block_new(w, random_between(w, 16, 256));
	batch_put(b);
}

static void consume(struct worker *w, struct batch *b)
{
	for (unsigned i = 0; i < BATCH; i++)
		block_free(w, b->block[i]);
	w_free(w, b);
}

static void setup(struct run *run, struct worker *w)
{
	(void)w;
	producers = (run->threads + 1) / 2;
}

static void end_production(void)
{
	pthread_mutex_lock(&lock);
	producers--;
	pthread_mutex_unlock(&lock);
	pthread_cond_broadcast(&not_empty);
}

static uint64_t batches_of(const struct worker *w)
{
	uint64_t makers = (w->run->threads + 1) / 2;

	return w->run->rounds / makers + (w->index / 2 < w->run->rounds % makers);
}

static void exchange_work(struct worker *w)
{
	bool alone = w->run->threads == 1;
	struct batch *b;

	if (w->index % 2 == 0) {
		for (uint64_t i = batches_of(w); i > 0; i--) {
			produce(w);
			if (alone)
				consume(w, batch_get());
		}
		end_production();
		return;
	}
	while ((b = batch_get()))
		consume(w, b);
}

PATTERN(exchange, "exchange", 16000, exchange_work, .setup = setup);
