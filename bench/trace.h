/* SPDX-License-Identifier: MIT */
/* trace: how a program records events, by near_trace and by what programs use instead. Those of
 * third-party libraries are in modules, which are not installed. */
#ifndef BENCH_TRACE_H
#define BENCH_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define TRACE_RING ((uint64_t)1 << 20) /* bytes of a ring, in sub-buffers of 64 KiB */
#define TRACE_WORDS 8                  /* of the payload of 64 bytes */

struct trace_impl {
	const char *name;
	int (*init)(void); /* 0 or a negative errno; or NULL */
	/* n events with a number of 32 bits, with TRACE_WORDS words, with the string; or NULL. */
	void (*number)(uint64_t n), (*words)(uint64_t n), (*string)(uint64_t n);
	/* After `events` of them: what is wrong, or NULL. Or NULL. */
	const char *(*check)(uint64_t events);
};

/* 32 bytes, which the compiler must not know. */
static inline const char *trace_text(void)
{
	const char *text = "GET /index.html from 192.0.2.117";

	__asm__ volatile("" : "+r"(text));
	return text;
}

#define TRACE_LOOP(function, EVENT)                                                                \
	static void function(uint64_t n)                                                           \
	{                                                                                          \
		for (uint64_t i = 0; i < n; i++) {                                                 \
			EVENT;                                                                     \
		}                                                                                  \
	}
/* TRACE_WORDS arguments. */
#define TRACE_EIGHT(i) i, (i) + 1, (i) + 2, (i) + 3, (i) + 4, (i) + 5, (i) + 6, (i) + 7

static inline uint64_t trace_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the benchmarks ---- */

/* The implementation of this process's row. */
extern const struct trace_impl *trace_impl;
/* bench_row.missing, which is called before all else: each chooses one. */
const char *trace_choose_lttng(void);
const char *trace_choose_lttng_thread(void);
const char *trace_choose_lttng_counter(void);
const char *trace_choose_lttng_disabled(void);
const char *trace_choose_spdlog(void);
const char *trace_choose_near(void);
const char *trace_choose_near_words(void);
const char *trace_choose_near_string(void);
const char *trace_choose_near_monotonic(void);
const char *trace_choose_near_none(void);
const char *trace_choose_near_disabled(void);
const char *trace_choose_adds(void);
const char *trace_choose_clocks(void);
const char *trace_choose_gettimes(void);
const char *trace_choose_nothing(void);
const char *trace_choose_cmpxchg(void);
const char *trace_choose_cmpxchg_monotonic(void);
const char *trace_choose_cmpxchg_none(void);
const char *trace_choose_fprintf(void);

/* bench_row.tunables of LTTng-UST: see RCU_TLS in rcu.h. */
#define TRACE_TLS "glibc.rtld.optional_static_tls=4096"

/* Before a module with LTTng-UST is loaded, in a process with one thread: makes a session for it,
 * and a daemon that lives as long as the process's parent, if there is none. Why that cannot be, or
 * NULL. */
const char *trace_lttng_begin(bool with_thread);
/* Ends the session that an earlier row has left, if there is one. */
void trace_lttng_end(void);

/* They end with NULL. */
extern const struct trace_impl *const trace_ours[], *const trace_others[];
extern __attribute__((visibility("default")))
const struct trace_impl *const near_bench_trace_impls[];

#endif
