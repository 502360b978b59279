/* SPDX-License-Identifier: MIT */
/* near__die: stops the program for misuse or corruption that was seen, with one line on standard
 * error.
 *
 * what names the public function and the fault: "near_lock_unlock: the lock is not held". No stdio,
 * no lock, no allocation: it also works in a signal handler, a forked child, an allocator.
 */
#ifndef NEARCPU_DIE_H
#define NEARCPU_DIE_H

__attribute__((noreturn, cold, visibility("hidden"))) void near__die(const char *what);

/* Writes such a line, and returns. */
__attribute__((cold, visibility("hidden"))) void near__warn(const char *what);

#endif
