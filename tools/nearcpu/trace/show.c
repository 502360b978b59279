/* SPDX-License-Identifier: MIT */
/* nearcpu trace show, and --csv and --chrome of export. */
#include "trace/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/tool.h"

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

static void print_date(FILE *out, uint64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000);
	char when[64] = "?";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	fprintf(out, "%s.%09u", when, (unsigned)(ns % 1000000000));
}

static void print_head(const struct trace_file *f)
{
	printf("# %s: %s, process %" PRIu64 ", ", f->path, f->program, f->session.pid);
	print_date(stdout, f->session.begin.realtime_ns);
	putchar('\n');
}

static void print_event(const struct trace *t, const struct trace_event *e)
{
	const char *at = e->payload;
	struct trace_value v;

	trace_print_seconds(stdout, since_begin(t, e));
	printf(" cpu %u", e->cpu);
	if (t->file_count > 1)
		printf(" pid %" PRIu64, e->file->session.pid);
	printf(" tid %u %s", e->tid, e->point->name);
	for (unsigned i = 0; i < e->point->field_count; i++) {
		const struct trace_field *f = &e->point->fields[i];

		if (!trace_take(f, &at, trace_end(e), &v))
			break;
		printf(" %s=", f->name);
		trace_print_value(stdout, f, &v, TRACE_AS_TEXT);
	}
	if (e->flags & NEAR__TRACE_CUT)
		fputs("...", stdout);
	putchar('\n');
}

int trace_show(struct trace *t)
{
	struct trace_event e;
	struct trace_loss loss;

	for (unsigned i = 0; i < t->file_count; i++)
		print_head(&t->files[i]);
	while (!trace_must_stop(stdout) && trace_next(t, &e))
		print_event(t, &e);
	loss = trace_total_loss(t);
	trace_print_loss(stdout, &loss, "# ", false);
	return trace_interrupted();
}

/* ---- CSV ---- */

/* The columns of all fields: those of one name share a column. */
struct columns {
	const char **names;
	unsigned count;
};

static void add_column(struct columns *c, const char *name)
{
	const char **grown;

	for (unsigned i = 0; i < c->count; i++)
		if (strcmp(c->names[i], name) == 0)
			return;
	grown = realloc(c->names, (c->count + 1) * sizeof(*grown));
	if (!grown)
		return;
	c->names = grown;
	c->names[c->count++] = name;
}

static void find_columns(struct columns *c, const struct trace *t)
{
	for (unsigned i = 0; i < t->file_count; i++)
		for (unsigned id = 0; id < 65536; id++) {
			const struct trace_point *p = t->files[i].points[id];

			for (unsigned k = 0; p && p->selected && k < p->field_count; k++)
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
	const struct trace_point *p = e->point;

	trace_print_seconds(out, since_begin(t, e));
	fprintf(out, ",%u,%" PRIu64 ",%u,%s", e->cpu, e->file->session.pid, e->tid, p->name);
	for (unsigned i = 0; i < c->count; i++) {
		const char *at = e->payload;
		struct trace_value v;

		putc_unlocked(',', out);
		for (unsigned k = 0; k < p->field_count; k++)
			if (!trace_take(&p->fields[k], &at, trace_end(e), &v)) {
				break;
			} else if (strcmp(p->fields[k].name, c->names[i]) == 0) {
				print_cell(out, &p->fields[k], &v);
				break;
			}
	}
	putc_unlocked('\n', out);
}

int trace_csv(struct trace *t, const char *path)
{
	struct columns c = {0};
	struct trace_output o;
	struct trace_event e;
	int code = trace_output_open(&o, path);

	if (!code) {
		find_columns(&c, t);
		for (unsigned i = 0; common[i]; i++)
			fprintf(o.file, i ? ",%s" : "%s", common[i]);
		for (unsigned i = 0; i < c.count; i++)
			fprintf(o.file, ",%s%s", prefix_of(c.names[i]), c.names[i]);
		putc_unlocked('\n', o.file);
		while (!trace_must_stop(o.file) && trace_next(t, &e))
			print_row(o.file, &c, t, &e);
		code = trace_interrupted();
	}
	free(c.names);
	return trace_output_close(&o, code);
}

/* ---- Chrome's JSON ---- */

static void print_us(FILE *out, uint64_t ns)
{
	fprintf(out, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
}

static void print_chrome(FILE *out, const struct trace *t, const struct trace_event *e)
{
	const char *at = e->payload;
	struct trace_value v;

	fprintf(out, ",\n{\"name\":\"%s\",\"ph\":\"i\",\"s\":\"t\",\"ts\":", e->point->name);
	print_us(out, since_begin(t, e));
	fprintf(out, ",\"pid\":%" PRIu64 ",\"tid\":%u,\"args\":{\"cpu\":%u", e->file->session.pid,
		e->tid, e->cpu);
	for (unsigned i = 0; i < e->point->field_count; i++) {
		const struct trace_field *f = &e->point->fields[i];

		if (!trace_take(f, &at, trace_end(e), &v))
			break;
		fprintf(out, ",\"%s%s\":", prefix_of(f->name), f->name);
		trace_print_value(out, f, &v, TRACE_AS_JSON);
	}
	fputs("}}", out);
}

int trace_chrome(struct trace *t, const char *path)
{
	struct trace_output o;
	struct trace_event e;
	int code = trace_output_open(&o, path);

	if (code)
		return trace_output_close(&o, code);
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", o.file);
	for (unsigned i = 0; i < t->file_count; i++)
		fprintf(o.file,
			"%s\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%" PRIu64
			",\"args\":{\"name\":\"%s\"}}",
			i ? "," : "", t->files[i].session.pid, t->files[i].program);
	while (!trace_must_stop(o.file) && trace_next(t, &e))
		print_chrome(o.file, t, &e);
	fputs("\n]}\n", o.file);
	return trace_output_close(&o, trace_interrupted());
}
