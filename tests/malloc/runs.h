/* SPDX-License-Identifier: MIT */
/* runs: runs of pages whose content is checked, and which must not overlap. */
#ifndef NEARCPU_TESTS_MALLOC_RUNS_H
#define NEARCPU_TESTS_MALLOC_RUNS_H

#include "malloc/pages/pages.h"
#include "malloc/pages/node.h"
#include "use.h"

#define ALL TB /* bytes to purge */

struct run {
	uint32_t first, count;
	bool written;
};

/* Each test has these. Is notified that the pages from number `from` of the run on are taken, or
 * that the run was freed, and checks that this can be. */
static void run_note(const struct run *r, uint32_t from, bool taken);
/* Whether all pages of a run are written, or only the first and the last. */
static const bool run_is_filled;

static struct run runs[400];
static uint64_t seed = 7;

static uint64_t *run_page(const struct run *r, uint32_t page)
{
	return near__page_at(r->first + page);
}

static uint32_t run_next(const struct run *r, uint32_t page)
{
	return run_is_filled || page + 1 == r->count ? page + 1 : r->count - 1;
}

/* Memory that is reported as zero is zero. */
static void run_check_zero(const struct run *r)
{
	for (uint32_t page = 0; page < r->count; page = run_next(r, page))
		for (size_t i = 0; i < NEAR__PAGE / 8; i += 64)
			CHECK(run_page(r, page)[i] == 0);
}

static void run_write(struct run *r)
{
	for (uint32_t page = 0; page < r->count; page = run_next(r, page))
		*run_page(r, page) = (uint64_t)r->first << 32 | page;
	r->written = true;
}

static void run_check(const struct run *r)
{
	for (uint32_t page = 0; r->written && page < r->count; page = run_next(r, page))
		CHECK(*run_page(r, page) == ((uint64_t)r->first << 32 | page));
}

static bool run_take(struct run *r, unsigned node, uint32_t count, uint32_t align)
{
	const struct near__extent *e;
	bool zero = false;

	*r = (struct run){.first = near__pages_alloc(node, count, align, &zero)};
	if (r->first == NEAR__NONE)
		return false;
	r->count = count;
	CHECK((uintptr_t)near__page_at(r->first) % (align * NEAR__PAGE) == 0);
	e = near__extent_of(r->first);
	CHECK(e && e->first <= r->first && r->first + count <= e->top && e->top <= e->end);
	run_note(r, 0, true);
	if (zero)
		run_check_zero(r);
	/* Sometimes it is freed without having been written. */
	if (!zero || unit_random(&seed) % 4)
		run_write(r);
	return true;
}

static void run_drop(struct run *r)
{
	run_check(r);
	run_note(r, 0, false);
	near__pages_free(r->first, r->count, r->written);
	r->count = 0;
}

static void run_grow(struct run *r, uint32_t wanted)
{
	struct run had = *r;

	if (!near__pages_grow(r->first, r->count, wanted))
		return;
	r->count = wanted;
	run_note(r, had.count, true);
	run_check(&had);
	run_write(r);
}

/* Runs of at most `most` pages on all nodes concurrently; returns the statistics at the end. */
static struct near__pages_stats runs_churn(unsigned times, unsigned nodes, uint32_t most)
{
	struct near__pages_stats before, after;

	near__pages_stats(&before);
	while (times--) {
		struct run *r = &runs[unit_random(&seed) % LENGTH(runs)];
		unsigned what = unit_random(&seed) % 100;
		uint32_t count = 1 + unit_random(&seed) % most;
		uint32_t align = what % 4 ? 1 : UINT32_C(1) << what % 13;

		if (what == 0)
			near__pages_purge(0, ALL);
		else if (!r->count)
			run_take(r, unit_random(&seed) % nodes, count, align);
		else if (what < 30)
			run_grow(r, r->count + count);
		else
			run_drop(r);
	}
	for (unsigned i = 0; i < LENGTH(runs); i++)
		if (runs[i].count)
			run_drop(&runs[i]);
	near__pages_stats(&after);
	CHECK(after.top - after.free == before.top - before.free);
	return after;
}

#endif
