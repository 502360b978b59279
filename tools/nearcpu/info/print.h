/* SPDX-License-Identifier: MIT */
/* print: the text of `nearcpu info`. */
#ifndef NEARCPU_INFO_PRINT_H
#define NEARCPU_INFO_PRINT_H

#include "common/machine.h"

void machine_print(const struct machine *m);

#endif
