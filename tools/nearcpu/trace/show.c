/* SPDX-License-Identifier: MIT */
/* nearcpu trace show, and --csv and --chrome of export. */
#include "trace/pairs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/memory.h"
#include "common/text.h"

enum trace_clock trace_clock;

/* Names of what every event has. */
static const char *const common[] = {"time", "cpu", "pid", "tid", "event", NULL};

const char *trace_prefix_of(const char *field)
{
	for (const char *const *name = common; *name; name++)
		if (strcmp(*name, field) == 0)
			return "field.";
	return "";
}

static uint64_t since_begin(const struct trace *t, const struct trace_event *e)
{
	return e->ns > t->begin ? e->ns - t->begin : 0;
}

/* ---- text ---- */

/* ISO 8601, with the zone. */
static void print_wall(FILE *out, uint64_t ns, bool utc)
{
	time_t seconds = (time_t)(ns / 1000000000);
	char date[40] = "?", zone[8] = "Z";
	struct tm tm;

	if (utc ? gmtime_r(&seconds, &tm) : localtime_r(&seconds, &tm)) {
		strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
		if (!utc && strftime(zone, sizeof(zone), "%z", &tm) == 5)
			memcpy(zone + 3, (char[]){':', zone[3], zone[4], 0}, 4);
	}
	fprintf(out, "%s.%09u%s", date, (unsigned)(ns % 1000000000), zone);
}

static void print_time(FILE *out, const struct trace *t, const struct trace_event *e)
{
	if (trace_clock == TRACE_SINCE_BEGIN)
		trace_print_seconds(out, since_begin(t, e));
	else
		print_wall(out, e->ns + (uint64_t)e->file->realtime, trace_clock == TRACE_UTC);
}

void trace_print_event(FILE *out, const struct trace *t, const struct trace_event *e)
{
	print_time(out, t, e);
	fprintf(out, " cpu %u", e->cpu);
	if (t->file_count > 1 || t->filter->follow) /* others may join */
		fprintf(out, " pid %" PRIu64, e->pid);
	fprintf(out, " tid %u %s", e->tid, e->point->name);
	for (struct trace_cursor c = trace_fields(e); trace_next_field(&c);) {
		fprintf(out, " %s=", c.field->name);
		trace_print_value(out, c.field, &c.value, TRACE_AS_TEXT);
	}
	if (e->flags & NEAR__TRACE_CUT)
		fputs("...", out);
	putc('\n', out);
}

static void print_head(const struct trace_file *f)
{
	uint64_t begin = f->session.begin.realtime_ns;

	printf("# %s: %s, process %" PRIu64 ", ", f->path, f->program, f->session.pid);
	if (trace_clock == TRACE_SINCE_BEGIN)
		printf("%s.%09u", date(begin).text, (unsigned)(begin % 1000000000));
	else
		print_wall(stdout, begin, trace_clock == TRACE_UTC);
	putchar('\n');
}

int trace_show(struct trace *t)
{
	uint64_t known = 0, lost;
	unsigned heads = 0;
	struct trace_event e;
	int code = EXIT_DONE;

	do {
		while (heads < t->file_count)
			print_head(&t->files[heads++]);
		while (!trace_must_stop(stdout) && trace_next(t, &e))
			trace_print_event(stdout, t, &e);
		lost = trace_lost(t, LOST_OVERTAKEN);
		if (t->follows && lost > known)
			printf("# %" PRIu64 " bytes were overwritten before they were read\n",
			       lost - known);
		known = lost;
		flush_stdout();
	} while (!trace_must_stop(stdout) && trace_follow(t, &code));
	trace_print_losses(stdout, t, "# ", false);
	return code ? code : child_report_interrupt("trace");
}

/* ---- CSV ---- */

/* The columns of all fields: those of one name share a column. */
struct columns {
	const char **names;
	unsigned count;
};

static void add_column(struct columns *c, const char *name)
{
	for (unsigned i = 0; i < c->count; i++)
		if (strcmp(c->names[i], name) == 0)
			return;
	APPEND(c->names, c->count, name);
}

static void find_columns(struct columns *c, const struct trace *t)
{
	for (unsigned i = 0; i < t->point_count; i++) {
		const struct trace_point *p = t->points[i];

		for (unsigned k = 0; p->selected && k < p->field_count; k++)
			add_column(c, p->fields[k].name);
	}
}

static void print_cell(FILE *out, const struct trace_field *f, const struct trace_value *v)
{
	const char *quote = f->counted && f->kind != TRACE_BYTES ? "\"" : "";

	fputs(quote, out);
	if (f->kind != TRACE_STRING)
		trace_print_value(out, f, v, TRACE_AS_TEXT);
	for (uint32_t i = 0; f->kind == TRACE_STRING && i < v->count; i++) {
		if (v->data[i] == '"')
			putc_unlocked('"', out);
		putc_unlocked(v->data[i], out);
	}
	fputs(quote, out);
}

static void print_row(FILE *out, const struct columns *c, const struct trace *t,
		      const struct trace_event *e)
{
	print_time(out, t, e);
	fprintf(out, ",%u,%" PRIu64 ",%u,%s", e->cpu, e->pid, e->tid, e->point->name);
	for (unsigned i = 0; i < c->count; i++) {
		putc_unlocked(',', out);
		for (struct trace_cursor f = trace_fields(e); trace_next_field(&f);)
			if (strcmp(f.field->name, c->names[i]) == 0) {
				print_cell(out, f.field, &f.value);
				break;
			}
	}
	putc_unlocked('\n', out);
}

int trace_csv(struct trace *t, const char *path)
{
	struct columns c = {0};
	struct output o;
	struct trace_event e;
	int code = output_open(&o, "trace", path);

	if (!code) {
		find_columns(&c, t);
		for (unsigned i = 0; common[i]; i++)
			fprintf(o.file, i ? ",%s" : "%s", common[i]);
		for (unsigned i = 0; i < c.count; i++)
			fprintf(o.file, ",%s%s", trace_prefix_of(c.names[i]), c.names[i]);
		putc_unlocked('\n', o.file);
		while (!trace_must_stop(o.file) && trace_next(t, &e))
			print_row(o.file, &c, t, &e);
		code = child_report_interrupt("trace");
	}
	free(c.names);
	return output_close(&o, code);
}

/* ---- Chrome's JSON ---- */

static void print_us(FILE *out, uint64_t ns)
{
	fprintf(out, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
}

static void print_args(FILE *out, const struct trace_event *e)
{
	fprintf(out, ",\"args\":{\"cpu\":%u", e->cpu);
	for (struct trace_cursor c = trace_fields(e); trace_next_field(&c);) {
		fprintf(out, ",\"%s%s\":", trace_prefix_of(c.field->name), c.field->name);
		trace_print_value(out, c.field, &c.value, TRACE_AS_JSON);
	}
	fputs("}}", out);
}

static void print_chrome(FILE *out, const struct trace *t, const struct trace_event *e,
			 const char *name, const char *phase)
{
	fprintf(out, ",\n{\"name\":\"%s\",%s,\"ts\":", name, phase);
	print_us(out, since_begin(t, e));
	fprintf(out, ",\"pid\":%" PRIu64 ",\"tid\":%u", e->pid, e->tid);
}

/* On a thread a pair is one complete event. Those of a field may overlap, and are asynchronous. */
static void print_pair(FILE *out, const struct trace *t, const struct trace_pairs *p,
		       const struct trace_begun *b, const struct trace_event *end)
{
	struct word phase;

	if (!p->field) {
		print_chrome(out, t, &b->event, p->first, "\"ph\":\"X\"");
		fputs(",\"dur\":", out);
		print_us(out, end->ns - b->event.ns);
		print_args(out, &b->event);
		return;
	}
	for (unsigned i = 0; i < 2; i++) {
		const struct trace_event *e = i ? end : &b->event;

		phase = word("\"cat\":\"pair\",\"ph\":\"%c\",\"id\":%u", i ? 'e' : 'b',
			     (unsigned)(b - p->open));
		print_chrome(out, t, e, p->first, phase.text);
		print_args(out, e);
	}
}

static void print_events(FILE *out, struct trace *t, struct trace_pairs *p)
{
	const struct trace_begun *b;
	struct trace_event e;

	while (!trace_must_stop(out) && trace_next(t, &e)) {
		print_chrome(out, t, &e, e.point->name, "\"ph\":\"i\",\"s\":\"t\"");
		print_args(out, &e);
		b = trace_pairs_end(p, &e);
		if (b)
			print_pair(out, t, p, b, &e);
		trace_pairs_begin(p, &e);
	}
}

int trace_chrome(struct trace *t, const struct trace_wanted *w)
{
	struct output o;
	struct trace_pairs pairs;
	int code = trace_pairs_init(&pairs, t, w->between, w->by);

	if (!code && !(code = output_open(&o, "trace", w->path))) {
		fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", o.file);
		for (unsigned i = 0; i < t->file_count; i++)
			fprintf(o.file,
				"%s\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%" PRIu64
				",\"args\":{\"name\":\"%s\"}}",
				i ? "," : "", t->files[i].session.pid, t->files[i].program);
		print_events(o.file, t, &pairs);
		fputs("\n]}\n", o.file);
		code = output_close(&o, child_report_interrupt("trace"));
	}
	trace_pairs_free(&pairs);
	return code;
}
