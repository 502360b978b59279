/* SPDX-License-Identifier: MIT */
/* progress: one line on standard error, while that is a terminal. */
#ifndef NEARCPU_PROGRESS_H
#define NEARCPU_PROGRESS_H

#include "bench/report.h"

void progress_begin(unsigned steps);
void progress_step(const struct table_result *t, const struct bench_row *row, unsigned repetition);
void progress_clear(void);

#endif
