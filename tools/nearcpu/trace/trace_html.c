/* SPDX-License-Identifier: MIT */
/* nearcpu trace show --html: one page with its events, its styles and its scripts.
 *
 * The events are base64 of one stream of bytes, which page/data.js decodes: of each event the time
 * since the one before, the tracepoint's index and whether strings were cut, CPU, thread and
 * payload size, as numbers of 7 bits a byte, the lowest first, and the payload as the ring had it.
 * What is known at the end alone follows as JSON. */
#include "trace/pairs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/page.h"

/* ---- the events ---- */

/* Without the zeros behind the fields. The addresses of call stacks are looked up. */
static uint32_t payload_size(const struct trace_event *e)
{
	struct trace_cursor c = trace_fields(e);

	while (trace_next_field(&c))
		for (uint32_t i = 0; c.field->is_stack && i < c.value.count; i++)
			trace_address(c.field, trace_load_unsigned(c.value.data + 8 * i, 8));
	return (uint32_t)(c.at - e->payload);
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

/* Of any bytes. */
static json_t *text_json(const char *text)
{
	struct memory_file quoted;
	json_t *json;

	trace_print_string(memory_open(&quoted), text, strlen(text), TRACE_AS_JSON);
	memory_close(&quoted);
	json = json_loads(quoted.text, JSON_DECODE_ANY, NULL);
	free(quoted.text);
	return json;
}

static json_t *fields_json(const struct trace_point *p)
{
	static const char kinds[] = "uixfbesy"; /* as enum trace_kind */
	json_t *fields = json_array();

	for (const struct trace_field *f = p->fields; f < p->fields + p->field_count; f++) {
		json_t *labels = json_array();

		for (unsigned i = 0; i < f->label_count; i++)
			json_array_append_new(labels,
					      json_pack("[I, s]", (json_int_t)f->labels[i].value,
							f->labels[i].name));
		json_array_append_new(fields,
				      json_pack("{s:s, s:s#, s:i, s:b, s:o}", "name", f->name,
						"kind", &kinds[f->kind], 1, "size", (int)f->size,
						"counted", f->counted, "labels", labels));
	}
	return fields;
}

static json_t *points_json(const struct trace *t)
{
	json_t *points = json_array();

	for (unsigned i = 0; i < t->point_count; i++) {
		const struct trace_point *p = t->points[i];

		if (!p->selected || (p->unknown && !p->count))
			continue;
		json_array_append_new(points,
				      json_pack("{s:i, s:i, s:I, s:s, s:s, s:o, s:o}", "index",
						(int)p->index, "file", (int)(p->file - t->files),
						"count", (json_int_t)p->count, "name", p->name,
						"level", trace_level_name(p->level), "place",
						text_json(p->place), "fields", fields_json(p)));
	}
	return points;
}

static json_t *files_json(const struct trace *t)
{
	json_t *files = json_array();

	for (const struct trace_file *f = t->files; f < t->files + t->file_count; f++)
		json_array_append_new(
			files, json_pack("{s:O?, s:o, s:s, s:o, s:I, s:b}", "symbols", f->symbols,
					 "path", text_json(f->path), "program", f->program, "pid",
					 json_sprintf("%" PRIu64, f->session.pid), "begin_ms",
					 (json_int_t)(f->session.begin.realtime_ns / 1000000),
					 "sched", (f->session.flags & NEAR__TRACE_IS_SCHED) != 0));
	return files;
}

/* Lines, as show has them. */
static json_t *losses_json(const struct trace *t)
{
	struct memory_file lines;
	json_t *json;

	trace_print_losses(memory_open(&lines), t, "", false);
	memory_close(&lines);
	json = json_string(lines.text);
	free(lines.text);
	return json;
}

static json_t *describe(const struct trace *t, uint64_t events, const struct trace_wanted *page)
{
	return json_pack("{s:I, s:b, s:s, s:o, s:o, s:o, s:o, s:o}", "events", (json_int_t)events,
			 "little", __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "version",
			 NEARCPU_VERSION, "between", text_json(page->between ? page->between : ""),
			 "by", text_json(page->by ? page->by : ""), "files", files_json(t),
			 "points", points_json(t), "losses", losses_json(t));
}

/* ---- the page ---- */

int trace_html(struct trace *t, const struct trace_wanted *page)
{
	struct output o;
	uint64_t events;
	struct trace_pairs pairs;
	int code = trace_pairs_init(&pairs, t, page->between, page->by);

	trace_pairs_free(&pairs);
	if (code)
		return code;
	code = output_open(&o, "trace", page->path);
	if (code)
		return output_close(&o, code);
	page_put_part(o.file, "", trace_page_begin);
	page_put_part(o.file, "<style>\n", trace_page_uplot_css);
	fputs("\n</style>\n<script id=\"events\" type=\"text/plain\">\n", o.file);
	events = put_events(o.file, t);
	fputs("</script>\n<script id=\"description\" type=\"application/json\">\n", o.file);
	page_put_json(o.file, describe(t, events, page));
	page_put_part(o.file, "\n</script>\n<!--\n", trace_page_uplot_licence);
	page_put_part(o.file, "\n-->\n<script>\n", trace_page_uplot);
	page_put_part(o.file, "\n</script>\n<script>\n", trace_page_data);
	page_put_part(o.file, "</script>\n<script>\n", trace_page_view);
	page_put_part(o.file, "</script>\n<script>\n", trace_page_charts);
	fputs("</script>\n</body></html>\n", o.file);
	return output_close(&o, child_report_interrupt("trace"));
}
