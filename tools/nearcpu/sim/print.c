/* SPDX-License-Identifier: MIT */
/* The tables of nearcpu sim. */
#include "common/text.h"
#include "sim/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LABEL 25
#define COLUMN 8

static void put_label(const char *label)
{
	printf("%-*s", LABEL, label);
}

static void put_number(double value, int decimals)
{
	printf("%*.*f", COLUMN, decimals, value);
}

static void put_share(double percent)
{
	put_number(percent, percent > 0 && percent < 1 ? 3 : percent < 10 ? 2 : 1);
}

static void put_bytes(double bytes)
{
	static const char *const units[] = {"", " K", " M", " G", " T"};
	unsigned unit = 0;

	for (; bytes >= 10000 && unit < 4; unit++)
		bytes /= 1024;
	printf("%*s", COLUMN, word("%.0f%s", bytes, units[unit]).text);
}

/* "2022-single" is "-single" below a column of 2022. */
static void put_heads(const struct sim_report *r, const char *label)
{
	put_label(label);
	for (unsigned i = 0; i < r->policy_count; i++) {
		const char *name = r->policies[i].name, *part = strchr(name, '-');

		printf("%*s", COLUMN, part ? part : name);
	}
	putchar('\n');
}

static void print_profile(const struct sim_report *r, const struct sim_result *results)
{
	put_heads(r, "% of operations");
	for (unsigned row = 0; row < ROW_COUNT; row++) {
		put_label(sim_row_names[row]);
		for (unsigned i = 0; i < r->policy_count; i++)
			put_share(results[i].row[row]);
		putchar('\n');
	}
}

/* Each figure of a run, by its label. */
static double figure(const struct sim_result *r, unsigned i)
{
	const double values[] = {r->atomics,  r->kept,     r->node_changes,
				 r->ids_mean, r->ids_most, r->id_highest};

	return values[i];
}

static void print_figures(const struct sim_report *r, const struct sim_result *results)
{
	static const struct {
		const char *label;
		int decimals;
	} rows[] = {
		{"atomic ops per switch", 3}, {"switches keep id, %", 2},
		{"data changes node, %", 3},  {"ids in use, mean", 2},
		{"ids in use, most", 0},      {"highest id", 0},
	};

	for (unsigned row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		put_label(rows[row].label);
		for (unsigned i = 0; i < r->policy_count; i++)
			put_number(figure(&results[i], row), rows[row].decimals);
		putchar('\n');
	}
}

static void print_memory(const struct sim_report *r, const struct sim_result *results)
{
	static const char *const labels[] = {"bytes per cpu", "bytes per thread", "bytes per cid",
					     "bytes per (node, cid)"};

	for (unsigned row = 0; row < 4; row++) {
		put_label(labels[row]);
		for (unsigned i = 0; i < r->policy_count; i++) {
			const uint64_t copies[] = {results[i].by_cpu, results[i].by_thread,
						   results[i].by_id, results[i].by_node_id};

			put_bytes((double)copies[row] * (double)r->size);
		}
		putchar('\n');
	}
}

static void print_load(const struct sim_report *r, unsigned load)
{
	const struct sim_result *results = r->results[load];

	printf("\n%s: %s\n%" PRIu64 " switches, %.1f ms, %u process%s\n", results->load->name,
	       results->load->about, results->counts.switches, results->ms, results->processes,
	       results->processes == 1 ? "" : "es");
	print_profile(r, results);
	print_figures(r, results);
	print_memory(r, results);
}

/* ---- the question ---- */

static void print_answer(const struct sim_report *r, unsigned load, unsigned policy)
{
	const struct sim_answer *a = &r->answers[load][policy];
	const struct sim_side means[] = {sim_side_mean(a, 0), sim_side_mean(a, 1)};
	const struct sim_side *off = &means[0], *on = &means[1];

	printf("%-10s %-6s", r->loads[load]->name, r->policies[policy].name);
	printf("%7.0f%7.0f%8.3f%7.3f%9.0f%7.0f%9.1f%7.1f%9.0f%7.0f\n", off->by_node_id,
	       on->by_node_id, off->node_changes, on->node_changes, off->node_migrations,
	       on->node_migrations, off->wait_us, on->wait_us, off->work, on->work);
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
