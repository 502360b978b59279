/* SPDX-License-Identifier: MIT */
/* nearcpu trace show, and --csv and --chrome of export. */
#include "trace/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/text.h"

/* Names of what every event has; a field with such a name gets another one. */
static const char *const common[] = {"time", "cpu", "pid", "tid", "event", NULL};

static const char *prefix_of(const char *field)
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

static void print_head(const struct trace_file *f)
{
	uint64_t begin = f->session.begin.realtime_ns;

	printf("# %s: %s, process %" PRIu64 ", %s.%09u\n", f->path, f->program, f->session.pid,
	       date(begin).text, (unsigned)(begin % 1000000000));
}

static void print_event(const struct trace *t, const struct trace_event *e)
{
	trace_print_seconds(stdout, since_begin(t, e));
	printf(" cpu %u", e->cpu);
	if (t->file_count > 1)
		printf(" pid %" PRIu64, e->file->session.pid);
	printf(" tid %u %s", e->tid, e->point->name);
	for (struct trace_cursor c = trace_fields(e); trace_next_field(&c);) {
		printf(" %s=", c.field->name);
		trace_print_value(stdout, c.field, &c.value, TRACE_AS_TEXT);
	}
	if (e->flags & NEAR__TRACE_CUT)
		fputs("...", stdout);
	putchar('\n');
}

int trace_show(struct trace *t)
{
	struct trace_event e;

	for (unsigned i = 0; i < t->file_count; i++)
		print_head(&t->files[i]);
	while (!trace_must_stop(stdout) && trace_next(t, &e))
		print_event(t, &e);
	trace_print_losses(stdout, t, "# ", false);
	return child_report_interrupt("trace");
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
	trace_print_seconds(out, since_begin(t, e));
	fprintf(out, ",%u,%" PRIu64 ",%u,%s", e->cpu, e->file->session.pid, e->tid, e->point->name);
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
			fprintf(o.file, ",%s%s", prefix_of(c.names[i]), c.names[i]);
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

static void print_chrome(FILE *out, const struct trace *t, const struct trace_event *e)
{
	fprintf(out, ",\n{\"name\":\"%s\",\"ph\":\"i\",\"s\":\"t\",\"ts\":", e->point->name);
	print_us(out, since_begin(t, e));
	fprintf(out, ",\"pid\":%" PRIu64 ",\"tid\":%u,\"args\":{\"cpu\":%u", e->file->session.pid,
		e->tid, e->cpu);
	for (struct trace_cursor c = trace_fields(e); trace_next_field(&c);) {
		fprintf(out, ",\"%s%s\":", prefix_of(c.field->name), c.field->name);
		trace_print_value(out, c.field, &c.value, TRACE_AS_JSON);
	}
	fputs("}}", out);
}

int trace_chrome(struct trace *t, const char *path)
{
	struct output o;
	struct trace_event e;
	int code = output_open(&o, "trace", path);

	if (code)
		return output_close(&o, code);
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", o.file);
	for (unsigned i = 0; i < t->file_count; i++)
		fprintf(o.file,
			"%s\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%" PRIu64
			",\"args\":{\"name\":\"%s\"}}",
			i ? "," : "", t->files[i].session.pid, t->files[i].program);
	while (!trace_must_stop(o.file) && trace_next(t, &e))
		print_chrome(o.file, t, &e);
	fputs("\n]}\n", o.file);
	return output_close(&o, child_report_interrupt("trace"));
}
