/* SPDX-License-Identifier: MIT */
/* map: threads that search a hash map and replace objects in it, by near_rcu_map and by what
 * programs use instead. The program, in map/, defines what a row does. */
#include "bench.h"

static const struct bench_row rows[] = {
	/* Its thread-local variables are large. */
	BENCH_ROW("urcu", "rculfhash of liburcu", BENCH_PEER,
		  .tunables = "glibc.rtld.optional_static_tls=4096"),
	BENCH_ROW("ck", "ck_ht, ck_epoch", BENCH_PEER),
	BENCH_ROW("papaya", "papaya, Rust", BENCH_PEER),
	BENCH_ROW("mutex", "chains, pthread_mutex", BENCH_PEER),
	BENCH_ROW("near-rwlock", "chains, near_rwlock", BENCH_PEER),
	BENCH_ROW("near", "near_rcu_map", BENCH_OURS),
	BENCH_ROW("near64", "near_rcu_map64", BENCH_OURS),
	BENCH_ROW("near-off", "near_rcu_map, without rseq", BENCH_OFF, .program_row = "near"),
	BENCH_ROW("near64-off", "near_rcu_map64, without rseq", BENCH_OFF, .program_row = "near64"),
};

/* Two threads. Of throughput, times are the inverse. */
#define OVER(peer, text)                                                                           \
	{                                                                                          \
		"near_rcu_map over " text, "near", peer, .goal = 1, .from = 2, .to = 2             \
	}
#define OVER64(peer, text)                                                                         \
	{                                                                                          \
		"near_rcu_map64 over " text, "near64", peer, .goal = 1, .from = 2, .to = 2         \
	}
static const struct bench_figure figures[] = {
	OVER("urcu", "rculfhash"),
	OVER("ck", "ck_ht"),
	OVER("papaya", "papaya"),
	OVER("mutex", "a mutexed table"),
	OVER("near-rwlock", "a table under near_rwlock"),
	OVER64("near", "near_rcu_map"),
	OVER64("papaya", "papaya"),
};

static const unsigned one_two_eight[] = {1, 2, 8, 0};

#define MAP(which, heading)                                                                        \
	BENCH_TABLE("map", which, "A hash map, " heading, "an operation",                          \
		    "Threads search for keys in a map of 100,000, each in a section or "           \
		    "under the lock, and check the value of what they find; or they replace "      \
		    "the object of a key, and free the old one. ",                                 \
		    rows, BENCH_BOUNDS(figures), .kind = BENCH_WAIT, .against = "mutex",           \
		    .thread_list = one_two_eight, .program = "nearcpu-maps",                       \
		    .args = {"--case", which}, .window_ms = 20)

const struct bench bench_map[BENCH_MAP_PARTS] = {
	MAP("uniform-0", "uniform keys, no updates"),
	MAP("uniform-10", "uniform keys, 1 % updates"),
	MAP("uniform-100", "uniform keys, 10 % updates"),
	MAP("zipf-0", "Zipf keys, no updates"),
	MAP("zipf-10", "Zipf keys, 1 % updates"),
	MAP("zipf-100", "Zipf keys, 10 % updates"),
};
