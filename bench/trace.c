/* SPDX-License-Identifier: MIT */
/* trace: events, by near_trace and by what programs use instead, with different clocks and
 * payloads. trace_latency.c has single events, and trace/ the libraries. */
#include "bench.h"
#include "trace.h"

static int setup(struct bench_run *run)
{
	(void)run;
	return trace_impl->init ? trace_impl->init() : 0;
}

/* In a table for one number of threads. */
static int setup_one(struct bench_run *run)
{
	run->threads = 1;
	return setup(run);
}

static int setup_two(struct bench_run *run)
{
	run->threads = 2;
	return setup(run);
}

static void work_number(struct bench_thread *t)
{
	trace_impl->number(t->iterations);
}

static void work_words(struct bench_thread *t)
{
	trace_impl->words(t->iterations);
}

static void work_string(struct bench_thread *t)
{
	trace_impl->string(t->iterations);
}

static const char *check(struct bench_run *run)
{
	return trace_impl->check ? trace_impl->check(run->done) : NULL;
}

#define ROW_OF(work_with, begin, id, row, text, whose, ...)                                        \
	{                                                                                          \
		.name = row, .label = text, .role = whose, .missing = trace_choose_##id,           \
		.setup = begin, .work = work_with, .check = check, __VA_ARGS__                     \
	}
#define ROW(...) ROW_OF(work_number, setup, __VA_ARGS__)
#define WORDS(...) ROW_OF(work_words, setup, __VA_ARGS__)
#define STRING(...) ROW_OF(work_string, setup, __VA_ARGS__)

#define PARTS(part_, title_, text_, rows_, figures_, ...)                                          \
	{                                                                                          \
		.name = "trace", .part = part_, .title = title_, .text = text_, .op = "an event",  \
		.rows = rows_, .row_count = BENCH_COUNT(rows_), .figures = figures_,               \
		.figure_count = BENCH_COUNT(figures_), __VA_ARGS__                                 \
	}

static const struct bench_row counter_rows[] = {
	ROW(cmpxchg, "cmpxchg", "getcpu, cmpxchg, xadd", BENCH_PEER),
	ROW(lttng, "lttng", "LTTng-UST, its own clock", BENCH_PEER, .tunables = TRACE_TLS),
	ROW(lttng_counter, "lttng-counter", "LTTng-UST, the counter", BENCH_PEER,
	    .tunables = TRACE_TLS),
	ROW(near, "near", "near_trace", BENCH_OURS),
	ROW(near, "near-off", "near_trace, rseq off", BENCH_OURS, .conf = "rseq:off"),
	ROW(clocks, "clock", "the counter alone", BENCH_YARDSTICK),
};
static const struct bench_figure counter_figures[] = {
	{"an event, in bare clock reads", "near", "clock", .goal = 1.5},
	{"against LTTng-UST", "near", "lttng", .goal = 1.0 / 6},
};

static const struct bench_row monotonic_rows[] = {
	ROW(fprintf, "fprintf", "a line by fprintf", BENCH_PEER),
	ROW(spdlog, "spdlog", "spdlog, asynchronous", BENCH_PEER),
	ROW(cmpxchg_monotonic, "cmpxchg", "getcpu, cmpxchg, xadd", BENCH_PEER),
	ROW(lttng, "lttng", "LTTng-UST", BENCH_PEER, .tunables = TRACE_TLS),
	ROW(lttng_thread, "lttng-thread", "LTTng-UST, with thread id", BENCH_PEER,
	    .tunables = TRACE_TLS),
	ROW(near_monotonic, "near", "near_trace", BENCH_OURS),
	ROW(near_monotonic, "near-off", "near_trace, rseq off", BENCH_OURS, .conf = "rseq:off"),
	ROW(gettimes, "clock", "clock_gettime alone", BENCH_YARDSTICK),
};
static const struct bench_figure monotonic_figures[] = {
	{"against LTTng-UST", "near", "lttng", .goal = 1 / 2.5},
};

static const struct bench_row none_rows[] = {
	ROW(cmpxchg_none, "cmpxchg", "getcpu, cmpxchg, xadd", BENCH_PEER),
	ROW(near_none, "near", "near_trace", BENCH_OURS),
	ROW(near_none, "near-off", "near_trace, rseq off", BENCH_OURS, .conf = "rseq:off"),
	ROW(adds, "counter", "a nearcpu counter alone", BENCH_YARDSTICK),
};
static const struct bench_figure none_figures[] = {
	{"an event, in adds to a counter", "near", "counter", .goal = 4},
};

static const struct bench_row disabled_rows[] = {
	ROW(lttng_disabled, "lttng", "LTTng-UST", BENCH_PEER, .tunables = TRACE_TLS),
	ROW(near_disabled, "near", "near_trace", BENCH_OURS),
	ROW(nothing, "nothing", "the loop alone", BENCH_YARDSTICK),
};
static const struct bench_figure disabled_figures[] = {
	{"a tracepoint that is off", "near", .goal = .5},
};

static const struct bench_row words_rows[] = {
	WORDS(fprintf, "fprintf", "a line by fprintf", BENCH_PEER),
	WORDS(spdlog, "spdlog", "spdlog, asynchronous", BENCH_PEER),
	WORDS(lttng, "lttng", "LTTng-UST", BENCH_PEER, .tunables = TRACE_TLS),
	WORDS(near_words, "near", "near_trace", BENCH_OURS),
	ROW(near, "near-32", "near_trace, 32 bits", BENCH_YARDSTICK),
};
static const struct bench_figure words_figures[] = {
	{"64 bytes against 32 bits", "near", "near-32", .goal = 1.8},
};

static const struct bench_row string_rows[] = {
	STRING(fprintf, "fprintf", "a line by fprintf", BENCH_PEER),
	STRING(spdlog, "spdlog", "spdlog, asynchronous", BENCH_PEER),
	STRING(lttng, "lttng", "LTTng-UST", BENCH_PEER, .tunables = TRACE_TLS),
	STRING(near_string, "near", "near_trace", BENCH_OURS),
	ROW(near, "near-32", "near_trace, 32 bits", BENCH_YARDSTICK),
};

#define ONE(...) ROW_OF(work_number, setup_one, __VA_ARGS__)
#define TWO(...) ROW_OF(work_number, setup_two, __VA_ARGS__)

static const struct bench_row threads_rows[] = {
	ONE(lttng, "lttng-1", "LTTng-UST, 1 thread", BENCH_PEER, .tunables = TRACE_TLS),
	TWO(lttng, "lttng-2", "LTTng-UST, 2 threads", BENCH_PEER, .tunables = TRACE_TLS),
	ONE(near, "near-1", "near_trace, 1 thread", BENCH_OURS),
	TWO(near, "near-2", "near_trace, 2 threads", BENCH_OURS),
};
static const struct bench_figure threads_figures[] = {
	{"2 threads against 1", "near-2", "near-1", .goal = 1.1},
};

#define NUMBER                                                                                     \
	"An event has a number of 32 bits; near_trace's also have the thread and the CPU, "        \
	"LTTng's the CPU alone. All rings have 1 MiB and overwrite. "
#define RINGS                                                                                      \
	"In the row with compare-exchange a ring of the CPU has its space reserved and is "        \
	"committed by an atomic add. "
#define LINES                                                                                      \
	"fprintf writes to one file in memory, from its beginning again now and then. spdlog's "   \
	"queue overwrites, too, and the CPU time of the thread that formats is not counted. "

const struct bench bench_trace[BENCH_TRACE_PARTS] = {
	PARTS("counter", "Events with the CPU's counter", NUMBER RINGS, counter_rows,
	      counter_figures),
	PARTS("monotonic", "Events with CLOCK_MONOTONIC", NUMBER RINGS LINES, monotonic_rows,
	      monotonic_figures),
	PARTS("none", "Events without a time", NUMBER RINGS, none_rows, none_figures),
	PARTS("disabled", "Tracepoints that are off", "A tracepoint is off. ", disabled_rows,
	      disabled_figures),
	PARTS("words", "Events with 64 bytes",
	      "An event has eight numbers of 64 bits, and the time: near_trace's by the CPU's "
	      "counter. " LINES,
	      words_rows, words_figures),
	{.name = "trace",
	 .part = "string",
	 .title = "Events with a string",
	 .text = "An event has a string of 32 bytes, and the time: near_trace's by the CPU's "
		 "counter. " LINES,
	 .op = "an event",
	 .rows = string_rows,
	 .row_count = BENCH_COUNT(string_rows)},
	PARTS("threads", "Events of 1 and 2 threads", NUMBER, threads_rows, threads_figures,
	      .threads = 1, .fixed_threads = true),
};
