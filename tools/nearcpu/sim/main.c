/* SPDX-License-Identifier: MIT */
/* nearcpu sim: how policies of concurrency ids behave under a simulated scheduler. */
#include "common/child.h"
#include "common/cpu_list.h"
#include "common/memory.h"
#include "common/options.h"
#include "common/output.h"
#include "common/text.h"
#include "common/tool.h"
#include "sim/kernel.h"
#include "sim/result.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_SWITCHES 1000000000

static const char *cpus, *nodes, *cpuset, *loads, *policies, *switches, *seed, *size, *groups,
	*threads, *prefer, *json, *plot, *seconds;
static bool kernel, list;
static const char *policy_names[SIM_MOST_POLICIES + 1];

static const struct option_row rows[] = {
	{"cpus", "N", "CPUs, 1 to 4096 (24)", .string = &cpus},
	{"nodes", "N", "NUMA nodes, 1 to 64 (2)", .string = &nodes},
	{"cpuset", "LIST", "the CPUs that tasks may use, as 0-7,12 (all)", .string = &cpuset},
	{"load", "NAME,...", "what the tasks do (all; --list)", .string = &loads,
	 .words = ROWS(sim_loads)},
	{"policy", "NAME,...", "policies of ids (all; --list)", .string = &policies,
	 .words = ROWS(policy_names)},
	{"switches", "N", "context switches of each run (250000)", .string = &switches},
	{"seed", "N", "of the random numbers (1)", .string = &seed},
	{"groups", "N", "of 40 tasks that send messages (by the CPUs)", .string = &groups},
	{"threads", "N", "of the server (two for each CPU)", .string = &threads},
	{"size", "BYTES", "of a copy of data (64)", .string = &size},
	{"prefer", "WHEN",
	 "whether migrations prefer nodes with ids: on, off,\nor both: the "
	 "question (both)",
	 .string = &prefer, .wants = "on, off or both", WORDS("on", "off", "both")},
	{"json", "FILE", "write the figures as JSON; - is standard output", .string = &json},
	{"plot", "FILE", "write them as a drawing, SVG", .string = &plot},
	{"kernel", NULL, "compare with the running kernel (root)", .flag = &kernel},
	{"seconds", "N", "with --kernel: how long its load runs, 1 to 10 (1)", .string = &seconds},
	{"list", NULL, "list loads and policies", .flag = &list},
	{.name = NULL},
};

static const struct option_table table = {
	.sub = "sim",
	.rows = rows,
	.width = 20,
	.head = "usage: nearcpu sim [OPTION...]\n       nearcpu sim --kernel [--seconds N] [--json "
		"FILE]\n\n"
		"Simulates a scheduler and how the kernels' policies hand out concurrency ids:\n"
		"what happens at a switch, how many ids are in use, and what memory data by\n"
		"cpu, by thread and by id has. The same options and seed give the same result.\n\n",
	.tail = "\nExit status: 0 done, 1 failed, 2 wrong usage.\n",
};

/* ---- options ---- */

static int number(const char *name, const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
	if (!text || parse_number(text, least, most, out))
		return EXIT_DONE;
	return usage_error("sim", "--%s wants a number from %llu to %llu, not '%s'", name,
			   (unsigned long long)least, (unsigned long long)most, text);
}

/* "0-3,8"; false if it is no such list, or has a CPU that is not below `limit`. */
static bool parse_set(const char *text, unsigned limit, struct bits *out)
{
	struct cpu_list cpus_in;

	if (!cpu_list_parse(text, limit, &cpus_in))
		return false;
	for (unsigned cpu = 0; cpu < limit; cpu++)
		if (cpu_list_has(&cpus_in, cpu))
			bits_set(out, cpu);
	return true;
}

/* Calls `take` for each name of the list, until one fails. */
static int each_name(const char *names, struct sim_report *r,
		     int (*take)(struct sim_report *r, const char *name))
{
	char *copy = copy_text(names), *rest = copy, *name;
	int code = EXIT_DONE;

	while (!code && (name = strsep(&rest, ",")))
		code = take(r, name);
	free(copy);
	return code;
}

static int take_load(struct sim_report *r, const char *name)
{
	const struct sim_load *l = sim_loads;

	while (l->name && strcmp(l->name, name) != 0)
		l++;
	if (!l->name)
		return unknown_name("sim", "load", name, "; --list has them", ROWS(sim_loads));
	for (unsigned i = 0; i < r->load_count; i++)
		if (r->loads[i] == l)
			return EXIT_DONE;
	r->loads[r->load_count++] = l;
	return EXIT_DONE;
}

static int take_policy(struct sim_report *r, const char *name)
{
	struct sim_policy p;

	if (!sim_find_policy(name, &p))
		return unknown_name("sim", "policy", name, "; --list has them", ROWS(policy_names));
	for (unsigned i = 0; i < r->policy_count; i++)
		if (r->policies[i].name == p.name)
			return EXIT_DONE;
	r->policies[r->policy_count++] = p;
	return EXIT_DONE;
}

static int take_lists(struct sim_report *r)
{
	int code = loads ? each_name(loads, r, take_load) : EXIT_DONE;

	if (!code && policies)
		code = each_name(policies, r, take_policy);
	for (unsigned i = 0; !loads && sim_loads[i].name; i++)
		r->loads[r->load_count++] = &sim_loads[i];
	while (!policies && sim_policy(r->policy_count, &r->policies[r->policy_count]))
		r->policy_count++;
	return code;
}

static int take_numbers(struct sim_report *r, struct bits *set)
{
	uint64_t n = 24, node_count = 2, group_count = 0, thread_count = 0;
	struct sim_params *p = &r->params;
	int code = number("cpus", cpus, 1, SIM_CPUS, &n);

	if (!code && !nodes && n < node_count)
		node_count = n;
	code = code ? code : number("nodes", nodes, 1, n < SIM_NODES ? n : SIM_NODES, &node_count);
	code = code ? code : number("switches", switches, 1, MOST_SWITCHES, &p->switches);
	code = code ? code : number("seed", seed, 0, UINT64_MAX, &p->seed);
	code = code ? code : number("groups", groups, 1, 1000, &group_count);
	code = code ? code : number("threads", threads, 1, 100000, &thread_count);
	code = code ? code : number("size", size, 1, 1ull << 40, &r->size);
	if (code)
		return code;
	if (!parse_set(cpuset ? cpuset : word("0-%u", (unsigned)n - 1).text, (unsigned)n, set))
		return usage_error("sim", "--cpuset wants CPUs below %u as 0-3,8, not '%s'",
				   (unsigned)n, cpuset);
	/* 10 groups, as the source, for its number of CPUs; and tasks enough for all. */
	if (!group_count)
		group_count = set->count <= 32    ? 10
			      : set->count >= 640 ? 200
						  : set->count * 10 / 32;
	p->cpus = (unsigned)n;
	p->nodes = (unsigned)node_count;
	p->groups = (unsigned)group_count;
	p->threads = thread_count ? (unsigned)thread_count : 2 * set->count;
	p->cpuset = set;
	return EXIT_DONE;
}

static int take_options(struct sim_report *r, struct bits *set)
{
	int code;

	r->params.switches = 250000;
	r->params.seed = 1;
	r->size = 64;
	code = take_numbers(r, set);
	code = code ? code : take_lists(r);
	r->params.prefer = prefer && strcmp(prefer, "on") == 0;
	if ((!prefer || strcmp(prefer, "both") == 0) && r->params.nodes > 1)
		r->runs = SIM_RUNS;
	return code;
}

/* ---- runs ---- */

static void progress(unsigned step, unsigned steps, const char *load, const char *policy)
{
	if (!isatty(STDERR_FILENO))
		return;
	if (step < steps)
		fprintf(stderr, "\r\033[K%3u %%  %s, %s", step * 100 / steps, load, policy);
	else
		fprintf(stderr, "\r\033[K");
	fflush(stderr);
}

static void load_answer(struct sim_report *r, unsigned load, unsigned policy)
{
	struct sim_answer *a = &r->answers[load][policy];

	for (unsigned i = 0; i < 2 * r->runs; i++) {
		struct sim_params p = r->params;
		struct sim_result result;

		p.policy = &r->policies[policy];
		p.load = r->loads[load];
		p.prefer = i % 2;
		p.seed += i / 2;
		sim_result(&p, &result);
		a->sides[i / 2][i % 2] = (struct sim_side){
			{[SIDE_NODE_ID] = result.copies[COPY_NODE_ID],
			 [SIDE_ID] = result.copies[COPY_ID],
			 [SIDE_NODE_CHANGES] = result.node_changes,
			 [SIDE_NODE_MIGRATIONS] = (double)result.counts.node_migrations,
			 [SIDE_WAIT] = result.wait_us,
			 [SIDE_WORK] = result.work}};
	}
	a->runs = r->runs;
}

/* Processes with one thread have one id wherever they run. */
static bool has_question(const struct sim_report *r, unsigned load, unsigned policy)
{
	return r->runs && r->policies[policy].flags % SIM_LOCAL == 0 &&
	       strcmp(r->loads[load]->name, "processes") != 0 &&
	       strcmp(r->loads[load]->name, "pipe") != 0;
}

static void run_all(struct sim_report *r)
{
	unsigned step = 0, steps = r->load_count * r->policy_count;

	for (unsigned load = 0; load < r->load_count; load++)
		for (unsigned i = 0; i < r->policy_count && !child_interrupted(); i++) {
			struct sim_params p = r->params;

			progress(step++, steps, r->loads[load]->name, r->policies[i].name);
			p.load = r->loads[load];
			p.policy = &r->policies[i];
			sim_result(&p, &r->results[load][i]);
			if (has_question(r, load, i))
				load_answer(r, load, i);
		}
	progress(1, 1, "", "");
}

static int write_plot(const struct sim_report *r)
{
	struct memory_file svg;
	int code;

	sim_plot(r, memory_open(&svg));
	memory_close(&svg);
	code = output_write("sim", plot, svg.text, svg.size);
	free(svg.text);
	return code;
}

static int report_run(struct sim_report *r)
{
	int code = output_check("sim", json);

	code = code ? code : output_check("sim", plot);
	if (code)
		return code;
	child_catch_signals();
	run_all(r);
	if (child_interrupted()) {
		failure("sim", "interrupted; no file was written");
		return 128 + child_interrupted();
	}
	if (!output_is_stdout(json) && !output_is_stdout(plot))
		sim_print(r);
	if (json)
		code = output_json("sim", json, sim_json(r));
	if (!code && plot)
		code = write_plot(r);
	return code;
}

static int print_list(void)
{
	struct sim_policy p;

	puts("loads:");
	for (const struct sim_load *l = sim_loads; l->name; l++)
		printf("  %-14s %s\n", l->name, l->about);
	puts("policies:");
	for (unsigned i = 0; sim_policy(i, &p); i++)
		printf("  %-14s %s\n", p.name, p.about);
	return EXIT_DONE;
}

static int compare(void)
{
	uint64_t time = 1;
	int code = number("seconds", seconds, 1, 10, &time);

	for (const struct option_row *row = rows; row->name && !code; row++)
		if (row->string && *row->string && row->string != &json && row->string != &seconds)
			code = usage_error("sim", "--%s is not for --kernel", row->name);
	return code ? code : sim_compare((unsigned)time, json);
}

int sim_main(int argc, char **argv)
{
	struct bits set = {0};
	struct sim_report *r;
	struct sim_policy p;
	int code;

	for (unsigned i = 0; sim_policy(i, &p); i++)
		policy_names[i] = p.name;
	code = parse_options(&table, argc, argv);
	if (code != OPTIONS_DONE)
		return code;
	if (optind < argc)
		return usage_error("sim", "unexpected argument '%s'", argv[optind]);
	if (seconds && !kernel)
		return usage_error("sim", "--seconds is for --kernel");
	if (list)
		return finish_help("sim", print_list());
	if (kernel)
		return finish_stdout("sim", compare());
	r = allocate_zeros(1, sizeof(*r));
	code = take_options(r, &set);
	code = finish_stdout("sim", code ? code : report_run(r));
	free(r);
	return code;
}
