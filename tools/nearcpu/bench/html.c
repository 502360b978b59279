/* SPDX-License-Identifier: MIT */
/* The page: the machine, an overview, each table. */
#include "bench/suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void term(FILE *f, const char *name, const char *text)
{
	fprintf(f, "<dt>%s</dt><dd>", name);
	html_text(f, text);
	fprintf(f, "</dd>\n");
}

static void machine(FILE *f, const struct machine *m)
{
	const struct near_rseq_status *st = &m->rseq;
	char line[400];

	fprintf(f, "<dl>\n");
	term(f, "Processor", m->processor);
	snprintf(line, sizeof(line),
		 "%u possible, %u online, %u allowed; %u node%s; %.1f GiB of memory",
		 m->possible.count, m->online.count, m->allowed.count, st->nodes,
		 st->nodes == 1 ? "" : "s", (double)m->memory_bytes / (1 << 30));
	term(f, "CPUs", line);
	snprintf(line, sizeof(line), "%s %s, %s", m->kernel.sysname, m->kernel.release,
		 m->kernel.machine);
	term(f, "Kernel", line);
	term(f, "C library", m->libc);
	snprintf(line, sizeof(line), "%s: %s", st->live ? "live" : "not live", st->why);
	term(f, "rseq", line);
	snprintf(line, sizeof(line), "%u by %s: %s", st->slots, machine_slot_kind(st->slot_kind),
		 st->slot_why);
	term(f, "Slots", line);
	if (m->conf)
		term(f, "NEAR_CONF", m->conf);
	term(f, "Built by", COMPILER);
	fprintf(f, "</dl>\n");
}

static void head(FILE *f, const struct report *report)
{
	const struct machine *m = &report->machine;
	char when[64], line[400];

	strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", gmtime(&report->started));
	fprintf(f, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
		   "<title>nearcpu bench: ");
	html_text(f, m->processor);
	fprintf(f,
		"</title>\n<style>%s</style></head>\n<body><main>\n<h1>nearcpu bench</h1>\n"
		"<p class=\"lead\">",
		html_style);
	html_text(f, m->processor);
	fprintf(f, ", %u CPU%s, on %s. nearcpu %s, %.0f seconds%s.</p>\n", m->allowed.count,
		m->allowed.count == 1 ? "" : "s", when, NEARCPU_VERSION, report->seconds,
		report->options.quick ? ", short measurements (--quick)" : "");
	if (load_warning(&report->load, line, sizeof(line)))
		fprintf(f, "<p><strong>%s</strong></p>\n", line);
	if (!m->has_gnuplot)
		fprintf(f, "<p>There are no charts: gnuplot is not installed.</p>\n");
}

static void overview_row(FILE *f, const struct table_result *t, size_t number)
{
	const struct row_result *own = default_row(t), *best = own ? best_other(t, own) : NULL;
	char title[160];

	table_title(t, title, sizeof(title));
	fprintf(f, "<tr><th scope=\"row\"><a href=\"#t%zu\">", number);
	html_text(f, title);
	fprintf(f, "</a></th><td>%s</td><td>",
		own ? say_cost(t->bench->kind, row_cost(t, own).median).text : "-");
	html_text(f, own ? own->row->label : "-");
	if (best) {
		fprintf(f, "</td><td>%s</td><td>",
			say_cost(t->bench->kind, row_cost(t, best).median).text);
		html_text(f, best->row->label);
		fprintf(f, "</td><td%s>%s</td></tr>\n", row_loses(t, own) ? " class=\"worse\"" : "",
			say_ratio(cost_ratio(t, best, own).median).text);
	} else {
		fprintf(f, "</td><td>-</td><td>-</td><td>-</td></tr>\n");
	}
}

/* What every table has, before the first of them. */
static void legend(FILE *f)
{
	fprintf(f,
		"<dl class=\"legend\">\n"
		"<dt>ratio</dt><dd>how many operations a row does for the cost of one of the "
		"best other row: above 1 is a gain, below 1 a loss. 1/8 is one operation for the "
		"cost of eight. Where a table compares with another row or measure, it names "
		"it.</dd>\n"
		"<dt>*</dt><dd>a yardstick: it does less than the others, and shows what the "
		"rest costs. It is not one of the others.</dd>\n"
		"<dt>~</dt><dd>it ran fewer operations; its times are in proportion.</dd>\n"
		"<dt>reached, missed</dt><dd>whether this run kept a bound that the project set "
		"itself beforehand.</dd>\n"
		"<dt>spread</dt><dd>the distance of the quartiles in proportion to the "
		"median.</dd></dl>\n");
}

static void overview(FILE *f, const struct report *report)
{
	legend(f);
	fputs("<div class=\"scroll\"><table><caption>What a program gets of nearcpu without "
	      "settings, next to the cheapest of the others.</caption>\n<thead><tr><td></td>"
	      "<th scope=\"col\">nearcpu</th><th scope=\"col\">its row</th>"
	      "<th scope=\"col\">best other</th><th scope=\"col\">which other</th>"
	      "<th scope=\"col\">ratio</th></tr></thead>\n<tbody>\n",
	      f);
	for (size_t i = 0; i < report->count; i++)
		if (!report->tables[i].bench->together)
			overview_row(f, &report->tables[i], i);
	fprintf(f, "</tbody></table></div>\n");
}

static void foot(FILE *f)
{
	fprintf(f,
		"<footer class=\"soft\"><p>Each measurement ran in a process of its own, started "
		"with the row's settings; the repetitions of a table's rows were interleaved. "
		"Costs are CPU time (user and system) of all threads, of locks, parking and "
		"atomics wall time; shown are medians.</p></footer>\n</main></body></html>\n");
}

static int tables(FILE *f, const struct report *report)
{
	int err;

	for (size_t i = 0; i < report->count; i++) {
		char *svg = NULL;

		if (report->tables[i].bench->together)
			continue;
		err = report->machine.has_gnuplot ? plot_svg(&report->tables[i], &svg) : 0;

		if (err)
			return err;
		html_table(f, &report->tables[i], i, svg);
		free(svg);
	}
	return 0;
}

int report_html(const struct report *report, char **out)
{
	size_t size;
	FILE *f = open_memstream(out, &size);
	int err;

	if (!f)
		return -ENOMEM;
	head(f, report);
	machine(f, &report->machine);
	overview(f, report);
	err = tables(f, report);
	suite_html(f, report);
	foot(f);
	if (fclose(f) && !err)
		err = -ENOMEM;
	if (err) {
		free(*out);
		*out = NULL;
	}
	return err;
}
