/* SPDX-License-Identifier: MIT */
/* symbols: what the addresses of call stacks are. */
#ifndef NEARCPU_SYMBOLS_H
#define NEARCPU_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the address is in the file that this line of /proc/PID/maps is of; the line ends with its
 * path. */
bool symbols_find(const char *line, uint64_t address);

/* Of the address that was found last, where a call returns to: "function+0x12"; or
 * "file+0x1234", where no symbol has it, or where the file is not the one that was mapped (another
 * inode, or changed since then). Valid until the next call. */
const char *symbols_name(uint64_t since_ns);

#endif
