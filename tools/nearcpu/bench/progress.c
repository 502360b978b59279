/* SPDX-License-Identifier: MIT */
/* One line on standard error, while that is a terminal. */
#include "bench/progress.h"

#include <unistd.h>

static unsigned total, step;
static bool on_terminal;

void progress_begin(unsigned steps)
{
	total = steps;
	step = 0;
	on_terminal = isatty(STDERR_FILENO);
}

void progress_step(const struct table_result *t, const struct bench_row *row, unsigned repetition)
{
	char name[80];

	step++;
	if (!on_terminal)
		return;
	table_name(t, name, sizeof(name));
	/* Seventy-nine columns at most: a line that wraps cannot be cleared. */
	fprintf(stderr, "\r\033[K%3u %%  %.36s: %.24s %u/%u",
		(step - 1) * 100 / (total ? total : 1), name, row->label, repetition, t->wanted);
	fflush(stderr);
}

void progress_clear(void)
{
	if (on_terminal)
		fprintf(stderr, "\r\033[K");
}
