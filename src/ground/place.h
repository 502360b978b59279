/* SPDX-License-Identifier: MIT */
/* place: what every process with the library reads and runs, as the kernel maps up to 64 KiB around
 * what is touched in a file.
 *
 * Constants: a look at .rodata costs what stands beside it, too: messages and the tables for
 * unwinding. What was relocated has a page of its own anyway.
 *
 * Functions of files that are run rarely else (malloc/rare.ld). */
#ifndef NEARCPU_PLACE_H
#define NEARCPU_PLACE_H

#define NEAR__READ_EARLY __attribute__((section(".data.rel.ro.near")))
#define NEAR__RUN_EARLY __attribute__((section(".text.startup")))

#endif
