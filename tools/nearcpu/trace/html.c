/* SPDX-License-Identifier: MIT */
/* nearcpu trace show --html: one page with its events, its styles and its scripts.
 *
 * The events are base64 of one stream of bytes, which page/data.js decodes: of each event the time
 * since the one before, the tracepoint's index and whether strings were cut, CPU, thread and
 * payload size, as numbers of 7 bits a byte, the lowest first, and the payload as the ring had it.
 * What is known at the end alone follows as JSON. */
#include "trace/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/page.h"
#include "common/tool.h"

/* ---- the events ---- */

/* Without the zeros behind the fields. */
static uint32_t payload_size(const struct trace_event *e)
{
	const char *at = e->payload;
	struct trace_value v;

	for (unsigned i = 0; i < e->point->field_count; i++)
		if (!trace_take(&e->point->fields[i], &at, trace_end(e), &v))
			break;
	return (uint32_t)(at - e->payload);
}

static void put_event(struct page_stream *s, const struct trace_event *e, uint64_t elapsed)
{
	uint32_t size = payload_size(e);

	page_put_number(s, elapsed);
	page_put_number(s, (uint64_t)e->point->index << 1 | ((e->flags & NEAR__TRACE_CUT) != 0));
	page_put_number(s, e->cpu);
	page_put_number(s, e->tid);
	page_put_number(s, size);
	for (uint32_t i = 0; i < size; i++)
		page_put_byte(s, (unsigned char)e->payload[i]);
}

/* Returns their number. They are in the order of their times. */
static uint64_t put_events(FILE *file, struct trace *t)
{
	struct page_stream s = {.file = file};
	uint64_t last = t->begin, events = 0;
	struct trace_event e;

	while (!trace_must_stop(file) && trace_next(t, &e)) {
		put_event(&s, &e, e.ns > last ? e.ns - last : 0);
		last = e.ns > last ? e.ns : last;
		events++;
	}
	page_flush(&s);
	return events;
}

/* ---- what describes them ---- */

static void put_text(FILE *out, const char *name, const char *text)
{
	fprintf(out, "\"%s\":", name);
	trace_print_string(out, text, strlen(text), TRACE_AS_JSON);
}

static void put_fields(FILE *out, const struct trace_point *p)
{
	static const char kinds[] = "uixfbesy"; /* as enum trace_kind */

	fputs("\"fields\":[", out);
	for (unsigned i = 0; i < p->field_count; i++) {
		const struct trace_field *f = &p->fields[i];

		fprintf(out, "%s{", i ? "," : "");
		put_text(out, "name", f->name);
		fprintf(out, ",\"kind\":\"%c\",\"size\":%u,\"counted\":%s,\"labels\":[",
			kinds[f->kind], f->size, f->counted ? "true" : "false");
		for (unsigned k = 0; k < f->label_count; k++)
			fprintf(out, "%s[%" PRId64 ",\"%s\"]", k ? "," : "", f->labels[k].value,
				f->labels[k].name);
		fputs("]}", out);
	}
	fputs("]", out);
}

static void put_points(FILE *out, const struct trace *t)
{
	const char *comma = "";

	fputs(",\"points\":[", out);
	for (unsigned i = 0; i < t->file_count; i++)
		for (unsigned id = 0; id < 65536; id++) {
			const struct trace_point *p = t->files[i].points[id];

			if (!p || !p->selected || (p->unknown && !p->count))
				continue;
			fprintf(out, "%s\n{\"index\":%u,\"file\":%u,\"count\":%" PRIu64 ",", comma,
				p->index, i, p->count);
			put_text(out, "name", p->name);
			fprintf(out, ",\"level\":\"%s\",", trace_level_name(p->level));
			put_text(out, "place", p->place);
			fputs(",", out);
			put_fields(out, p);
			fputs("}", out);
			comma = ",";
		}
	fputs("]", out);
}

static void put_files(FILE *out, const struct trace *t)
{
	fputs(",\"files\":[", out);
	for (unsigned i = 0; i < t->file_count; i++) {
		const struct trace_file *f = &t->files[i];

		fprintf(out, "%s\n{", i ? "," : "");
		put_text(out, "path", f->path);
		fputs(",", out);
		put_text(out, "program", f->program);
		fprintf(out, ",\"pid\":\"%" PRIu64 "\",\"begin_ms\":%" PRIu64 "}", f->session.pid,
			f->session.begin.realtime_ns / 1000000);
	}
	fputs("]", out);
}

/* Lines, as show has them. */
static void put_losses(FILE *out, const struct trace *t)
{
	struct trace_loss loss = trace_total_loss(t);
	size_t size = 0;
	char *text = NULL;
	FILE *lines = open_memstream(&text, &size);

	if (lines)
		trace_print_loss(lines, &loss, "", false);
	if (lines && fclose(lines) == 0) {
		fputs(",", out);
		put_text(out, "losses", text);
	}
	free(text);
}

static void put_description(FILE *out, const struct trace *t, uint64_t events,
			    const struct trace_page *page)
{
	fprintf(out, "{\"events\":%" PRIu64 ",\"little\":%s", events,
		__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "true" : "false");
	fputs(",", out);
	put_text(out, "version", NEARCPU_VERSION);
	fputs(",", out);
	put_text(out, "between", page->between ? page->between : "");
	fputs(",", out);
	put_text(out, "by", page->by ? page->by : "");
	put_files(out, t);
	put_points(out, t);
	put_losses(out, t);
	fputs("}", out);
}

static int put_json(FILE *out, const struct trace *t, uint64_t events,
		    const struct trace_page *page)
{
	size_t size = 0;
	char *text = NULL;
	FILE *json = open_memstream(&text, &size);
	bool failed = !json;

	if (json) {
		put_description(json, t, events, page);
		failed = ferror(json);
		failed |= fclose(json) != 0;
	}
	if (!failed)
		page_put_json(out, text, size);
	free(text);
	return failed ? failure("trace", "not enough memory") : EXIT_DONE;
}

/* ---- the page ---- */

int trace_html(struct trace *t, const struct trace_page *page)
{
	struct trace_output o;
	uint64_t events;
	int code = page->between ? trace_check_pair(t, page->between, page->by) : EXIT_DONE;

	if (code)
		return code;
	code = trace_output_open(&o, page->path);
	if (code)
		return trace_output_close(&o, code);
	page_put_part(o.file, "", trace_page_begin);
	page_put_part(o.file, "<style>\n", trace_page_uplot_css);
	fputs("\n</style>\n<script id=\"events\" type=\"text/plain\">\n", o.file);
	events = put_events(o.file, t);
	fputs("</script>\n<script id=\"description\" type=\"application/json\">\n", o.file);
	code = put_json(o.file, t, events, page);
	page_put_part(o.file, "\n</script>\n<!--\n", trace_page_uplot_licence);
	page_put_part(o.file, "\n-->\n<script>\n", trace_page_uplot);
	page_put_part(o.file, "\n</script>\n<script>\n", trace_page_data);
	page_put_part(o.file, "</script>\n<script>\n", trace_page_view);
	page_put_part(o.file, "</script>\n<script>\n", trace_page_charts);
	fputs("</script>\n</body></html>\n", o.file);
	return trace_output_close(&o, code ? code : trace_interrupted());
}
