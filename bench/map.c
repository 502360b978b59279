/* SPDX-License-Identifier: MIT */
/* map: threads that search a hash map and replace objects in it, by near_rcu_map and by what
 * programs use instead. The program, in map/, defines what a row does. */
#include "bench.h"

#define ROW(row, text, whose)                                                                      \
	{                                                                                          \
		.name = row, .label = text, .role = whose                                          \
	}

static const struct bench_row rows[] = {
	/* Its thread-local variables are large. */
	{.name = "urcu",
	 .label = "rculfhash of liburcu",
	 .role = BENCH_PEER,
	 .tunables = "glibc.rtld.optional_static_tls=4096"},
	ROW("ck", "ck_ht, ck_epoch", BENCH_PEER),
	ROW("papaya", "papaya, Rust", BENCH_PEER),
	ROW("mutex", "chains, pthread_mutex", BENCH_PEER),
	ROW("near-rwlock", "chains, near_rwlock", BENCH_PEER),
	ROW("near", "near_rcu_map", BENCH_OURS),
	{.name = "near-off",
	 .label = "near_rcu_map, without rseq",
	 .role = BENCH_OURS,
	 .conf = "rseq:off",
	 .program_row = "near"},
};

/* Two threads. Of throughput, times are the inverse. */
#define OVER(peer, text)                                                                           \
	{                                                                                          \
		"near_rcu_map over " text, "near", peer, .goal = 1, .from = 2, .to = 2             \
	}
static const struct bench_figure figures[] = {
	OVER("urcu", "rculfhash"),
	OVER("ck", "ck_ht"),
	OVER("papaya", "papaya"),
	OVER("mutex", "a mutexed table"),
	OVER("near-rwlock", "a table under near_rwlock"),
};

static const unsigned one_two_eight[] = {1, 2, 8, 0};

#define MAP(which, heading)                                                                        \
	{                                                                                          \
		.name = "map", .part = which, .title = "A hash map, " heading,                     \
		.text = "Threads search for keys in a map of 100,000, each in a section or "       \
			"under the lock, and check the value of what they find; or they replace "  \
			"the object of a key, and free the old one. ",                             \
		.op = "an operation", .kind = BENCH_WAIT, .rows = rows,                            \
		.row_count = BENCH_COUNT(rows), .figures = figures,                                \
		.figure_count = BENCH_COUNT(figures), .against = "mutex",                          \
		.thread_list = one_two_eight, .program = "nearcpu-maps",                           \
		.args = {"--case", which}, .window_ms = 20                                         \
	}

const struct bench bench_map[BENCH_MAP_PARTS] = {
	MAP("uniform-0", "uniform keys, no updates"),
	MAP("uniform-10", "uniform keys, 1 % updates"),
	MAP("uniform-100", "uniform keys, 10 % updates"),
	MAP("zipf-0", "Zipf keys, no updates"),
	MAP("zipf-10", "Zipf keys, 1 % updates"),
	MAP("zipf-100", "Zipf keys, 10 % updates"),
};
