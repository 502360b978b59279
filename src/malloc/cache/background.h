/* SPDX-License-Identifier: MIT */
/* background: a thread that gives memory back while the process does nothing. NEAR_CONF has
 *
 *   malloc_background:auto  in processes with several threads, from the first pthread_create on
 *   malloc_background:1     in all processes
 *   malloc_background:0     never
 *
 * The C library calls malloc and free while it holds locks that pthread_create takes. So with
 * `auto` it is the program's own call of pthread_create that starts the thread (api/threads.c). */
#ifndef NEARCPU_MALLOC_BACKGROUND_H
#define NEARCPU_MALLOC_BACKGROUND_H

/* Once, when the heap begins: this process may start it. */
void near__background_init(void);

/* malloc_background:1: starts it, unless it runs, or constructors have not run yet. Requires that
 * no lock is held. */
void near__background_start(void);

/* malloc_background:auto: starts it, unless it runs, or the process is the child of a fork, or the
 * caller is not the process's first thread. */
void near__background_start_automatically(void);

/* Ends it, and waits until the process does not have it any more. Requires that no lock is held. */
void near__background_end(void);

/* Called once per slow path: there may be something to give back. */
void near__background_wake(void);

/* What a higher level does in each period of the thread, or, where that does not run, in each slow
 * path, which calls near__step; NULL: nothing. Set once, relaxed: it only makes use of what was
 * there before. */
extern void (*near__each_slow_path)(void) __attribute__((visibility("hidden")));
void near__step(void);

/* Constructors run: it may start from now on. */
void near__background_allow(void);

/* The child of a fork has none yet. */
void near__background_fork_child(void);

#endif
