/* SPDX-License-Identifier: MIT */
/* memory: what a thousand domains of near_rcu cost that several threads read in; their handles are
 * not counted. docs/scale.md has the formula. */
#include "bench.h"

#include <nearcpu/rcu.h>
#include <errno.h>

#define DOMAINS 1000

static struct near_rcu *domains;
static uint64_t made;

static int init_domains(void)
{
	int err = 0;

	for (uint64_t i = 0; i < made && !err; i++)
		err = near_rcu_init(&domains[i]);
	return err;
}

static void read_in(uint64_t i)
{
	near_rcu_exit(&domains[i], near_rcu_enter(&domains[i]));
}

static int run_domains(struct bench_run *run, struct bench_sample *out)
{
	made = run->iterations;
	domains = bench_alloc(made, sizeof(*domains));
	return domains ? bench_grow(run, out, init_domains, read_in) : -ENOMEM;
}

static const struct bench_row rows[] = {
	{"near", "near_rcu", BENCH_OURS, .missing = bench_needs_live, .run = run_domains},
	{"near-off", "near_rcu, rseq off", BENCH_OURS, .conf = "rseq:off", .run = run_domains},
};

const struct bench bench_memory_rcu = {
	.name = "memory",
	.part = "rcu",
	.title = "Memory of a thousand RCU domains",
	.text = "Four threads read in each of a thousand domains. Counted is the growth of "
		"resident memory, without the handles. ",
	.op = "a domain",
	.kind = BENCH_MEMORY,
	.rows = rows,
	.row_count = BENCH_COUNT(rows),
	.iterations = DOMAINS,
	.threads = 4,
};
