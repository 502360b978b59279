/* SPDX-License-Identifier: MIT */
/* What src/atomic needs of any other CPU: 16 bytes are too wide. */
#ifndef NEARCPU_ARCH_GENERIC_ATOMIC_H
#define NEARCPU_ARCH_GENERIC_ATOMIC_H

#include <nearcpu/detail/arch/no_wide_atomic.h>

#define NEAR__HAS_THREAD_POINTER 0
#define NEAR__NARROWEST 1

#endif
