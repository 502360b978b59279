/* SPDX-License-Identifier: MIT */
/* place: constants that every process with the library reads. The kernel maps up to 64 KiB around
 * what is touched in a file, so that a look at .rodata costs what stands beside it, too: messages
 * and the tables for unwinding. What was relocated has a page of its own anyway. */
#ifndef NEARCPU_PLACE_H
#define NEARCPU_PLACE_H

#define NEAR__READ_EARLY __attribute__((section(".data.rel.ro.near")))

#endif
