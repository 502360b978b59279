/* SPDX-License-Identifier: MIT */
/* background: a thread that gives memory back while the process does nothing, if it was asked for
 * (NEAR_CONF=malloc_background:1). */
#ifndef NEARCPU_MALLOC_BACKGROUND_H
#define NEARCPU_MALLOC_BACKGROUND_H

/* Starts it, unless it runs, or is not wanted, or it is too early. Without locks held. */
void near__background_start(void);

/* The child of a fork has none yet. */
void near__background_fork_child(void);

#endif
