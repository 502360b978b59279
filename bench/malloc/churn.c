/* SPDX-License-Identifier: MIT */
/* churn: threads that live for a hundred blocks and leave some behind; idle: a thousand threads
 * that touched a few sizes and then wait. waiting, ended: what is resident when a thousand threads,
 * which began together, have freed all they had, and wait; and after they ended. */
#include "malloc/pattern.h"

#define BLOCKS 100
#define LEFT 10
#define SIZES 10
#define OF_EACH 8
#define WAKES 8

static void live(struct worker *w, void **left)
{
	void *block[BLOCKS];

	for (unsigned i = 0; i < BLOCKS; i++)
		block[i] = block_new(w, random_between(w, 16, 512));
	for (unsigned i = 0; i < LEFT; i++) {
		block_free(w, left[i]);
		left[i] = block[i];
	}
	for (unsigned i = LEFT; i < BLOCKS; i++)
		block_free(w, block[i]);
}

/* What the last thread left, the next one frees. */
struct legacy {
	struct worker worker;
	void *left[LEFT];
};

static void churn_thread(struct worker *w)
{
	struct legacy *l = (struct legacy *)w;

	live(w, l->left);
}

static void churn(struct worker *w)
{
	struct legacy l = {.worker = *w};

	for (uint64_t i = 0; i < w->rounds; i++)
		worker_run(&l.worker, churn_thread);
	*w = l.worker;
	meet(w);
	for (unsigned i = 0; i < LEFT; i++)
		block_free(w, l.left[i]);
}

static void touch_sizes(struct worker *w)
{
	static const uint16_t sizes[SIZES] = {16, 32, 64, 96, 128, 192, 256, 384, 512, 1024};
	void *block[SIZES * OF_EACH];

	for (unsigned b = 0; b < SIZES * OF_EACH; b++)
		block[b] = block_new(w, sizes[b % SIZES]);
	for (unsigned b = 0; b < SIZES * OF_EACH; b++)
		block_free(w, block[b]);
}

/* All do a little, and wait for all. */
static void idle(struct worker *w)
{
	for (unsigned wake = 0; wake < WAKES; wake++) {
		for (uint64_t i = wake; i < w->rounds; i += WAKES)
			touch_sizes(w);
		meet(w);
	}
}

#define FIRST_SIZE 16
#define LARGEST_SIZE 8192
#define HELD 64 /* of each size, together */

static void hold_and_free(struct worker *w)
{
	void *block[HELD];

	meet(w);
	for (size_t n = FIRST_SIZE; n <= LARGEST_SIZE; n *= 2) {
		for (unsigned i = 0; i < HELD; i++)
			block[i] = block_new(w, n);
		for (unsigned i = 0; i < HELD; i++)
			block_free(w, block[i]);
	}
}

/* A round is a millisecond. The first thread measures. */
static void waiting(struct worker *w)
{
	hold_and_free(w);
	meet(w);
	if (w->index == 0) {
		pause_ms(w->rounds);
		note_resident(w->run);
	}
	meet(w);
}

static void ended(struct worker *w)
{
	hold_and_free(w);
	if (w->index == 0)
		w->run->pause_ms = w->rounds;
}

PATTERN(churn, "churn", 12000, churn);
PATTERN(idle, "idle", 24000, idle);
PATTERN(waiting, "waiting", 3000000, waiting, .at_end = true);
PATTERN(ended, "ended", 3000000, ended, .at_end = true);
