// SPDX-License-Identifier: MIT
// The implementation by spdlog: a thread formats what others put into its queue.
#include <spdlog/async.h>
#include <spdlog/sinks/basic_file_sink.h>

#include "trace.h"

static std::shared_ptr<spdlog::logger> logger;

// The queue overwrites, too. The lines go to a file that needs no room.
static int init()
try {
	logger = spdlog::create_async_nb<spdlog::sinks::basic_file_sink_mt>("bench", "/dev/null");
	logger->set_pattern("%E.%F %t %v");
	return 0;
} catch (const std::exception &) {
	return -1;
}

TRACE_LOOP(number, logger->info("number value={}", (uint32_t)i))
TRACE_LOOP(words, logger->info("words a={} b={} c={} d={} e={} f={} g={} h={}", TRACE_EIGHT(i)))
TRACE_LOOP(string, logger->info("string text={}", trace_text()))

static const struct trace_impl impl = {"spdlog", init, number, words, string, nullptr};
const struct trace_impl *const near_bench_trace_impls[] = {&impl, nullptr};
