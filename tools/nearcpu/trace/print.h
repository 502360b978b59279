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
/* Of at most 8 bytes, in this machine's byte order. */
uint64_t trace_load_unsigned(const char *at, unsigned size);
int64_t trace_load_signed(const char *at, unsigned size);
/* Of a field of return addresses: "main+0x1c", or "libc.so.6+0x271ca", or "0x7f12". */
const char *trace_address(const struct trace_field *f, uint64_t address);
void trace_print_seconds(FILE *out, uint64_t ns);
const char *trace_level_name(unsigned level);
extern const char *const trace_levels[]; /* ends with NULL */

/* What show has as the time of an event. */
extern enum trace_clock { TRACE_SINCE_BEGIN, TRACE_UTC, TRACE_LOCAL } trace_clock;

/* A field that has the name of what every event has gets another one in files. */
const char *trace_prefix_of(const char *field);

/* A line. */
void trace_print_event(FILE *out, const struct trace *t, const struct trace_event *e);

/* Of a page or a file for other programs; of stat. */
struct trace_wanted {
	const char *path;
	const char *between, *by; /* pairs: two names, separated by a comma; a field, or NULL */
	const char *flow;         /* a field */
	uint64_t slowest;
};

/* All events in one form. */
int trace_show(struct trace *t);
int trace_csv(struct trace *t, const char *path);
int trace_chrome(struct trace *t, const struct trace_wanted *w);
int trace_perfetto(struct trace *t, const struct trace_wanted *w);
int trace_ctf(struct trace *t, const char *folder);
/* A page for a browser, which shows the latencies of these pairs first. */
int trace_html(struct trace *t, const struct trace_wanted *w);

/* Its parts, strings, which the build makes of files. */
extern const unsigned char trace_page_begin[];
extern const unsigned char trace_page_data[], trace_page_view[], trace_page_charts[];
extern const unsigned char trace_page_uplot[], trace_page_uplot_css[], trace_page_uplot_licence[];

/* The text of a CTF trace's metadata: of the file `out`. */
void trace_ctf_metadata(FILE *out, const struct trace *t, const unsigned char uuid[16]);

int trace_list(struct trace *t);
int trace_stat(struct trace *t, const struct trace_wanted *w);

int trace_record(int argc, char **argv);

/* Records what the scheduler does in that folder, until the program has ended; if that could not
 * run the file goes. ring: bytes of each CPU, such as 1m, or a power of two that is not less. all:
 * of all processes. An exit status, after a message. */
int trace_sched_start(const char *folder, const char *ring, bool all);
void trace_sched_stop(bool has_run);

/* A snapshot of a process that cannot make it. */
int trace_copy(const struct trace_file *f, const char *path);

/* To the programs of all files that trace. */
int trace_order(const struct trace *t, const char *order);
int trace_make_order(char *order, size_t size, const char *verb, const char *what, uint64_t level,
		     const char *condition);

/* Lines that begin with `head`; all: zeros, too. */
void trace_print_losses(FILE *out, const struct trace *t, const char *head, bool all);

#endif
