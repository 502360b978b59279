/* SPDX-License-Identifier: MIT */
/* taken: what an operation does when another part of the program has ended the registration of its
 * thread. */
#ifndef NEARCPU_TORTURE_TAKEN_H
#define NEARCPU_TORTURE_TAKEN_H

#include "job.h"

/* Ends the registration of a thread before the job's operation, and at each instruction of each
 * sequence that the operation is known to run. Does nothing where the C library did not register
 * this thread. Requires that the interferer's thread is not running. Returns 0 or a negative
 * errno. */
int near__taken_try_all(struct job *job);

#endif
