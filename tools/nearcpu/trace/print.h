/* SPDX-License-Identifier: MIT */
/* print: the forms in which nearcpu trace writes events. */
#ifndef NEARCPU_TRACE_PRINT_H
#define NEARCPU_TRACE_PRINT_H

#include <stdio.h>

#include "common/child.h"
#include "common/output.h"
#include "trace/reader.h"

/* In all loops over events: whether to stop, as the user interrupted it or a write failed. */
static inline bool trace_must_stop(FILE *file)
{
	return child_interrupted() || ferror(file);
}

enum trace_style { TRACE_AS_TEXT, TRACE_AS_JSON };

void trace_print_value(FILE *out, const struct trace_field *f, const struct trace_value *v,
		       enum trace_style style);
void trace_print_string(FILE *out, const char *s, size_t size, enum trace_style style);
void trace_print_seconds(FILE *out, uint64_t ns);
const char *trace_level_name(unsigned level);

/* All events in one form. */
int trace_show(struct trace *t);
int trace_csv(struct trace *t, const char *path);
int trace_chrome(struct trace *t, const char *path);
int trace_ctf(struct trace *t, const char *folder);

/* A page for a browser; `between` and `by`: the latencies that it shows first, as of trace_stat. */
struct trace_page {
	const char *path, *between, *by;
};
int trace_html(struct trace *t, const struct trace_page *page);

/* Its parts, strings, which the build makes of files. */
extern const unsigned char trace_page_begin[];
extern const unsigned char trace_page_data[], trace_page_view[], trace_page_charts[];
extern const unsigned char trace_page_uplot[], trace_page_uplot_css[], trace_page_uplot_licence[];

/* The text of a CTF trace's metadata: of the file `out`. */
void trace_ctf_metadata(FILE *out, const struct trace *t, const unsigned char uuid[16]);

int trace_list(struct trace *t);
/* `pair`: two names, separated by a comma; `key`: a field, or NULL. */
int trace_stat(struct trace *t, const char *pair, const char *key);
/* Whether these tracepoints exist and have the field. *first receives the first name, to be freed;
 * the other one is behind its zero. */
int trace_check_pair(const struct trace *t, const char *pair, const char *key, char **first);

int trace_record(int argc, char **argv);

/* A snapshot of a process that cannot make it. */
int trace_copy(const struct trace_file *f, const char *path);

/* To the programs of all files that trace. */
int trace_order(const struct trace *t, const char *order);
int trace_make_order(char *order, size_t size, const char *verb, const char *what, uint64_t level,
		     const char *condition);

/* Lines that begin with `head`; all: zeros, too. */
void trace_print_losses(FILE *out, const struct trace *t, const char *head, bool all);

#endif
