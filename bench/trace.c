/* SPDX-License-Identifier: MIT */
/* trace: events, by near_trace and by what programs use instead, with different clocks and
 * payloads; and the choice of a row's implementation, in this program or in a module next to it.
 * trace_latency.c has single events, and trace/ the libraries. */
#include "bench.h"
#include "trace.h"

#include <stdlib.h>

const struct trace_impl *trace_impl;

static bool trace_find(const struct trace_impl *const *impls, const char *name)
{
	for (; *impls; impls++)
		if (strcmp((*impls)->name, name) == 0) {
			trace_impl = *impls;
			return true;
		}
	return false;
}

static const char *trace_load(const char *file, const char *name, const char *missing)
{
	void *impls = symbol_beside(file, "near_bench_trace_impls");

	return impls && trace_find(impls, name) ? NULL : missing;
}

#define NO_LTTNG "not installed: ./dev bench has it (packages liblttng-ust-dev, lttng-tools)"

/* The library connects to the daemon when it is loaded. */
static const char *load_lttng(const char *name, bool with_thread)
{
	const char *wrong;

	if (access(beside("nearcpu-trace-lttng.so"), R_OK))
		return NO_LTTNG;
	wrong = trace_lttng_begin(with_thread);
	/* Not before: the daemon does not use it. */
	if (strcmp(name, "lttng-counter") == 0)
		setenv("LTTNG_UST_CLOCK_PLUGIN", beside("nearcpu-trace-lttng-clock.so"), 1);
	return wrong ? wrong : trace_load("nearcpu-trace-lttng.so", name, NO_LTTNG);
}

const char *trace_choose(const char *name)
{
	if (trace_find(trace_ours, name) || trace_find(trace_others, name))
		return NULL;
	if (strcmp(name, "spdlog") == 0)
		return trace_load("nearcpu-trace-spdlog.so", name,
				  "not installed: ./dev bench has it (package libspdlog-dev)");
	if (strcmp(name, "lttng-thread") == 0)
		return load_lttng("lttng", true);
	if (strcmp(name, "lttng-disabled") != 0)
		return load_lttng(name, false);
	/* It does not wait for a daemon. */
	trace_lttng_end();
	setenv("LTTNG_UST_REGISTER_TIMEOUT", "0", 1);
	return trace_load("nearcpu-trace-lttng.so", name, NO_LTTNG);
}

/* ---- tables ---- */

int trace_setup(struct bench_run *run)
{
	(void)run;
	return trace_impl->init ? trace_impl->init() : 0;
}

/* In a table for one number of threads. */
BENCH_SETUP(setup_one, (run->threads = 1, trace_setup(run)))
BENCH_SETUP(setup_two, (run->threads = 2, trace_setup(run)))

static void work_number(struct bench_thread *t) { trace_impl->number(t->iterations); }
static void work_words(struct bench_thread *t) { trace_impl->words(t->iterations); }
static void work_string(struct bench_thread *t) { trace_impl->string(t->iterations); }

BENCH_CHECK(check, trace_impl->check ? trace_impl->check(run->done) : NULL)

#define ROW_OF(work_with, begin, ...)                                                              \
	TRACE_ROW(__VA_ARGS__, .setup = begin, .work = work_with, .check = check)
#define ROW(...) ROW_OF(work_number, trace_setup, __VA_ARGS__)
#define WORDS(...) ROW_OF(work_words, trace_setup, __VA_ARGS__)
#define STRING(...) ROW_OF(work_string, trace_setup, __VA_ARGS__)

#define PARTS(part_, title_, text_, rows_, ...)                                                    \
	BENCH_TABLE("trace", part_, title_, "an event", text_, rows_, __VA_ARGS__)

static const struct bench_row counter_rows[] = {
	ROW("cmpxchg", "cmpxchg", "getcpu, cmpxchg, xadd", BENCH_PEER),
	ROW("lttng", "lttng", "LTTng-UST, its own clock", LTTNG),
	ROW("lttng-counter", "lttng-counter", "LTTng-UST, the counter", LTTNG),
	ROW("near", "near", "near_trace", BENCH_OURS),
	ROW("near", "near-off", "near_trace, rseq off", BENCH_OFF),
	ROW("clocks", "clock", "the counter alone", BENCH_YARDSTICK),
};
static const struct bench_row monotonic_rows[] = {
	ROW("fprintf", "fprintf", "a line by fprintf", BENCH_PEER),
	ROW("spdlog", "spdlog", "spdlog, asynchronous", BENCH_PEER),
	ROW("cmpxchg-monotonic", "cmpxchg", "getcpu, cmpxchg, xadd", BENCH_PEER),
	ROW("lttng", "lttng", "LTTng-UST", LTTNG),
	ROW("lttng-thread", "lttng-thread", "LTTng-UST, with thread id", LTTNG),
	ROW("near-monotonic", "near", "near_trace", BENCH_OURS),
	ROW("near-monotonic", "near-off", "near_trace, rseq off", BENCH_OFF),
	ROW("gettimes", "clock", "clock_gettime alone", BENCH_YARDSTICK),
};
static const struct bench_row none_rows[] = {
	ROW("cmpxchg-none", "cmpxchg", "getcpu, cmpxchg, xadd", BENCH_PEER),
	ROW("near-none", "near", "near_trace", BENCH_OURS),
	ROW("near-none", "near-off", "near_trace, rseq off", BENCH_OFF),
	ROW("adds", "counter", "a nearcpu counter alone", BENCH_YARDSTICK),
};
static const struct bench_row disabled_rows[] = {
	ROW("lttng-disabled", "lttng", "LTTng-UST", LTTNG),
	ROW("near-disabled", "near", "near_trace", BENCH_OURS),
	ROW("nothing", "nothing", "the loop alone", BENCH_YARDSTICK),
};
static const struct bench_row words_rows[] = {
	WORDS("fprintf", "fprintf", "a line by fprintf", BENCH_PEER),
	WORDS("spdlog", "spdlog", "spdlog, asynchronous", BENCH_PEER),
	WORDS("lttng", "lttng", "LTTng-UST", LTTNG),
	WORDS("near-words", "near", "near_trace", BENCH_OURS),
	ROW("near", "near-32", "near_trace, 32 bits", BENCH_YARDSTICK),
};

static const struct bench_row string_rows[] = {
	STRING("fprintf", "fprintf", "a line by fprintf", BENCH_PEER),
	STRING("spdlog", "spdlog", "spdlog, asynchronous", BENCH_PEER),
	STRING("lttng", "lttng", "LTTng-UST", LTTNG),
	STRING("near-string", "near", "near_trace", BENCH_OURS),
	ROW("near", "near-32", "near_trace, 32 bits", BENCH_YARDSTICK),
};

#define ONE(...) ROW_OF(work_number, setup_one, __VA_ARGS__)
#define TWO(...) ROW_OF(work_number, setup_two, __VA_ARGS__)

static const struct bench_row threads_rows[] = {
	ONE("lttng", "lttng-1", "LTTng-UST, 1 thread", LTTNG),
	TWO("lttng", "lttng-2", "LTTng-UST, 2 threads", LTTNG),
	ONE("near", "near-1", "near_trace, 1 thread", BENCH_OURS),
	TWO("near", "near-2", "near_trace, 2 threads", BENCH_OURS),
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
	      BENCH_FIGURES({"an event, in bare clock reads", "near", "clock", .goal = 1.5},
			    {"against LTTng-UST", "near", "lttng", .goal = 1.0 / 6})),
	PARTS("monotonic", "Events with CLOCK_MONOTONIC", NUMBER RINGS LINES, monotonic_rows,
	      BENCH_FIGURES({"against LTTng-UST", "near", "lttng", .goal = 1 / 2.5})),
	PARTS("none", "Events without a time", NUMBER RINGS, none_rows,
	      BENCH_FIGURES({"an event, in adds to a counter", "near", "counter", .goal = 4})),
	PARTS("disabled", "Tracepoints that are off", "A tracepoint is off. ", disabled_rows,
	      BENCH_FIGURES({"a tracepoint that is off", "near", .goal = .5})),
	PARTS("words", "Events with 64 bytes",
	      "An event has eight numbers of 64 bits, and the time: near_trace's by the CPU's "
	      "counter. " LINES,
	      words_rows,
	      BENCH_FIGURES({"64 bytes against 32 bits", "near", "near-32", .goal = 1.8})),
	PARTS("string", "Events with a string",
	      "An event has a string of 32 bytes, and the time: near_trace's by the CPU's "
	      "counter. " LINES,
	      string_rows, .core = false),
	PARTS("threads", "Events of 1 and 2 threads", NUMBER, threads_rows,
	      BENCH_FIGURES({"2 threads against 1", "near-2", "near-1", .goal = 1.1}), .threads = 1,
	      .fixed_threads = true),
};
