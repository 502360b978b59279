/* SPDX-License-Identifier: MIT */
/* trace: finds the implementations of rows, in this program or in modules next to it. */
#include "bench.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace.h"

const struct trace_impl *trace_impl;

/* ---- implementations ---- */

static bool find(const struct trace_impl *const *impls, const char *name)
{
	for (; *impls; impls++)
		if (strcmp((*impls)->name, name) == 0) {
			trace_impl = *impls;
			return true;
		}
	return false;
}

static const char *choose(const char *name)
{
	return find(trace_ours, name) || find(trace_others, name) ? NULL : "there is none";
}

/* Next to the command. */
static char *beside(const char *file)
{
	static char path[PATH_MAX + 40];

	path[0] = 0;
	if (readlink("/proc/self/exe", path, PATH_MAX - 1) > 0)
		strcpy(strrchr(path, '/') + 1, file);
	return path;
}

static const char *load(const char *file, const char *name, const char *missing)
{
	void *module = dlopen(beside(file), RTLD_NOW);
	void *impls = module ? dlsym(module, "near_bench_trace_impls") : NULL;

	return impls && find(impls, name) ? NULL : missing;
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
	return wrong ? wrong : load("nearcpu-trace-lttng.so", name, NO_LTTNG);
}

const char *trace_choose_lttng(void)
{
	return load_lttng("lttng", false);
}

const char *trace_choose_lttng_thread(void)
{
	return load_lttng("lttng", true);
}

const char *trace_choose_lttng_counter(void)
{
	return load_lttng("lttng-counter", false);
}

/* It does not wait for a daemon. */
const char *trace_choose_lttng_disabled(void)
{
	trace_lttng_end();
	setenv("LTTNG_UST_REGISTER_TIMEOUT", "0", 1);
	return load("nearcpu-trace-lttng.so", "lttng-disabled", NO_LTTNG);
}

const char *trace_choose_spdlog(void)
{
	return load("nearcpu-trace-spdlog.so", "spdlog",
		    "not installed: ./dev bench has it (package libspdlog-dev)");
}

#define CHOOSE(id, name)                                                                           \
	const char *trace_choose_##id(void)                                                        \
	{                                                                                          \
		return choose(name);                                                               \
	}
CHOOSE(near, "near")
CHOOSE(near_words, "near-words")
CHOOSE(near_string, "near-string")
CHOOSE(near_monotonic, "near-monotonic")
CHOOSE(near_none, "near-none")
CHOOSE(near_disabled, "near-disabled")
CHOOSE(adds, "adds")
CHOOSE(clocks, "clocks")
CHOOSE(gettimes, "gettimes")
CHOOSE(nothing, "nothing")
CHOOSE(cmpxchg, "cmpxchg")
CHOOSE(cmpxchg_monotonic, "cmpxchg-monotonic")
CHOOSE(cmpxchg_none, "cmpxchg-none")
CHOOSE(fprintf, "fprintf")
