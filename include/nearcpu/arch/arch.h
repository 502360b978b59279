/* SPDX-License-Identifier: MIT */
/* Chooses the CPU's header: the one place that tests which CPU this is.
 * NEAR_ARCH_GENERIC, defined by the compiler's command line, takes the portable path everywhere. */
#ifndef NEARCPU_ARCH_ARCH_H
#define NEARCPU_ARCH_ARCH_H

#include <nearcpu/api.h>
#include <stdint.h>

#if defined(NEAR_ARCH_GENERIC)
#include <nearcpu/arch/generic.h>
#elif defined(__x86_64__) && defined(__LP64__)
#include <nearcpu/arch/x86_64.h>
#elif defined(__aarch64__) && defined(__LP64__) && !defined(__AARCH64EB__)
#include <nearcpu/arch/aarch64.h>
#elif defined(__riscv) && __riscv_xlen == 64
#include <nearcpu/arch/riscv64.h>
#else
#include <nearcpu/arch/generic.h>
#endif

/* The lower half of 64 bits, for a compare-exchange to expect. */
#ifndef NEAR__LOW_HALF
#define NEAR__LOW_HALF(value) ((uint32_t)(value))
#endif

#endif
