/* SPDX-License-Identifier: MIT */
/* queue: threads that put and threads that get, by our queues and by what programs use instead. The
 * program, in queue/, defines what a row does. */
#include "bench.h"

#define ROW(row, text, whose)                                                                      \
	{                                                                                          \
		.name = row, .label = text, .role = whose                                          \
	}
#define OFF_ROW(off, row, text)                                                                    \
	{                                                                                          \
		.name = off, .label = text, .role = BENCH_OURS, .conf = "rseq:off",                \
		.program_row = row                                                                 \
	}

static const struct bench_row try_rows[] = {
	ROW("ck", "ck_ring", BENCH_PEER),
	ROW("boost", "boost::lockfree::queue", BENCH_PEER),
	ROW("moodycamel", "moodycamel::ConcurrentQueue", BENCH_PEER),
	ROW("urcu", "cds_wfcq of liburcu", BENCH_PEER),
	ROW("near", "near_queue", BENCH_OURS),
	OFF_ROW("near-off", "near", "near_queue, without rseq"),
	ROW("near-fifo", "near_fifo", BENCH_OURS),
};

static const struct bench_row wait_rows[] = {
	ROW("pthread-wait", "pthread_mutex, 2 pthread_cond", BENCH_PEER),
	ROW("moodycamel-wait", "BlockingConcurrentQueue", BENCH_PEER),
	ROW("near-wait", "near_queue", BENCH_OURS),
	OFF_ROW("near-wait-off", "near-wait", "near_queue, without rseq"),
	ROW("near-fifo-wait", "near_fifo", BENCH_OURS),
};

/* Two threads that put and two that get. Of throughput, times are the inverse. */
#define OVER(peer, text)                                                                           \
	{"near_queue over " text, "near", peer, .goal = 1 / 1.5, .from = 4, .to = 4},              \
	{                                                                                          \
		"p99.9 from hand to hand, near_queue over " text, "near", peer,                    \
			.measure = BENCH_P999, .goal = 1, .from = 4, .to = 4                       \
	}

static const struct bench_figure try_figures[] = {
	OVER("ck", "ck_ring"),
	OVER("boost", "boost"),
	OVER("moodycamel", "moodycamel"),
};

static const struct bench_figure wait_figures[] = {
	{"near_queue over a pthread_mutex", "near-wait", "pthread-wait", .goal = 1 / 1.5, .from = 4,
	 .to = 4},
	{"near_fifo over a pthread_mutex", "near-fifo-wait", "pthread-wait", .goal = 1, .from = 4,
	 .to = 4},
};

static const unsigned pairs[] = {2, 4, 8, 16, 0};

#define QUEUE(which, heading, sentence, all, bounds, whose, ...)                                   \
	{                                                                                          \
		.name = "queue", .part = which, .title = "Queue, " heading,                        \
		.text = "Half of the threads put, the other half get; the queue has room for "     \
			"1,024 elements. " sentence                                                \
			" The percentiles are those of the time from the begin of a put to the "   \
			"end of the get of its element. ",                                         \
		.op = "a put or a get", .kind = BENCH_WAIT, .rows = all,                           \
		.row_count = BENCH_COUNT(all), .figures = bounds,                                  \
		.figure_count = BENCH_COUNT(bounds), .against = whose, .thread_list = pairs,       \
		.program = "nearcpu-queues", __VA_ARGS__                                           \
	}

const struct bench bench_queue_try =
	QUEUE("try", "without waiting",
	      "A thread that finds it full or empty yields the CPU, and tries again.", try_rows,
	      try_figures, "ck");
const struct bench bench_queue_wait =
	QUEUE("wait", "with waiting",
	      "A thread that finds it full or empty sleeps; puts of moodycamel's yield.", wait_rows,
	      wait_figures, "pthread-wait");
