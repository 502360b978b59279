/* SPDX-License-Identifier: MIT */
/* report: formats failures and counts them. */
#ifndef NEARCPU_TORTURE_REPORT_H
#define NEARCPU_TORTURE_REPORT_H

#include "scenario.h"

/* Reports `wrong` for the point where the scenario's plan stopped the operation. */
void near__report_stop(const struct scenario *s, const char *wrong);

/* The same where all sequences were aborted. */
void near__report_taken(const struct scenario *s, const char *wrong);
void near__report_without(const struct scenario *s, const char *wrong);

/* Reports a sequence that cannot be tried. */
void near__report_sequence(const struct job *job, const struct trap_seq *seq, const char *wrong);

#endif
