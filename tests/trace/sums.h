/* SPDX-License-Identifier: MIT */
/* What the files of the folder have together, of events whose payload is a number. */
#ifndef NEARCPU_TESTS_SUMS_H
#define NEARCPU_TESTS_SUMS_H

#include "traces.h"

struct sums {
	uint64_t n, sum, discarded;
	pid_t pid; /* 0: of all files; else of this one's alone */
	unsigned files;
};

static inline void add(const struct trace_record *r, void *arg)
{
	struct sums *s = arg;

	s->n++;
	s->sum += r->head[2];
}

static inline void add_file(const char *path, void *arg)
{
	struct trace_file f = traces_open(path);
	struct sums *s = arg;

	if (!s->pid || f.session->pid == (uint64_t)s->pid) {
		traces_read(&f, add, s);
		s->discarded += traces_discarded(&f);
		s->files++;
	}
	traces_close(&f);
}

static inline struct sums sums_of(pid_t pid)
{
	struct sums s = {.pid = pid};

	traces_each_file(add_file, &s);
	return s;
}

#endif
