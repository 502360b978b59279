/* SPDX-License-Identifier: MIT */
/* report: formats failures and counts them. */
#ifndef NEARCPU_TORTURE_REPORT_H
#define NEARCPU_TORTURE_REPORT_H

#include "torture/scenario.h"

void near__report(const struct job *job, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Reports `wrong` for the point where the scenario's plan stopped the operation. */
void near__report_stop(const struct scenario *s, const char *wrong);

#endif
