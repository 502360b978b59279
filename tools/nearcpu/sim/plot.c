/* SPDX-License-Identifier: MIT */
/* The figures as a drawing, by gnuplot: of each load the profile and the copies in use. */
#include "common/child.h"
#include "sim/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define WIDTH 1200
#define HEIGHT 320 /* of a load */
#define TIMEOUT_S 60

static const char *const colours[ROW_COUNT] = {"#9aa3ad", "#1f9d73", "#5fb7d4",
					       "#8e6fb8", "#c39a3b", "#c0504d",
					       "#7d5a3c", "#e08fb0", "#404a55"};

static void put_data(FILE *f, const struct sim_report *r, unsigned load)
{
	fprintf(f, "$load%u << END\n", load);
	for (unsigned i = 0; i < r->policy_count; i++) {
		const struct sim_result *p = &r->results[load][i];

		fprintf(f, "%s", p->policy.name);
		for (unsigned row = 0; row < ROW_COUNT; row++)
			fprintf(f, " %g", p->row[row]);
		fprintf(f, " %llu %llu %llu %llu\n", (unsigned long long)p->by_cpu,
			(unsigned long long)p->by_thread, (unsigned long long)p->by_id,
			(unsigned long long)p->by_node_id);
	}
	fprintf(f, "END\n");
}

static void put_load(FILE *f, const struct sim_report *r, unsigned load)
{
	static const char *const kinds[] = {"cpu", "thread", "cid", "(node, cid)"};

	fprintf(f,
		"set style histogram rowstacked\nset title '%s: %% of operations'\n"
		"unset logscale y\nset yrange [0:100]\nplot ",
		r->loads[load]->name);
	for (unsigned row = 0; row < ROW_COUNT; row++)
		fprintf(f, "%s$load%u using %u%s lc rgb '%s' title '%s'", row ? ", " : "", load,
			row + 2, row ? "" : ":xtic(1)", colours[row], sim_row_keys[row]);
	fprintf(f,
		"\nset style histogram clustered gap 1\nset title '%s: copies in use'\n"
		"set logscale y\nset yrange [.8:*]\nplot ",
		r->loads[load]->name);
	for (unsigned kind = 0; kind < 4; kind++)
		fprintf(f, "%s$load%u using %u%s lc rgb '%s' title 'per %s'", kind ? ", " : "",
			load, ROW_COUNT + 2 + kind, kind ? "" : ":xtic(1)", colours[kind],
			kinds[kind]);
	fputc('\n', f);
}

static char *script(const struct sim_report *r)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (unsigned load = 0; load < r->load_count; load++)
		put_data(f, r, load);
	fprintf(f,
		"set terminal svg size %d,%u dynamic noenhanced font 'sans-serif,11' background "
		"rgb 'white'\nset multiplot layout %u,2\nset style data histogram\n"
		"set style fill solid 1 noborder\nset boxwidth .8\nset key outside right samplen 1 "
		"font ',10'\n"
		"set xtics rotate by -30 nomirror scale 0 font ',10'\n"
		"set ytics nomirror\nset border 3\n",
		WIDTH, HEIGHT * r->load_count, r->load_count);
	for (unsigned load = 0; load < r->load_count; load++)
		put_load(f, r, load);
	fprintf(f, "unset multiplot\n");
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

int sim_plot(const struct sim_report *r, char **out)
{
	static const char *const argv[] = {"gnuplot", "-", NULL};
	struct child child = {.argv = argv, .timeout_s = TIMEOUT_S};
	struct child_result result = {0};
	char *input = script(r);
	int err;

	*out = NULL;
	if (!input)
		return -ENOMEM;
	child.input = input;
	err = child_run(&child, &result);
	free(input);
	if (err)
		return err;
	if (WIFEXITED(result.status) && !WEXITSTATUS(result.status) &&
	    strstr(result.out, "</svg>")) {
		*out = result.out;
		return 0;
	}
	free(result.out);
	return -EIO;
}
