/* SPDX-License-Identifier: MIT */
/* nearcpu trace list, and what is lost. */
#include "trace/print.h"

#include <inttypes.h>
#include <signal.h>
#include <time.h>

#include "common/tool.h"

/* ---- losses ---- */

static void print_damage(FILE *out, const struct trace_loss *l, const char *head)
{
	if (l->no_header)
		fprintf(out, "%sthe header of the file is damaged\n", head);
	if (l->no_session)
		fprintf(out, "%sthe session is damaged: times are not in seconds\n", head);
	if (l->points)
		fprintf(out, "%sthe list of tracepoints is damaged\n", head);
	if (l->no_rate)
		fprintf(out, "%sthe rate of the counter is not known: its ticks are shown as ns\n",
			head);
	if (l->no_date)
		fprintf(out, "%sthe date of the session is damaged\n", head);
}

void trace_print_loss(FILE *out, const struct trace_loss *l, const char *head, bool all)
{
	const struct {
		uint64_t n;
		const char *what;
	} rows[] = {
		{l->discarded, l->was_early ? "events were discarded by the program: before its "
					      "file was made, or as its rings had no room"
					    : "events were discarded by the program, as its rings "
					      "had no room"},
		{l->chains_cut, "long payloads were cut by the program, as its rings had no room"},
		{l->overwritten, "bytes of older events were overwritten by newer ones"},
		{l->overtaken, "bytes were overwritten while they were read"},
		{l->chains, "events of several records were lost with one of their parts"},
		{l->raised, "times stepped back, and were raised"},
		{l->damaged, "bytes are damaged"},
		{l->missing, "bytes are missing, as the file was truncated"},
		{l->rings, "rings are missing, as the file was truncated"},
		{l->payloads, "events were dropped: their payloads are damaged"},
		{l->points_unread, "tracepoints have names or fields that cannot be read"},
		{l->unknown, "events are of tracepoints that the file does not have"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].n || all)
			fprintf(out, "%s%" PRIu64 " %s\n", head, rows[i].n, rows[i].what);
	if (l->was_full)
		fprintf(out, "%sthe file system was full: rings could not be opened, or grow\n",
			head);
	if (l->was_bound)
		fprintf(out, "%sthe bound of all rings was reached: some could not be opened\n",
			head);
	print_damage(out, l, head);
	if (l->unstable)
		fprintf(out,
			"%swarning: the kernel does not use the counter as its clock: times may be "
			"wrong\n",
			head);
	if (l->on_disk)
		fprintf(out,
			"%swarning: on a disk, whose writing back may have delayed the program\n",
			head);
}

/* ---- sessions ---- */

static const char *mode_of(const struct near__trace_session *s)
{
	static const char *const modes[] = {"overwrites the oldest events", "stops when full",
					    "streams to files"};

	return s->mode <= NEAR__TRACE_STREAM ? modes[s->mode] : "unknown";
}

static const char *clock_of(const struct near__trace_session *s)
{
	static const char *const clocks[] = {"none", "the CPU's counter", "CLOCK_MONOTONIC",
					     "the program's own"};

	return s->clock <= NEAR__TRACE_OWN ? clocks[s->clock] : "unknown";
}

/* A process of the number may also be another one. */
static const char *state_of(const struct near__trace_session *s)
{
	if (s->ended)
		return "ended";
	return s->pid && s->pid <= INT32_MAX && kill((pid_t)s->pid, 0) == 0 ? "running"
									    : "was killed";
}

static void print_time(uint64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000);
	char when[64] = "?";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	fputs(when, stdout);
}

static unsigned rings_of(const struct trace *t, const struct trace_file *f)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->ring_count; i++)
		n += t->rings[i].file == f;
	return n;
}

static void print_session(const struct trace *t, const struct trace_file *f)
{
	const struct near__trace_session *s = &f->session;

	printf("%-14s%s\n%-14s%s, process %" PRIu64 ", %s\n%-14s", "trace", f->path, "program",
	       f->program, s->pid, state_of(s), "begun");
	print_time(s->begin.realtime_ns);
	printf("\n%-14s%s\n%-14s%s%s\n", "mode", mode_of(s), "clock", clock_of(s),
	       s->unstable ? ", which the kernel does not use as its clock: unstable" : "");
	if (s->clock == NEAR__TRACE_COUNTER && !f->loss.no_rate)
		printf("%-14s%.6f MHz\n", "counter", 1e3 * 0x1p48 / (double)f->rate);
	if (f->loss.on_disk)
		printf("%-14s%s\n", "warning",
		       "on a disk, whose writing back may delay the program");
	printf("%-14s%u of %u slots and %u fallbacks, each %" PRIu64 " KiB\n%-14s%" PRIu64
	       " events\n\n",
	       "rings", rings_of(t, f), s->slots, s->cpus, s->ring_size / 1024, "discarded",
	       f->loss.discarded);
}

static void print_points(const struct trace_file *f)
{
	for (unsigned id = 0; id < 65536; id++) {
		const struct trace_point *p = f->points[id];

		if (!p || p->unknown || !p->selected)
			continue;
		printf("%-8s %s(%s)", trace_level_name(p->level), p->name, p->fields_text);
		printf(*p->place ? "  %s\n" : "\n", p->place);
	}
}

static void print_line(const struct trace_file *f)
{
	const struct near__trace_session *s = &f->session;

	print_time(s->begin.realtime_ns);
	printf("  %-10s %7" PRIu64 "  %-16s %3u tracepoints  %s\n", state_of(s), s->pid, f->program,
	       f->point_count, f->path);
}

int trace_list(struct trace *t, bool with_points)
{
	for (unsigned i = 0; i < t->file_count && !ferror(stdout); i++)
		if (with_points) {
			print_session(t, &t->files[i]);
			print_points(&t->files[i]);
		} else {
			print_line(&t->files[i]);
		}
	return EXIT_DONE;
}
