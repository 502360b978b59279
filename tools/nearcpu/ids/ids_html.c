/* SPDX-License-Identifier: MIT */
/* nearcpu ids --html: one page with its spans, styles and scripts.
 *
 * The spans are numbers of 7 bits a byte, in base64, which page/data.js decodes: of each span its
 * lane, begin, length, and CPU, cid and node plus one. The rest is JSON. */
#include "ids/ids.h"

#include <stdlib.h>

#include "common/memory.h"
#include "common/output.h"
#include "common/page.h"

static void put_spans(FILE *out, const struct ids *f)
{
	struct page_stream s = {.file = out};

	for (unsigned i = 0; i < f->span_count; i++) {
		const struct ids_span *span = &f->spans[i];

		page_put_number(&s, span->lane);
		page_put_number(&s, span->begin);
		page_put_number(&s, span->end - span->begin);
		/* 0: unknown. */
		page_put_number(&s, (uint64_t)span->place.cpu + 1);
		page_put_number(&s, (uint64_t)span->place.cid + 1);
		page_put_number(&s, (uint64_t)span->place.node + 1);
	}
	page_flush(&s);
}

static json_t *describe(const struct ids *f)
{
	json_t *json = ids_json(f), *lanes = json_array(), *names = json_object();

	for (unsigned i = 0; i < f->lane_count; i++)
		json_array_append_new(lanes, json_pack("[i, i, s]", f->lanes[i].tid,
						       (int)f->lanes[i].process, f->lanes[i].name));
	for (int i = 0; i < IDS_KINDS; i++)
		json_object_set_new(names, ids_data_names[i].key,
				    json_string(ids_data_names[i].text));
	json_object_set_new(json, "lanes", lanes);
	json_object_set_new(json, "names", names);
	json_object_set_new(json, "spans", json_integer(f->span_count));
	json_object_set_new(json, "version", json_string(NEARCPU_VERSION));
	return json;
}

int ids_html(const struct ids *f, const char *path)
{
	struct memory_file page;
	FILE *out = memory_open(&page);
	int code;

	page_put_part(out, "", ids_page_begin);
	fputs("<script id=\"spans\" type=\"text/plain\">\n", out);
	put_spans(out, f);
	fputs("</script>\n<script id=\"description\" type=\"application/json\">\n", out);
	page_put_json(out, describe(f));
	page_put_part(out, "\n</script>\n<script>\n", ids_page_data);
	page_put_part(out, "</script>\n<script>\n", ids_page_view);
	fputs("</script>\n</body></html>\n", out);
	memory_close(&page);
	code = output_write("ids", path, page.text, page.size);
	free(page.text);
	return code;
}
