/* SPDX-License-Identifier: MIT */
/* launch: a program that this process starts, waits for, and ends like.
 *
 * It is in the process group of this process, so that the terminal's signals reach both: the
 * program acts on them, this process does not. A signal that was sent to this process alone is
 * forwarded. When the terminal stops the program this process stops, too, so that the shell sees
 * one job. */
#ifndef NEARCPU_LAUNCH_H
#define NEARCPU_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

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

/* The exit status that a shell would show, of a status as of waitpid. */
int launch_exit_code(int status);

/* Ends this process the way the program ended. */
__attribute__((noreturn)) void launch_end_as(int status);

#endif
