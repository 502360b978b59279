/* SPDX-License-Identifier: MIT */
/* The head of --report: the machine, as far as it explains figures. No name of the host or of a
 * user, and no path: the text is made to be published. */
#include "bench/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 98
#define CPU_FOLDER "/sys/devices/system/cpu/"

/* The first line of a file of the kernel's, or "". */
static void read_line(const char *path, char *out, size_t size)
{
	FILE *file = fopen(path, "re");

	if (!file || !fgets(out, (int)size, file))
		out[0] = 0;
	if (file)
		fclose(file);
	out[strcspn(out, "\n")] = 0;
	machine_ascii(out);
}

static double read_mhz(void)
{
	char text[32];

	read_line(CPU_FOLDER "cpu0/cpufreq/scaling_cur_freq", text, sizeof(text));
	return strtod(text, NULL) / 1000;
}

void scale_begin(struct scale_noise *noise)
{
	if (getloadavg(&noise->load, 1) != 1)
		noise->load = -1;
	noise->mhz = read_mhz();
}

void scale_item(const char *fmt, ...)
{
	char text[1000];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args); /* NOLINT: started above */
	va_end(args);
	print_wrapped(text, WIDTH, "- ", "  ");
}

/* The command line, without the names of files. */
static void print_command(const struct report *report)
{
	const struct bench_options *o = &report->options;
	char line[500] = "nearcpu bench --report";
	struct text text = {line, sizeof(line)};

	for (size_t i = 0; o->names_given && i < o->name_count; i++)
		say(&text, " %s", o->names[i]);
	for (size_t i = 0; i < o->thread_counts; i++)
		say(&text, "%s%u", i ? "," : " --threads ", o->threads[i]);
	if (o->iterations)
		say(&text, " --iterations %llu", (unsigned long long)o->iterations);
	scale_item("`%s%s --repeat %u`, version %s, took %.0f s", line, o->quick ? " --quick" : "",
		   o->repeat, NEARCPU_VERSION, report->seconds);
}

static const char *smt(void)
{
	char text[16];

	read_line(CPU_FOLDER "smt/active", text, sizeof(text));
	return text[0] == '1' ? "on" : text[0] == '0' ? "off" : "unknown";
}

/* x86 has a flag for it; other CPUs have none. */
static const char *hypervisor(void)
{
	char line[4096];
	FILE *file = fopen("/proc/cpuinfo", "re");
	const char *answer = "unknown";

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "flags", 5) != 0)
			continue;
		answer = strstr(line, " hypervisor") ? "yes" : "no";
		break;
	}
	if (file)
		fclose(file);
	return answer;
}

/* A limit on CPU time of the control group, as containers have it; in CPUs, 0: none seen. */
static double quota(void)
{
	char text[64], period[64];
	char *end;
	double us;

	read_line("/sys/fs/cgroup/cpu.max", text, sizeof(text));
	us = strtod(text, &end);
	if (end != text && strtod(end, NULL) > 0)
		return us / strtod(end, NULL);
	read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text, sizeof(text));
	read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof(period));
	us = strtod(text, NULL);
	return us > 0 && strtod(period, NULL) > 0 ? us / strtod(period, NULL) : 0;
}

static void print_machine(const struct machine *m)
{
	scale_item("%s; CPUs: %u online, %u possible, %u allowed; nodes: %u; SMT: %s; virtual: %s",
		   m->processor, m->online.count, m->possible.count, m->allowed.count,
		   m->nodes.count, smt(), hypervisor());
	scale_item("%s %s %s, %s, %.0f GiB of memory, built with %s", m->kernel.sysname,
		   m->kernel.release, m->kernel.machine, m->libc,
		   (double)m->memory_bytes / (1024.0 * 1024 * 1024),
#ifdef __clang__
		   "clang " __clang_version__
#else
		   "gcc " __VERSION__
#endif
	);
}

static void print_rseq(const struct machine *m)
{
	const struct near_rseq_status *st = &m->rseq;

	scale_item("rseq: %s: %s; slots: %u by %s: %s%s%s%s%s", st->live ? "live" : "not live",
		   st->why, st->slots, machine_slot_kind(st->slot_kind), st->slot_why,
		   m->conf ? "; NEAR_CONF=" : "", m->conf ? m->conf : "",
		   m->tunables ? "; GLIBC_TUNABLES=" : "", m->tunables ? m->tunables : "");
}

static void print_noise(const struct report *report)
{
	struct scale_noise now;
	char governor[40], clock[80] = "", limit[40] = "";

	scale_begin(&now);
	read_line(CPU_FOLDER "cpu0/cpufreq/scaling_governor", governor, sizeof(governor));
	if (now.mhz > 0)
		snprintf(clock, sizeof(clock), ", CPU 0 at %.0f MHz before and %.0f after",
			 report->noise.mhz, now.mhz);
	if (quota() > 0)
		snprintf(limit, sizeof(limit), "; quota of %.1f CPUs", quota());
	scale_item(
		"noise: load average %.1f before, %.1f after; other programs used %.0f %% of the "
		"CPU time, the hypervisor took %.0f %%; governor: %s%s%s",
		report->noise.load, now.load, report->load.others * 100, report->load.stolen * 100,
		governor[0] ? governor : "unknown", clock, limit);
}

void scale_print_head(const struct report *report, const char *why)
{
	char line[400];

	printf("### nearcpu bench --report%s%s\n\n", why ? ": INCOMPLETE, " : "", why ? why : "");
	print_command(report);
	print_machine(&report->machine);
	print_rseq(&report->machine);
	print_noise(report);
	if (load_warning(&report->load, line, sizeof(line)))
		scale_item("%s", line);
	scale_item(
		"ns/op: CPU time, median; spread: distance of its quartiles; op/s: of all threads, "
		"by wall time; what a row is: nearcpu bench --list NAME");
	putchar('\n');
}
