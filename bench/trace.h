/* SPDX-License-Identifier: MIT */
/* trace: how a program records events, by near_trace and by what programs use instead. Those of
 * third-party libraries are in modules, which are not installed. */
#ifndef BENCH_TRACE_H
#define BENCH_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

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

/* ---- the benchmarks ---- */

/* The implementation of this process's row. */
extern const struct trace_impl *trace_impl;
/* bench_row.choose. */
const char *trace_choose(const char *name);

/* bench_row.setup. */
struct bench_run;
int trace_setup(struct bench_run *run);
/* A row that is measured by one of the implementations; what follows are further members. */
#define TRACE_ROW(id, row, text, whose, ...)                                                       \
	{                                                                                          \
		.name = row, .label = text, .role = whose, .choose = trace_choose, .impl = id,     \
		__VA_ARGS__                                                                        \
	}

/* Of a row of LTTng-UST: see RCU_TLS in rcu.h. */
#define LTTNG BENCH_PEER, .tunables = "glibc.rtld.optional_static_tls=4096"

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
