/* SPDX-License-Identifier: MIT */
/* spawn: starts a program, and ends all that it started. */
#ifndef NEARCPU_SPAWN_H
#define NEARCPU_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

struct spawn {
	char *const *argv;      /* argv[0] is searched in PATH */
	const char *const *set; /* pairs of a variable and its value, ends with NULL; or NULL */
	bool apart;           /* in a process group of its own, which is killed with this process */
	int in, out, err;     /* -1: as this process */
	const sigset_t *mask; /* of the program */
};

/* Becomes the program. Returns a negative errno if that failed. */
int spawn_become(const struct spawn *s);

/* 0, or a negative errno, also of exec: then no process is left. */
int spawn(const struct spawn *s, pid_t *pid);

/* Waits until a program that runs apart has ended, kills what is left of its group, and reaps
 * it. */
void spawn_end(pid_t pid, int *status, struct rusage *usage);

#endif
