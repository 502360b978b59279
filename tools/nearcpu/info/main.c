/* SPDX-License-Identifier: MIT */
/* nearcpu info: what this machine offers, and what the library makes of it. */
#include "common/machine.h"
#include "common/options.h"
#include "common/output.h"
#include "common/own_malloc.h"
#include "common/text.h"
#include "common/tool.h"
#include "common/process.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static bool as_json;

static const struct option_row rows[] = {
	{"json", .help = "as JSON", .flag = &as_json},
	{.name = NULL},
};

static const struct option_table table = {
	.sub = "info",
	.rows = rows,
	.width = 13,
	.head = "usage: nearcpu info [OPTION...] [PID]\n\n"
		"Shows whether restartable sequences work in this process, and if not, why; what\n"
		"the kernel and the C library offer; which slots the library uses. With PID:\n"
		"what a running process has of the library.\n\n",
	.tail = "",
};

/* Where LD_PRELOAD names one of them all the same. */
static const char *process_why_none(const struct process *p)
{
	if (!p->preload || (!strstr(p->preload, "nearcpu") && !strstr(p->preload, "libatomic")))
		return "";
	return ", although LD_PRELOAD was set: it is static, or had more rights than its user, or "
	       "did not find them";
}

#define NAME "%-16s"
#define NOT_SERVED "not preloaded   "

static void print_set(const char *label, const struct machine_set *set)
{
	if (set->count)
		printf("  %-14s%u (%s)\n", label, set->count, set->list);
	else
		printf("  %-14sunknown\n", label);
}

static void print_features(const struct near_rseq_status *st)
{
	printf("  %-14scpu%s%s%s", "features", st->has_node ? ", node" : "",
	       st->has_cid ? ", concurrency id" : "", st->has_slice ? ", slice extension" : "");
	if (!st->has_cid)
		printf("; no concurrency id (Linux 6.3)");
	if (!st->has_slice)
		printf("; no slice extension (Linux 7.0)");
	putchar('\n');
}

static void print_rseq(const struct near_rseq_status *st)
{
	const char *separator = "";

	printf(NAME "%s: %s\n", "rseq", st->live ? "live" : "not live", st->why);
	if (st->live)
		printf("  %-14s%u bytes, by %s\n", "registered", st->area_size,
		       st->own_area ? "this library" : "the C library");
	if (st->feature_size)
		printf("  %-14s%u bytes, aligned to %u\n", "kernel has", st->feature_size,
		       st->feature_align);
	if (st->live)
		print_features(st);
	printf("  %-14s", "membarrier");
	if (!st->membarrier)
		printf("none");
	for (const struct machine_command *c = machine_commands; c->name; c++)
		if (st->membarrier & c->bit) {
			printf("%s%s", separator, c->name);
			separator = ", ";
		}
	putchar('\n');
	printf("  %-14s%s\n", "without rseq", st->hint);
}

static void print_parts(const struct machine *m)
{
	printf(NAME, "built with");
	for (const struct machine_part *p = machine_parts; p->name; p++)
		printf("%s%s%s", p == machine_parts ? "" : ", ", p->built_in ? "" : "no ", p->name);
	printf("\n" NAME "%s\n", "malloc library",
	       m->malloc_library[0] ? m->malloc_library : "not found: nearcpu run needs it");
	printf(NAME "%s\n", "atomic library",
	       m->atomic_library[0] ? m->atomic_library
				    : "not found: nearcpu run --atomic needs it");
	printf(NAME "%s, %s\n", "found", m->has_perf ? "perf" : "no perf",
	       m->has_bench ? "nearcpu-bench" : "no nearcpu-bench");
}

static void machine_print(const struct machine *m)
{
	const struct near_rseq_status *st = &m->rseq;

	printf(NAME "%s\n", "nearcpu", NEARCPU_VERSION);
	printf(NAME "%s %s %s\n", "kernel", m->kernel.sysname, m->kernel.release,
	       m->kernel.machine);
	printf(NAME "%s\n", "C library", m->libc);
	printf(NAME "%s\n", "processor", m->processor);
	printf("cpus\n");
	print_set("possible", &m->possible);
	print_set("online", &m->online);
	print_set("allowed", &m->allowed);
	print_set("nodes", &m->nodes);
	print_rseq(st);
	printf(NAME "%u by %s: %s\n", "slots", st->slots, machine_slot_kind(st->slot_kind),
	       st->slot_why);
	if (m->reserve_error)
		printf(NAME "nothing: %s (is the limit of address space, ulimit -v, too small?)\n",
		       "reserved", strerror(-m->reserve_error));
	else
		printf(NAME "%.1f MiB of address space for the first per-CPU objects\n", "reserved",
		       (double)st->reserved / (1 << 20));
	if (m->conf)
		printf(NAME "NEAR_CONF=%s\n", "settings", m->conf);
	if (m->tunables)
		printf(NAME "GLIBC_TUNABLES=%s\n", m->conf ? "" : "settings", m->tunables);
	print_parts(m);
	print_wrapped(PRELOAD_IGNORED, 80, NOT_SERVED, "                ");
}

/* Another process. */
static int info_process(const char *argument)
{
	static struct process process; /* its texts stay */
	uint64_t pid;
	int code;

	if (!parse_number(argument, 1, INT_MAX, &pid))
		return usage_error("info", "unexpected argument '%s': not a process id", argument);
	code = process_read(&process, "info", (int)pid);
	if (code)
		return code;
	if (!process.count)
		return failure("info", "process %d (%s) has none of these libraries%s", process.pid,
			       process.name, process_why_none(&process));
	if (as_json)
		code = output_json("info", "-", process_json(&process));
	else
		process_print(&process);
	return finish_stdout("info", code);
}

int info_main(int argc, char **argv)
{
	static struct machine machine; /* its texts stay */
	int code = parse_options(&table, argc, argv);

	if (code != OPTIONS_DONE)
		return code;
	if (optind + 1 < argc)
		return usage_error("info", "unexpected argument '%s'", argv[optind + 1]);
	if (optind < argc)
		return info_process(argv[optind]);
	machine_read(&machine);
	code = EXIT_DONE;
	if (as_json)
		code = output_json("info", "-", machine_json(&machine));
	else
		machine_print(&machine);
	return finish_stdout("info", code);
}
