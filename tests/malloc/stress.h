/* SPDX-License-Identifier: MIT */
/* stress: concurrently all that programs do with an allocator: blocks of any size whose content is
 * checked, passed from thread to thread and freed anywhere, while threads begin and end, are moved
 * and signalled, processes fork and vfork, and all caches are emptied. */
#ifndef NEARCPU_TESTS_STRESS_H
#define NEARCPU_TESTS_STRESS_H

#define STRESS_WORKERS 12

/* Runs all of it for `ms`. */
void stress_run(unsigned workers, unsigned ms);

/* What a program does that was started by a child of a vfork. */
#define STRESS_NOTHING "--nothing"

#endif
