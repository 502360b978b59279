/* SPDX-License-Identifier: MIT */
/* The page: its template with the JSON, from which its script makes charts and tables. */
#include "program/report.h"

#include <errno.h>
#include <stdio.h>

#include "common/page.h"

int report_page(const struct report *report, char **out)
{
	json_t *json = report_json(report);
	size_t size;
	FILE *f = json ? open_memstream(out, &size) : NULL;

	if (f) {
		page_put_part(f, "", bench_page_begin);
		page_put_part(f, "<style>\n", bench_page_style);
		fputs("</style>\n<script id=\"data\" type=\"application/json\">\n", f);
		page_put_json(f, json);
		page_put_part(f, "\n</script>\n<script>\n", bench_page_view);
		fputs("</script>\n</main></body></html>\n", f);
	}
	return f && fclose(f) == 0 ? 0 : -ENOMEM;
}
