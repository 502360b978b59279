/* SPDX-License-Identifier: MIT */
/* background: a thread that gives memory back while the process does nothing, if NEAR_CONF has
 * malloc_background:1. */
#ifndef NEARCPU_MALLOC_BACKGROUND_H
#define NEARCPU_MALLOC_BACKGROUND_H

/* Starts it, unless it runs, or is off, or constructors have not run yet. Requires that no lock is
 * held. */
void near__background_start(void);

/* Constructors run: it may start from now on. */
void near__background_allow(void);

/* The child of a fork has none yet. */
void near__background_fork_child(void);

#endif
