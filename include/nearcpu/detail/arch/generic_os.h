/* SPDX-License-Identifier: MIT */
/* What the library itself needs of any other CPU: nothing, there are no sequences to protect. */
#ifndef NEARCPU_ARCH_GENERIC_OS_H
#define NEARCPU_ARCH_GENERIC_OS_H

#include <stdbool.h>

#define NEAR__BROKEN_KERNEL(version) ((void)(version), false)
#define NEAR__BROKEN_WHY ""
#define NEAR__HAS_CPU_INSN 0

#endif
