/* SPDX-License-Identifier: MIT */
/* Step 3 of the tutorial: aborts a function that appends to a slow_log at each instruction of its
 * sequence, with competing appends there. */
#ifndef SLOW_TORTURE_H
#define SLOW_TORTURE_H

#include "slow.h"

#include <errno.h>
#include <nearcpu/torture.h>
#include <stdio.h>
#include <stdlib.h>

/* [functions] */
static bool (*append_function)(struct slow_log *log, uint64_t id);
static struct slow_log *tried;
static uint64_t ids[2] = {1000, 1}, appends, sum_of_ids;

static void setup(void *unused)
{
	void *p = NULL;

	(void)unused;
	near_percpu_free(tried);
	if (near_percpu_alloc(sizeof(*tried), 8, &p))
		abort();
	tried = (struct slow_log *)p;
	appends = sum_of_ids = 0;
}

static void run(void *id)
{
	append_function(tried, *(uint64_t *)id);
	appends++;
	sum_of_ids += *(uint64_t *)id;
}

static void add(uint64_t id, void *sum)
{
	*(uint64_t *)sum += id;
}

static const char *check(void *unused)
{
	uint64_t n = 0, sum = 0;

	(void)unused;
	for (unsigned s = 0; near_percpu_next(tried, &s); s++)
		n += ((struct slow_log *)near_percpu_at(tried, s))->n;
	slow_read(tried, add, &sum);
	if (sum != sum_of_ids)
		return "an id is lost, or there twice";
	return n == appends ? NULL : "an entry has no id";
}

/* The copy that the sequences of this thread change. */
static const void *slot(void *unused, size_t *size)
{
	(void)unused;
	*size = sizeof(*tried);
	return near_percpu_at(tried, near_slot());
}
/* [/functions] */

static int slow_torture(bool (*append)(struct slow_log *log, uint64_t id))
{
	static struct near_torture_rival rivals[] = {{"append", run, &ids[1], 0}};
	static struct near_torture t;
	struct near_torture_result result;
	int failures;

	append_function = append;
	t.setup = setup;
	t.run = run;
	t.arg = &ids[0];
	t.check = check;
	t.slot = slot;
	t.rivals = rivals;
	t.n_rivals = 1;
	failures = near_torture(&t, sizeof(t), &result, sizeof(result));
	if (failures < 0) {
		fprintf(stderr, "%s\n", result.text);
		return failures == -ENOSYS ? 77 : 1;
	}
	fprintf(stderr, "%u places, %lu runs, %lu aborts, %d failures\n", result.boundaries,
		result.runs, result.aborts, failures);
	puts(failures ? "wrong" : "proven");
	return failures > 0;
}

#endif
