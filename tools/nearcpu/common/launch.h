/* SPDX-License-Identifier: MIT */
/* launch: a program that this process starts, waits for, and ends like.
 *
 * It is in the process group of this process, so that the terminal's signals reach both: the
 * program acts on them, this process does not. A signal that was sent to this process alone is
 * forwarded. When the terminal stops the program this process stops, too, so that the shell sees
 * one job. A program that runs apart has a process group of its own, and a signal ends it. */
#ifndef NEARCPU_LAUNCH_H
#define NEARCPU_LAUNCH_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "common/spawn.h"

/* As env(1) and shells have them. */
enum { LAUNCH_CANNOT = 126, LAUNCH_NOT_FOUND = 127 };

/* Which privileges the kernel grants to the program in `path` beyond those of this process: what
 * grants them; NULL: nothing. */
const char *launch_rights(const char *path);

/* Signals of this process wait from now on, for launch_signal. */
void launch_begin(void);

/* The mask from before, of the program. */
const sigset_t *launch_mask(void);

/* The next signal; 0 after the timeout, which may be NULL; SIGCHLD if the wait fails. */
int launch_signal(siginfo_t *info, const struct timespec *timeout);

/* *terminal records that the terminal wants a stop. */
void launch_forward(pid_t program, int sig, const siginfo_t *info, bool *terminal);

/* The program was stopped by a signal. A SIGSTOP that was sent to the program alone does not stop
 * this process. */
void launch_stop_too(int by, bool *terminal);

struct launch_end {
	pid_t pid;
	int status; /* as of waitpid */
	struct rusage usage;
	double wall_s;
};

/* Runs it after launch_begin; signals are the program's. 0, or a negative errno: it could not be
 * started. */
int launch_with_signals(struct spawn *program, struct launch_end *end);

/* Runs it apart, until its end or a signal in `ending`, in which there is also SIGCHLD; all are
 * blocked. 0; -EINTR, and *by is the signal; -ETIME; -ENOTTY: it wanted the terminal; another
 * negative errno: it could not be started. No process of it is left. */
int launch_apart(const struct spawn *program, const sigset_t *ending, double timeout_s,
		 struct launch_end *end, int *by);

/* Reports that it could not be started; returns the exit status. */
int launch_failure(const char *sub, const char *name, int err);

/* Prints how it ended. */
void launch_print_end(const char *sub, const char *name, int status);

/* Adds that as "exit_status" and, if there was one, "signal". */
void launch_end_json(json_t *json, int status);

/* Its arguments; null for one that is no UTF-8. */
json_t *launch_arguments_json(char *const *argv);

/* The exit status that a shell would show, of a status as of waitpid. */
int launch_exit_code(int status);

/* Ends this process the way the program ended; with `code`, that of a report on the program, if it
 * failed but the program did not. */
__attribute__((noreturn)) void launch_end_as(int status, int code);

#endif
