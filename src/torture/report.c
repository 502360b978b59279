/* SPDX-License-Identifier: MIT */
/* The text of a failure. */
#define _GNU_SOURCE
#include "torture/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 10

void near__report(const struct job *job, const char *format, ...)
{
	struct near_torture_result *out = job->out;
	const struct near_torture *t = job->t;
	char text[sizeof(out->text)];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (out->failures++ == 0)
		strcpy(out->text, text);
	if (t->report)
		t->report(t->arg, text);
	else if (out->failures <= SHOWN)
		fprintf(stderr, "near_torture: %s\n", text);
	else if (out->failures == SHOWN + 1)
		fputs("near_torture: and more\n", stderr);
}

static void put_schedule(const struct scenario *s, char *out, size_t size)
{
	static const char *const after[TRAP_OTHERS] = {"",
						       ", after one abort of each other sequence",
						       ", while all other sequences are aborted"};
	static const char *const during[SCHEDULES] = {
		[ALONE] = "nothing in between",
		[IN_HANDLER] = " in the signal handler",
		[ON_THREAD] = " on another thread",
		[MOVED] = "moved to another CPU",
		[TAKEN] = "the thread's registration taken away",
	};
	const struct near_torture_rival *r = near__scenario_interferer(s);
	const char *name = !r ? "" : r->name ? r->name : "?", *how = after[s->plan.others];

	if (s->schedule == AGAIN)
		snprintf(out, size, "%u times%s", s->plan.aborts_here, how);
	else
		snprintf(out, size, "%s%s%s", name, during[s->schedule], how);
}

void near__report_stop(const struct scenario *s, const char *wrong)
{
	const struct trap_seq *seq = near__trap_seq(s->plan.seq);
	unsigned last = seq->points - 1, k = s->plan.point;
	uintptr_t at = s->plan.before ? s->plan.before : seq->point[k];
	char schedule[160], place[64];

	if (s->plan.before)
		snprintf(place, sizeof(place), "before its start");
	else if (k < last)
		snprintf(place, sizeof(place), "before instruction %u of %u", k + 1, last);
	else
		snprintf(place, sizeof(place), "behind its last instruction");
	put_schedule(s, schedule, sizeof(schedule));
	near__report(s->job, "the sequence in %s, stopped %s (%s+0x%lx), %s: %s", seq->function,
		     place, seq->function, (unsigned long)(at - seq->start + seq->offset), schedule,
		     wrong);
}
