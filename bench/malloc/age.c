/* SPDX-License-Identifier: MIT */
/* fragment: in phases with sizes of their own, a tenth of the blocks outlives the phase; burst:
 * what comes together goes together. Both keep the same amount whatever the number of threads. */
#include "malloc/pattern.h"

#define PHASE 32768 /* blocks that live at the end of a phase, in all threads */
#define PHASES 8    /* that a block of those that stay, stays */
#define BURST 65536 /* blocks, in all threads */

static uint32_t share_of(const struct worker *w, uint32_t all)
{
	return all / w->run->threads ? all / w->run->threads : 1;
}

struct phases {
	void **young, **old; /* old: PHASES times those that outlive a phase */
	uint32_t count, kept;
	unsigned now;
};

static uint32_t phase_size(struct worker *w, unsigned phase)
{
	static const struct {
		uint16_t least, most;
	} sizes[] = {{16, 64},    {100, 300}, {24, 2000}, {48, 48},
		     {500, 1500}, {16, 256},  {32, 4000}};
	size_t i = phase % (sizeof(sizes) / sizeof(sizes[0]));

	return random_between(w, sizes[i].least, sizes[i].most);
}

static void keep_some(struct worker *w, struct phases *p)
{
	void **old = p->old + (size_t)(p->now % PHASES) * p->kept;

	for (uint32_t i = 0; i < p->kept; i++) {
		uint32_t at = random_below(w, p->count);

		block_free(w, old[i]);
		old[i] = p->young[at];
		p->young[at] = NULL;
	}
	for (uint32_t i = 0; i < p->count; i++) {
		block_free(w, p->young[i]);
		p->young[i] = NULL;
	}
}

static void fragment(struct worker *w)
{
	struct phases p = {.count = share_of(w, PHASE)};

	p.kept = p.count / 10 + 1;
	p.young = w_calloc(w, p.count * sizeof(*p.young));
	p.old = w_calloc(w, p.kept * PHASES * sizeof(*p.old));
	for (uint64_t done = 0; done < w->rounds; p.now++) {
		for (uint32_t i = 0; i < 2 * p.count; i++, done++) {
			void **at = &p.young[random_below(w, p.count)];

			block_free(w, *at);
			*at = block_new(w, phase_size(w, p.now));
		}
		if (p.now == 0)
			meet(w);
		keep_some(w, &p);
	}
	meet(w);
	for (uint32_t i = 0; i < p.kept * PHASES; i++)
		block_free(w, p.old[i]);
	w_free(w, p.young);
	w_free(w, p.old);
}

/* Between bursts there is the small change of every day. */
static void burst(struct worker *w)
{
	uint32_t count = share_of(w, BURST);
	void **block = w_malloc(w, count * sizeof(*block));

	for (uint64_t done = 0; done < w->rounds; done += 2 * (uint64_t)count) {
		for (uint32_t i = 0; i < count; i++)
			block[i] = block_new(w, random_between(w, 32, 512));
		if (done == 0)
			meet(w);
		for (uint32_t i = 0; i < count; i++)
			block_free(w, block[i]);
		for (uint32_t i = 0; i < count; i++)
			block_free(w, block_new(w, random_between(w, 16, 64)));
	}
	w_free(w, block);
}

PATTERN(fragment, "fragment", 2000000, fragment);
PATTERN(burst, "burst", 4000000, burst);
