/* SPDX-License-Identifier: MIT */
/* The tables of nearcpu sim. */
#include "common/text.h"
#include "sim/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LABEL 25
#define COLUMN 8

/* Prints a figure in a column; `how` depends on the kind. */
typedef void put_figure(double value, uint64_t how);

static void put_number(double value, uint64_t decimals)
{
	printf("%*.*f", COLUMN, (int)decimals, value);
}

static void put_share(double percent, uint64_t unused)
{
	(void)unused;
	put_number(percent, percent > 0 && percent < 1 ? 3 : percent < 10 ? 2 : 1);
}

static void put_bytes(double copies, uint64_t size)
{
	static const char *const units[] = {"", " K", " M", " G", " T"};
	double bytes = copies * (double)size;
	unsigned unit = 0;

	for (; bytes >= 10000 && unit < 4; unit++)
		bytes /= 1024;
	printf("%*s", COLUMN, word("%.0f%s", bytes, units[unit]).text);
}

/* "2022-single" is "-single" below a column of 2022. */
static void put_heads(const struct sim_report *r, const char *label)
{
	printf("%-*s", LABEL, label);
	for (unsigned i = 0; i < r->policy_count; i++) {
		const char *name = r->policies[i].name, *part = strchr(name, '-');

		printf("%*s", COLUMN, part ? part : name);
	}
	putchar('\n');
}

/* One figure, a double at this offset of the result, of all policies. */
static void print_row(const struct sim_report *r, const struct sim_result *results,
		      const char *label, size_t offset, put_figure *put, uint64_t how)
{
	printf("%-*s", LABEL, label);
	for (unsigned i = 0; i < r->policy_count; i++)
		put(*(const double *)((const char *)&results[i] + offset), how);
	putchar('\n');
}

static void print_figures(const struct sim_report *r, const struct sim_result *results)
{
	static const struct {
		const char *label;
		size_t offset;
		int decimals;
	} rows[] = {
		{"atomic ops per switch", offsetof(struct sim_result, atomics), 3},
		{"switches keep id, %", offsetof(struct sim_result, kept), 2},
		{"data changes node, %", offsetof(struct sim_result, node_changes), 3},
		{"ids in use, mean", offsetof(struct sim_result, ids_mean), 2},
		{"ids in use, most", offsetof(struct sim_result, ids_most), 0},
		{"highest id", offsetof(struct sim_result, id_highest), 0},
	};
	static const char *const memory[COPY_KINDS] = {"bytes per cpu", "bytes per thread",
						       "bytes per cid", "bytes per (node, cid)"};

	put_heads(r, "% of operations");
	for (unsigned i = 0; i < ROW_COUNT; i++)
		print_row(r, results, sim_rows[i].label, offsetof(struct sim_result, row[i]),
			  put_share, 0);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		print_row(r, results, rows[i].label, rows[i].offset, put_number, rows[i].decimals);
	for (unsigned i = 0; i < COPY_KINDS; i++)
		print_row(r, results, memory[i], offsetof(struct sim_result, copies[i]), put_bytes,
			  r->size);
}

static void print_load(const struct sim_report *r, unsigned load)
{
	const struct sim_result *results = r->results[load];

	printf("\n%s: %s\n%" PRIu64 " switches, %.1f ms, %u process%s\n", results->load->name,
	       results->load->about, results->counts.switches, results->ms, results->processes,
	       results->processes == 1 ? "" : "es");
	print_figures(r, results);
}

/* ---- the question ---- */

static void print_answer(const struct sim_report *r, unsigned load, unsigned policy)
{
	const struct sim_answer *a = &r->answers[load][policy];
	const struct sim_side off = sim_side_mean(a, 0), on = sim_side_mean(a, 1);
	static const struct {
		enum sim_figure figure;
		int width, decimals;
	} columns[] = {{SIDE_NODE_ID, 7, 0},
		       {SIDE_NODE_CHANGES, 8, 3},
		       {SIDE_NODE_MIGRATIONS, 9, 0},
		       {SIDE_WAIT, 9, 1},
		       {SIDE_WORK, 9, 0}};

	printf("%-10s %-6s", r->loads[load]->name, r->policies[policy].name);
	for (unsigned i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		printf("%*.*f%7.*f", columns[i].width, columns[i].decimals,
		       off.figure[columns[i].figure], columns[i].decimals,
		       on.figure[columns[i].figure]);
	putchar('\n');
}

static void print_question(const struct sim_report *r)
{
	char text[800];

	printf("\nShould a migration prefer nodes that have ids already? Without and with it,\n"
	       "means of %u runs:\n\n%-17s%14s%15s%16s%16s%16s\n",
	       r->runs, "", "(node, cid)", "data changes", "tasks change", "wait in", "work");
	printf("%-17s%14s%15s%16s%16s%16s\n", "load and policy", "copies", "node, %", "node",
	       "queue, us", "per ms");
	for (unsigned load = 0; load < r->load_count; load++)
		for (unsigned i = 0; i < r->policy_count; i++)
			if (r->answers[load][i].runs)
				print_answer(r, load, i);
	sim_conclude(r, text, sizeof(text));
	putchar('\n');
	print_wrapped(text, 96, "", "");
}

void sim_print(const struct sim_report *r)
{
	const struct sim_params *p = &r->params;

	printf("%u CPUs (%u in the cpuset), %u node%s, seed %" PRIu64 ", copies of %" PRIu64
	       " bytes\n",
	       p->cpus, p->cpuset->count, p->nodes, p->nodes == 1 ? "" : "s", p->seed, r->size);
	for (unsigned load = 0; load < r->load_count; load++)
		print_load(r, load);
	if (r->runs)
		print_question(r);
}
