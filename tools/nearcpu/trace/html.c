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

#include "common/tool.h"

/* ---- the events ---- */

struct stream {
	FILE *file;
	size_t count;
	unsigned char bytes[3 * 8192];
};

/* The base64 of the bytes; only the last ones need not be a multiple of three. */
static void flush(struct stream *s)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char text[sizeof(s->bytes) / 3 * 4], *out = text;

	for (size_t i = 0; i < s->count; i += 3, out += 4) {
		size_t left = s->count - i;
		uint32_t bits = (uint32_t)s->bytes[i] << 16;

		bits |= left > 1 ? (uint32_t)s->bytes[i + 1] << 8 : 0;
		bits |= left > 2 ? s->bytes[i + 2] : 0;
		out[0] = digits[bits >> 18];
		out[1] = digits[bits >> 12 & 63];
		out[2] = left > 1 ? digits[bits >> 6 & 63] : '=';
		out[3] = left > 2 ? digits[bits & 63] : '=';
	}
	fwrite(text, 1, (size_t)(out - text), s->file);
	putc_unlocked('\n', s->file);
	s->count = 0;
}

static void put_byte(struct stream *s, unsigned char byte)
{
	s->bytes[s->count++] = byte;
	if (s->count == sizeof(s->bytes))
		flush(s);
}

static void put_number(struct stream *s, uint64_t n)
{
	for (; n >= 0x80; n >>= 7)
		put_byte(s, (unsigned char)(n | 0x80));
	put_byte(s, (unsigned char)n);
}

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

static void put_event(struct stream *s, const struct trace_event *e, uint64_t elapsed)
{
	uint32_t size = payload_size(e);

	put_number(s, elapsed);
	put_number(s, (uint64_t)e->point->index << 1 | ((e->flags & NEAR__TRACE_CUT) != 0));
	put_number(s, e->cpu);
	put_number(s, e->tid);
	put_number(s, size);
	for (uint32_t i = 0; i < size; i++)
		put_byte(s, (unsigned char)e->payload[i]);
}

/* Returns their number. They are in the order of their times. */
static uint64_t put_events(FILE *file, struct trace *t)
{
	struct stream s = {.file = file};
	uint64_t last = t->begin, events = 0;
	struct trace_event e;

	while (!trace_must_stop(file) && trace_next(t, &e)) {
		put_event(&s, &e, e.ns > last ? e.ns - last : 0);
		last = e.ns > last ? e.ns : last;
		events++;
	}
	flush(&s);
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

/* No text of a trace may end the script: JSON has "<" in strings alone. */
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
	for (size_t i = 0; !failed && i < size; i++)
		if (text[i] == '<')
			fputs("\\u003c", out);
		else
			putc_unlocked(text[i], out);
	free(text);
	return failed ? failure("trace", "not enough memory") : EXIT_DONE;
}

/* ---- the page ---- */

static void put_part(FILE *out, const char *before, const unsigned char *part)
{
	fprintf(out, "%s%s", before, (const char *)part);
}

int trace_html(struct trace *t, const struct trace_page *page)
{
	struct trace_output o;
	uint64_t events;
	int code = trace_output_open(&o, page->path);

	if (code)
		return trace_output_close(&o, code);
	put_part(o.file, "", trace_page_begin);
	put_part(o.file, "<style>\n", trace_page_uplot_css);
	fputs("\n</style>\n<script id=\"events\" type=\"text/plain\">\n", o.file);
	events = put_events(o.file, t);
	fputs("</script>\n<script id=\"description\" type=\"application/json\">\n", o.file);
	code = put_json(o.file, t, events, page);
	put_part(o.file, "\n</script>\n<!--\n", trace_page_uplot_licence);
	put_part(o.file, "\n-->\n<script>\n", trace_page_uplot);
	put_part(o.file, "\n</script>\n<script>\n", trace_page_data);
	put_part(o.file, "</script>\n<script>\n", trace_page_view);
	put_part(o.file, "</script>\n<script>\n", trace_page_charts);
	fputs("</script>\n</body></html>\n", o.file);
	return trace_output_close(&o, code ? code : trace_interrupted());
}
