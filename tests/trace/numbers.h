/* SPDX-License-Identifier: MIT */
/* Events with numbers, and which of them files have. */
#ifndef NEARCPU_TESTS_NUMBERS_H
#define NEARCPU_TESTS_NUMBERS_H

#include "traces.h"

NEAR_TRACEPOINT(test, number, NEAR_TRACE_INFO, (u64, value));

#define START(...) traces_start((struct near_trace_options){__VA_ARGS__})

static inline void numbers(uint64_t from, uint64_t n)
{
	for (uint64_t i = from; i < from + n; i++)
		near_trace_test_number(i);
}

/* Which numbers were seen, and how often. */
#define MOST 400000
static unsigned char seen[MOST];
static uint64_t seen_n, twice;

static inline void see(const struct trace_record *r, void *arg)
{
	uint64_t value = r->head[2];

	CHECK(value < MOST);
	twice += seen[value];
	seen_n += !seen[value];
	seen[value] = 1;
}

static inline void forget(void)
{
	memset(seen, 0, sizeof(seen));
	seen_n = twice = 0;
}

static uint64_t lost;

static inline void see_file(const char *path, void *arg)
{
	struct trace_file f = traces_open(path);

	traces_read(&f, see, NULL);
	lost += f.session->discarded;
	traces_close(&f);
}

static inline void see_all(void)
{
	forget();
	lost = 0;
	traces_each_file(see_file, NULL);
}

#endif
