/* SPDX-License-Identifier: MIT */
#ifndef NEARCPU_TESTS_KILLED_H
#define NEARCPU_TESTS_KILLED_H

/* Processes add to one region for that many milliseconds, with rseq and without; one after the
 * other is killed. Asserts that the region holds what they added. Returns how many were killed. */
unsigned killed_stress(unsigned ms);

/* What such a process runs: the program itself, started again with these arguments. */
#define KILLED_ADDER "--add"
int killed_adder(char **fds);

#endif
