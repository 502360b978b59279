/* SPDX-License-Identifier: MIT */
/* A table in the page, and escaped text. */
#include "bench/html.h"

#include <string.h>

static const char *const roles[] = {"peer", "ours", "yardstick"};

void html_text(FILE *f, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", f);
			break;
		case '>':
			fputs("&gt;", f);
			break;
		case '&':
			fputs("&amp;", f);
			break;
		case '"':
			fputs("&quot;", f);
			break;
		default:
			fputc(*text, f);
		}
	}
}

static void row(FILE *f, const struct table_result *t, const struct row_result *r,
		const struct column *const *columns, size_t n)
{
	fprintf(f, "<tr class=\"%s%s\"><th scope=\"row\">", roles[r->row->role],
		r->count && r->row->role == BENCH_OURS && row_loses(t, r) ? " loss" : "");
	html_text(f, r->row->label);
	fprintf(f, "%s%s</th>", r->row->role == BENCH_YARDSTICK ? " *" : "",
		row_is_scaled(t, r) ? " ~" : "");
	if (!r->count) {
		fprintf(f, "<td class=\"why\" colspan=\"%zu\">%s: ", n,
			r->failed ? "failed" : "not measured");
		html_text(f, r->note);
		fprintf(f, "</td>");
	}
	for (size_t i = 0; i < n && r->count; i++)
		fprintf(f, "<td>%s</td>", columns[i]->cell(t, r).text);
	fprintf(f, "</tr>\n");
}

static void table(FILE *f, const struct table_result *t)
{
	const struct column *columns[MAX_COLUMNS];
	size_t n = table_columns(t, columns);
	char line[200];

	table_conditions(t, line, sizeof(line));
	fprintf(f, "<div class=\"scroll\"><table><caption>");
	html_text(f, line);
	fprintf(f, "</caption>\n<thead><tr><td></td>");
	for (size_t i = 0; i < n; i++)
		fprintf(f, "<th scope=\"col\">%s</th>", columns[i]->head);
	fprintf(f, "</tr></thead>\n<tbody>\n");
	for (size_t i = 0; i < t->bench->row_count; i++)
		row(f, t, &t->rows[i], columns, n);
	fprintf(f, "</tbody></table></div>\n");
}

static void figure(FILE *f, const struct table_result *t, const struct bench_figure *figure)
{
	char line[300], *end;

	if (!figure_line(t, figure, line, sizeof(line)))
		return;
	end = strrchr(line, ':');
	*end = 0;
	fprintf(f, "<li>");
	html_text(f, line + strspn(line, " "));
	fprintf(f, ": <span class=\"%s\">%s</span></li>\n", end + 2, end + 2);
}

static void chart(FILE *f, const char *svg)
{
	static const char keys[] = "<span class=\"key peer\"></span>others"
				   "<span class=\"key ours\"></span>nearcpu"
				   "<span class=\"key yardstick\"></span>yardstick";

	if (svg)
		fprintf(f, "<figure>\n%s<figcaption>%s. Shorter is better.</figcaption></figure>\n",
			svg, keys);
}

void html_table(FILE *f, const struct table_result *t, size_t number, const char *svg)
{
	char line[1200];

	table_title(t, line, sizeof(line));
	fprintf(f, "<section id=\"t%zu\"><h2>", number);
	html_text(f, line);
	fprintf(f, "</h2>\n<p>");
	html_text(f, t->bench->text);
	table_verdict(t, line, sizeof(line));
	fprintf(f, "</p>\n<p class=\"verdict%s\">", table_loses(t) ? " loss" : "");
	html_text(f, line);
	fprintf(f, "</p>\n");
	chart(f, svg);
	table(f, t);
	fprintf(f, "<ul class=\"figures\">\n");
	for (size_t i = 0; i < t->bench->figure_count; i++)
		figure(f, t, &t->bench->figures[i]);
	fprintf(f, "</ul></section>\n");
}
