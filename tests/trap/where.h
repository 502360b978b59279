/* SPDX-License-Identifier: MIT */
#ifndef NEARCPU_TESTS_WHERE_H
#define NEARCPU_TESTS_WHERE_H

#include <stdint.h>

/* The name of the function of this program in which `address` stands, by the program's own symbol
 * table; "?" where there is none. Keeps what it returns. */
const char *where(uintptr_t address);

#endif
