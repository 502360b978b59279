/* SPDX-License-Identifier: MIT */
/* child: runs a program, collects its output, and ends it when the user interrupts this process. */
#ifndef NEARCPU_CHILD_H
#define NEARCPU_CHILD_H

#include <stdbool.h>
#include <stddef.h>

struct child {
	const char *const *argv; /* argv[0] is searched in PATH */
	const char *const *set;  /* pairs of a variable and its value; ends with NULL */
	unsigned timeout_s;
};

struct child_result {
	char *out;       /* standard output, ends with 0; to be freed */
	char error[200]; /* first line of standard error */
	char said[480];  /* the start of standard error */
	int status;      /* as of waitpid */
};

/* Catches SIGINT, SIGTERM and SIGHUP from now on. */
void child_catch_signals(void);

/* The signal that this process received, or 0. */
int child_interrupted(void);

/* The exit status of an interrupted command, after a message; or EXIT_DONE. */
int child_report_interrupt(const char *sub);

/* 0; -EINTR when interrupted; -ETIME after the timeout; another negative errno when it could not be
 * started. In each case no process of it is left. */
int child_run(const struct child *child, struct child_result *out);

#endif
