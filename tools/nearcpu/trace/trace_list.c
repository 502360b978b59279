/* SPDX-License-Identifier: MIT */
/* nearcpu trace list, and what is lost. */
#include "trace/print.h"

#include <inttypes.h>
#include <signal.h>

#include "common/text.h"
#include "common/tool.h"

/* ---- losses ---- */

/* In the order in which they are printed. */
static const struct {
	const char *text; /* of a statement: a sentence; else it follows the number */
	bool is_damage;
} losses[LOST_KINDS] = {
	[LOST_DISCARDED] =
		{.text = "events were discarded by the program, as its rings had no room"},
	[LOST_CHAINS_CUT] =
		{.text = "long payloads were cut by the program, as its rings had no room"},
	[LOST_OVERWRITTEN] = {.text = "bytes of older events were overwritten by newer ones"},
	[LOST_OVERTAKEN] = {.text = "bytes were overwritten while they were read"},
	[LOST_CHAINS] = {.text = "events of several records were lost with one of their parts"},
	[LOST_RAISED] = {.text = "times stepped back, and were raised"},
	[LOST_DAMAGED] = {.text = "bytes are damaged", true},
	[LOST_MISSING] = {.text = "bytes are missing, as the file was truncated", true},
	[LOST_RINGS] = {.text = "rings are missing, as the file was truncated", true},
	[LOST_PAYLOADS] = {.text = "events were dropped: their payloads are damaged", true},
	[LOST_POINTS_UNREAD] = {.text = "tracepoints have names or fields that cannot be read",
				true},
	[LOST_UNKNOWN] = {.text = "events are of tracepoints that the file does not have", true},
	[LOST_LATE] = {.text = "events came after later ones: their threads were interrupted"},
	[LOST_SWITCHES] = {.text = "events of the scheduler were lost, as they came too fast"},
	[LOST_WAS_FULL] = {.text = "the file system was full: rings could not be opened, or grow"},
	[LOST_WAS_BOUND] = {.text = "the bound of all rings was reached: some could not be opened"},
	[LOST_SNAPSHOT] = {.text = "a snapshot of a trigger could not be made: near_trace:snapshot "
				   "has the error"},
	[LOST_NO_HEADER] = {.text = "the header of the file is damaged", true},
	[LOST_NO_SESSION] = {.text = "the session is damaged: times are not in seconds", true},
	[LOST_POINTS] = {.text = "the list of tracepoints is damaged", true},
	[LOST_NO_RATE] = {.text = "the rate of the counter is not known: its ticks are shown "
				  "as ns"},
	[LOST_NO_DATE] = {.text = "the date of the session is damaged"},
	[LOST_UNSTABLE] =
		{.text = "warning: the kernel does not use the counter as its clock: times may "
			 "be wrong"},
	[LOST_ON_DISK] =
		{.text = "warning: on a disk, whose writing back may have delayed the program"},
};

static const char discarded_early[] = "events were discarded by the program: before its file was "
				      "made, or as its rings had no room";

uint64_t trace_lost(const struct trace *t, enum trace_lost what)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < t->file_count; i++)
		sum += t->files[i].lost[what];
	return sum;
}

bool trace_is_damaged(const struct trace *t)
{
	for (enum trace_lost i = 0; i < LOST_KINDS; i++)
		if (losses[i].is_damage && trace_lost(t, i))
			return true;
	return false;
}

void trace_print_losses(FILE *out, const struct trace *t, const char *head, bool all)
{
	for (enum trace_lost i = 0; i < LOST_KINDS; i++) {
		uint64_t n = trace_lost(t, i);
		const char *text = losses[i].text;

		if (i == LOST_DISCARDED && trace_lost(t, LOST_WAS_EARLY))
			text = discarded_early;
		if (i < LOST_STATEMENTS && (n || all))
			fprintf(out, "%s%" PRIu64 " %s\n", head, n, text);
		else if (i >= LOST_STATEMENTS && n && text)
			fprintf(out, "%s%s\n", head, text);
	}
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

	printf("%-14s%s\n%-14s%s, process %" PRIu64 ", %s\n%-14s%s\n", "trace", f->path, "program",
	       f->program, s->pid, state_of(s), "begun", date(s->begin.realtime_ns).text);
	printf("%-14s%s\n%-14s%s%s\n", "mode", mode_of(s), "clock", clock_of(s),
	       s->unstable ? ", which the kernel does not use as its clock: unstable" : "");
	if (s->clock == NEAR__TRACE_COUNTER && !f->lost[LOST_NO_RATE])
		printf("%-14s%.6f MHz\n", "counter", 1e3 * 0x1p48 / (double)f->rate);
	if (f->lost[LOST_ON_DISK])
		printf("%-14s%s\n", "warning",
		       "on a disk, whose writing back may delay the program");
	printf("%-14s%u of %u slots and %u fallbacks, each %" PRIu64 " KiB\n%-14s%" PRIu64
	       " events\n\n",
	       "rings", rings_of(t, f), s->slots, s->cpus, s->ring_size / 1024, "discarded",
	       f->lost[LOST_DISCARDED]);
}

static void print_points(const struct trace *t)
{
	for (unsigned i = 0; i < t->point_count; i++) {
		const struct trace_point *p = t->points[i];

		if (p->unknown || !p->selected)
			continue;
		printf("%-8s %s(%s)", trace_level_name(p->level), p->name, p->fields_text);
		printf(*p->place ? "  %s\n" : "\n", p->place);
	}
}

static void print_line(const struct trace_file *f)
{
	const struct near__trace_session *s = &f->session;

	printf("%s  %-10s %7" PRIu64 "  %-16s %3u tracepoints  %s\n",
	       date(s->begin.realtime_ns).text, state_of(s), s->pid, f->program, f->point_count,
	       f->path);
}

int trace_list(struct trace *t)
{
	bool is_one = t->file_count == 1;

	for (unsigned i = 0; i < t->file_count && !ferror(stdout); i++)
		if (is_one)
			print_session(t, &t->files[i]);
		else
			print_line(&t->files[i]);
	if (is_one)
		print_points(t);
	return EXIT_DONE;
}
