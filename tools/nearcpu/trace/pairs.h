/* SPDX-License-Identifier: MIT */
/* pairs: an event with one name and the next one with another name, of the same thread or with the
 * same value of a field. */
#ifndef NEARCPU_TRACE_PAIRS_H
#define NEARCPU_TRACE_PAIRS_H

#include "trace/print.h"

#define TRACE_MOST_OPEN 65536u

/* An event whose other one has not come yet. If there are more than the table can hold, earlier
 * ones are forgotten. */
struct trace_begun {
	uint64_t key;
	bool used;
	uint32_t room; /* of `payload` */
	char *payload; /* a copy, to which the event points */
	struct trace_event event;
};

struct trace_pairs {
	char *first;              /* the name of the first event, allocated, */
	const char *last;         /* and of the last one, behind it */
	const char *field;        /* that they have in common; NULL: the thread */
	struct trace_begun *open; /* NULL: no pairs are wanted */
	uint64_t unmatched;
};

/* `pair`: as of --between; NULL: none. An exit status, after a message. */
int trace_pairs_init(struct trace_pairs *p, const struct trace *t, const char *pair,
		     const char *field);
/* Whether a tracepoint has it; an exit status. */
int trace_check_field(const struct trace *t, const char *field);
void trace_pairs_free(struct trace_pairs *p);

/* The event that begins the pair which e ends, or NULL. It is valid until trace_pairs_begin. Of
 * pairs that overlap, no two have the same index in `open`. */
const struct trace_begun *trace_pairs_end(struct trace_pairs *p, const struct trace_event *e);

/* Then: e may begin one. */
void trace_pairs_begin(struct trace_pairs *p, const struct trace_event *e);

uint64_t trace_mix(uint64_t key);

/* The same for equal values. */
uint64_t trace_value_hash(const struct trace_field *f, const struct trace_value *v);

/* Those without the other one, at the end. */
uint64_t trace_pairs_unmatched(const struct trace_pairs *p);

#endif
