/* SPDX-License-Identifier: MIT */
/* Proves the sequence of near_seq(7): aborts it at each instruction, with others in between. */
#include "sequence.h"

#include <errno.h>
#include <nearcpu/torture.h>
#include <stdio.h>
#include <stdlib.h>

static void *peak;
static uint64_t reported[3] = {5, 3, 9}, highest;

static void setup(void *arg)
{
	(void)arg;
	near_percpu_free(peak);
	if (near_percpu_alloc(sizeof(uint64_t), sizeof(uint64_t), &peak))
		abort();
	highest = 0;
}

static void report(void *value)
{
	uint64_t n = *(uint64_t *)value;

	highest = n > highest ? n : highest;
	peak_raise((uint64_t *)peak, n);
}

static const char *check(void *arg)
{
	uint64_t found = 0, *copy;

	for (unsigned s = 0; near_percpu_next(peak, &s); s++) {
		copy = (uint64_t *)near_percpu_at(peak, s);
		found = *copy > found ? *copy : found;
	}
	(void)arg;
	return found == highest ? NULL : "the highest value is lost";
}

int main(void)
{
	static struct near_torture_rival rivals[] = {{"lower", report, &reported[1], 0},
						     {"higher", report, &reported[2], 0}};
	static struct near_torture t;
	struct near_torture_result result;
	int failures;

	t.setup = setup;
	t.run = report;
	t.arg = &reported[0];
	t.check = check;
	t.rivals = rivals;
	t.n_rivals = 2;
	failures = near_torture(&t, sizeof(t), &result, sizeof(result));
	puts(failures ? result.text : "proven");
	return failures == -ENOSYS ? 77 : failures != 0;
}
