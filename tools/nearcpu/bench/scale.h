/* SPDX-License-Identifier: MIT */
/* scale: `nearcpu bench --report`, a text to be pasted where people talk about big machines. */
#ifndef NEARCPU_SCALE_H
#define NEARCPU_SCALE_H

#include "bench/report.h"

/* Benchmarks, where the user named none. */
void scale_choose(struct bench_options *o);

/* Fills `out` with numbers of threads: 1, 2, 4 ... and `cpus`; returns how many. */
size_t scale_threads(unsigned out[MAX_THREAD_COUNTS], unsigned cpus);

/* Brings the tables into the order in which they are measured, what matters most first: should
 * time run out, the rest is left. And back into that in which they are shown. */
void scale_sort_to_measure(struct report *report, unsigned cpus);
void scale_sort_to_show(struct report *report);

/* Load average and clock of the machine, to be printed with those at the end. */
void scale_begin(struct scale_noise *noise);

/* Prints the whole text. `why` is the reason if it is incomplete, or NULL. */
void scale_print(const struct report *report, const char *why);

/* Prints an item of a list, broken at spaces. */
__attribute__((format(printf, 1, 2))) void scale_item(const char *fmt, ...);

/* scale_head.c: what it is about: machine, versions, noise. */
void scale_print_head(const struct report *report, const char *why);

#endif
