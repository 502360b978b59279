/* SPDX-License-Identifier: MIT */
/* report: failures in words. */
#ifndef NEARCPU_TORTURE_REPORT_H
#define NEARCPU_TORTURE_REPORT_H

#include "scene.h"

/* Where the scene's plan stopped the operation, `wrong` was seen. */
void near__report_stop(const struct scene *s, const char *wrong);

/* The same where all sequences were aborted. */
void near__report_without(const struct scene *s, const char *wrong);

/* Of a sequence that cannot be tried. */
void near__report_sequence(const struct job *job, const struct trap_seq *seq, const char *wrong);

#endif
