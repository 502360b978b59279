/* SPDX-License-Identifier: MIT */
/* queue: threads that put and threads that get, by our queues and by what programs use instead. The
 * program, in queue/, defines what a row does. */
#include "bench.h"

static const struct bench_row try_rows[] = {
	BENCH_ROW("ck", "ck_ring", BENCH_PEER),
	BENCH_ROW("boost", "boost::lockfree::queue", BENCH_PEER),
	BENCH_ROW("moodycamel", "moodycamel::ConcurrentQueue", BENCH_PEER),
	BENCH_ROW("urcu", "cds_wfcq of liburcu", BENCH_PEER),
	BENCH_ROW("near", "near_queue", BENCH_OURS),
	BENCH_ROW("near-off", "near_queue, without rseq", BENCH_OFF, .program_row = "near"),
	BENCH_ROW("near-fifo", "near_fifo", BENCH_OURS),
};

static const struct bench_row wait_rows[] = {
	BENCH_ROW("pthread-wait", "pthread_mutex, 2 pthread_cond", BENCH_PEER),
	BENCH_ROW("moodycamel-wait", "BlockingConcurrentQueue", BENCH_PEER),
	BENCH_ROW("near-wait", "near_queue", BENCH_OURS),
	BENCH_ROW("near-wait-off", "near_queue, without rseq", BENCH_OFF,
		  .program_row = "near-wait"),
	BENCH_ROW("near-fifo-wait", "near_fifo", BENCH_OURS),
};

/* Two threads that put and two that get. Of throughput, times are the inverse. */
#define OVER(peer, text)                                                                           \
	BENCH_BOUND("near_queue over " text, "near", peer, 1 / 1.5, .from = 4, .to = 4),           \
		BENCH_BOUND("p99.9 from hand to hand, near_queue over " text, "near", peer, 1,     \
			    .measure = BENCH_P999, .from = 4, .to = 4)

static const unsigned pairs[] = {2, 4, 8, 16, 0};

#define QUEUE(which, heading, sentence, all, bounds, whose, ...)                                   \
	BENCH_TABLE("queue", which, "Queue, " heading, "a put or a get",                           \
		    "Half of the threads put, the other half get; the queue has room for "         \
		    "1,024 elements. " sentence                                                    \
		    " The percentiles are those of the time from the begin of a put to the "       \
		    "end of the get of its element. ",                                             \
		    all, bounds, .kind = BENCH_WAIT, .against = whose, .thread_list = pairs,       \
		    .program = "nearcpu-queues", __VA_ARGS__)

const struct bench bench_queue_try =
	QUEUE("try", "without waiting",
	      "A thread that finds it full or empty yields the CPU, and tries again.", try_rows,
	      BENCH_FIGURES(OVER("ck", "ck_ring"), OVER("boost", "boost"),
			    OVER("moodycamel", "moodycamel")),
	      "ck");
const struct bench bench_queue_wait =
	QUEUE("wait", "with waiting",
	      "A thread that finds it full or empty sleeps; puts of moodycamel's yield.", wait_rows,
	      BENCH_FIGURES({"near_queue over a pthread_mutex", "near-wait", "pthread-wait",
			     .goal = 1 / 1.5, .from = 4, .to = 4},
			    {"near_fifo over a pthread_mutex", "near-fifo-wait", "pthread-wait",
			     .goal = 1, .from = 4, .to = 4}),
	      "pthread-wait");
