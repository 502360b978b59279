/* SPDX-License-Identifier: MIT */
/* Chooses the CPU's header: the one place that tests which CPU this is.
 * NEAR_ARCH_GENERIC, defined by the compiler's command line, takes the portable path everywhere. */
#ifndef NEARCPU_ARCH_ARCH_H
#define NEARCPU_ARCH_ARCH_H

#include <nearcpu/api.h>
#include <stdint.h>

#if defined(NEAR_ARCH_GENERIC)
#include <nearcpu/detail/arch/generic.h>
#elif defined(__x86_64__) && defined(__LP64__)
#include <nearcpu/detail/arch/x86_64.h>
#elif defined(__aarch64__) && defined(__LP64__) && !defined(__AARCH64EB__)
#include <nearcpu/detail/arch/aarch64.h>
#elif defined(__riscv) && __riscv_xlen == 64
#include <nearcpu/detail/arch/riscv64.h>
#else
#include <nearcpu/detail/arch/generic.h>
#endif

/* What is the same on most CPUs. */
#ifndef NEAR__CLOCK_OUT
#define NEAR__CLOCK_OUT(time) NEAR__OUT(time)
#endif
#ifndef NEAR__COMPARED
#define NEAR__COMPARED "r"
#define NEAR__BRANCH_NOT_BELOW_MEM1(a, base, off, label)                                           \
	NEAR_LOAD1(near_tmp, base, off) NEAR_BRANCH_NOT_BELOW(a, near_tmp, label)
#endif
#ifndef near__prefetch_for_write
#define near__prefetch_for_write(p) __builtin_prefetch(p, 1)
#endif

/* The lower half of 64 bits, for a compare-exchange to expect. */
#ifndef NEAR__LOW_HALF
#define NEAR__LOW_HALF(value) ((uint32_t)(value))
#endif

/* The number of the highest bit of v that is set. Requires that v is not 0. */
#ifndef NEAR__TOP_BIT
#define NEAR__TOP_BIT(v) (63u ^ (unsigned)__builtin_clzll(v))
#endif

#endif
