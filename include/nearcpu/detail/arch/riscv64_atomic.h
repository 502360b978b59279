/* SPDX-License-Identifier: MIT */
/* What src/atomic must know of riscv64: no access of 16 bytes is atomic, and gcc calls the
 * library for 1 and 2 bytes, except for loads and stores. */
#ifndef NEARCPU_ARCH_RISCV64_ATOMIC_H
#define NEARCPU_ARCH_RISCV64_ATOMIC_H

#include <nearcpu/detail/arch/no_wide_atomic.h>

#define NEAR__HAS_THREAD_POINTER 1
#define NEAR__NARROWEST 4

#endif
