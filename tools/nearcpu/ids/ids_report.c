/* SPDX-License-Identifier: MIT */
/* What was seen, as text and as JSON. */
#include "ids/ids.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/launch.h"
#include "common/memory.h"
#include "common/text.h"

#define MOST_LINES 10 /* of processes, as text */

const struct ids_data_name ids_data_names[IDS_KINDS] = {
	{"per possible CPU", "possible_cpus"},
	{"per CPU used", "cpus_used"},
	{"per thread alive", "threads_alive"},
	{"per thread ever", "threads_ever"},
	{"per cid", "cids"},
	{"per (node, cid)", "node_cids"},
};

static struct word set_list(const struct id_set *set)
{
	struct word w = word("%s", set->count ? "" : "unknown");

	say_set(&(struct text){w.text, sizeof(w.text)}, set->ids, set->count, 28);
	return w;
}

static struct word bytes(uint64_t n)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)n;
	unsigned unit = 0;

	for (; value >= 10240 && unit < 6; unit++)
		value /= 1024;
	return word("%.0f %s", value, units[unit]);
}

static struct word counted(uint64_t n, const char *one, const char *many)
{
	return word("%" PRIu64 " %s", n, n == 1 ? one : many);
}

/* ---- what is unknown or left out ---- */

static void add_notice(json_t *notices, const char *text)
{
	json_array_append_new(notices, json_string(text));
}

static json_t *notices_of(const struct ids *f)
{
	const bool one = f->without_area == 1;
	json_t *all = json_array();

	if (!f->with_areas)
		add_notice(all, "this kernel does not report rseq areas (before 5.13): all ids are "
				"unknown");
	else if (!f->with_cid)
		add_notice(all, "this kernel has no concurrency ids (before 6.3): all ids are "
				"unknown");
	if (f->with_areas && f->without_area)
		json_array_append_new(all, json_sprintf("%u %s no registration; %s ids are unknown",
							f->without_area,
							one ? "thread has" : "threads have",
							one ? "its" : "their"));
	if (f->unreadable)
		add_notice(all, "the memory of a process may not be read: its ids are unknown");
	if (f->gap > f->interval)
		json_array_append_new(all, json_sprintf("the page has one place in %.1f ms",
							(double)f->gap / 1e3));
	if (f->others)
		add_notice(all, word("the first %d processes are listed", IDS_MOST_PROCESSES).text);
	if (f->lane_count == IDS_MOST_LANES)
		add_notice(all, word("the page has the first %d threads", IDS_MOST_LANES).text);
	return all;
}

/* ---- text ---- */

static void print_notices(const struct ids *f)
{
	json_t *notices = notices_of(f);

	for (size_t i = 0; i < json_array_size(notices); i++)
		fprintf(stderr, "nearcpu ids: %s\n", json_string_value(json_array_get(notices, i)));
	json_decref(notices);
}

static int by_threads(const void *a, const void *b)
{
	const struct ids_process *const *p = a, *const *q = b;
	const unsigned *m = (*p)->most, *n = (*q)->most;

	if (m[IDS_ALIVE] != n[IDS_ALIVE])
		return m[IDS_ALIVE] < n[IDS_ALIVE] ? 1 : -1;
	if (m[IDS_EVER] != n[IDS_EVER])
		return m[IDS_EVER] < n[IDS_EVER] ? 1 : -1;
	return (*p)->index < (*q)->index ? -1 : 1;
}

static void print_processes(const struct ids *f)
{
	struct ids_process **order = allocate_zeros(f->process_count, sizeof(struct ids_process *));
	unsigned shown = f->process_count < MOST_LINES ? f->process_count : MOST_LINES;

	memcpy(order, f->processes, f->process_count * sizeof(struct ids_process *));
	qsort(order, f->process_count, sizeof(struct ids_process *), by_threads);
	fprintf(stderr, "\n%8s %-16s %7s %7s  %-16s %-16s %s\n", "process", "name", "threads",
		"at most", "cids", "CPUs", "nodes");
	for (unsigned i = 0; i < shown; i++) {
		const struct ids_process *p = order[i];

		fprintf(stderr, "%8d %-16s %7u %7u  %-16s %-16s %s\n", p->pid, p->name,
			p->most[IDS_EVER], p->most[IDS_ALIVE], set_list(&p->cids).text,
			set_list(&p->cpus).text, set_list(&p->nodes).text);
	}
	if (f->process_total > shown)
		fprintf(stderr, "     and %u more\n", f->process_total - shown);
	free(order);
}

static void print_copies(const struct ids *f, unsigned copies)
{
	if (copies)
		fprintf(stderr, " %9u %11s", copies, bytes(copies * f->size).text);
	else
		fprintf(stderr, " %9s %11s", "-", "unknown");
}

static void print_data(const struct ids *f)
{
	const bool several = f->process_total > 1;

	fprintf(stderr, several ? "\n%-22s %21s%s\n" : "\n%s\n",
		word("copies of %s", bytes(f->size).text).text,
		several ? "the largest process" : "", several ? "   all, at one moment" : "");
	for (int i = 0; i < IDS_KINDS; i++) {
		fprintf(stderr, "  %-20s", ids_data_names[i].text);
		print_copies(f, f->largest[i]);
		if (several)
			print_copies(f, f->most[i]);
		fputc('\n', stderr);
	}
}

void ids_print(const struct ids *f)
{
	double wall = f->end_s - f->begin_s;

	launch_print_end("ids", f->argv[0], f->status);
	print_notices(f);
	fprintf(stderr, "%.3f s; %s; %s, at most %u at a time; %s, one in %.1f ms\n", wall,
		counted(f->process_total, "process", "processes").text,
		counted(f->thread_total, "thread", "threads").text, f->most[IDS_ALIVE],
		counted(f->samples, "sample", "samples").text, wall * 1e3 / (double)f->samples);
	print_processes(f);
	print_data(f);
}

/* ---- JSON ---- */

static json_t *set_json(const struct id_set *set)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < set->count; i++)
		json_array_append_new(array, json_integer(set->ids[i]));
	return array;
}

static json_t *processes_json(const struct ids *f)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < f->process_count; i++) {
		const struct ids_process *p = f->processes[i];

		json_array_append_new(
			array, json_pack("{s:i, s:s, s:i, s:i, s:o, s:o, s:o, s:i}", "pid", p->pid,
					 "name", p->name, "threads", p->most[IDS_EVER], "at_most",
					 p->most[IDS_ALIVE], "cids", set_json(&p->cids), "cpus",
					 set_json(&p->cpus), "nodes", set_json(&p->nodes),
					 "node_cids", p->pairs.count));
	}
	return array;
}

/* Null copies: unknown. */
static json_t *copies_json(unsigned n)
{
	return n ? json_integer(n) : json_null();
}

static json_t *data_json(const struct ids *f)
{
	json_t *data = json_object();

	for (int i = 0; i < IDS_KINDS; i++)
		json_object_set_new(data, ids_data_names[i].key,
				    json_pack("{s:o, s:o}", "largest_process",
					      copies_json(f->largest[i]), "all_at_one_moment",
					      copies_json(f->most[i])));
	return data;
}

json_t *ids_json(const struct ids *f)
{
	json_t *json = json_pack(
		"{s:o, s:f, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:o, s:I, s:o, s:o}", "program",
		launch_arguments_json(f->argv), "wall_s", f->end_s - f->begin_s, "interval_us",
		(json_int_t)f->interval, "samples", (json_int_t)f->samples, "possible_cpus",
		(int)f->machine.possible.count, "processes_ever", (int)f->process_total,
		"threads_ever", (int)f->thread_total, "threads_at_most", (int)f->most[IDS_ALIVE],
		"threads_without_registration", (int)f->without_area, "notices", notices_of(f),
		"copy_bytes", (json_int_t)f->size, "copies", data_json(f), "processes",
		processes_json(f));
	launch_end_json(json, f->status);
	return json;
}
