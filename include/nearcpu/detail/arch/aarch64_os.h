/* SPDX-License-Identifier: MIT */
/* What the library itself needs of aarch64: vfork, and which kernels to refuse. */
#ifndef NEARCPU_ARCH_AARCH64_OS_H
#define NEARCPU_ARCH_AARCH64_OS_H

#include <stdbool.h>

/* Linux 6.19 to 7.0.13: preemption by a thread on the same CPU does not abort a sequence. Mended by
 * commit 411c1cf43039 (7.1-rc3, 7.0.14). The version is major << 16 | minor << 8 | patch. */
#define NEAR__BROKEN_KERNEL(version) ((version) >= 0x061300 && (version) < 0x07000e)
#define NEAR__BROKEN_WHY "this kernel (6.19 to 7.0.13, arm64) does not restart preempted sequences"

/* See x86_64_os.h, also for guarded control stacks: the child's jump takes no entry of that which
 * it shares; GCC and clang have a `bti j` behind calls that return twice, where it arrives. 220 is
 * clone; its flags CLONE_VM | CLONE_VFORK | SIGCHLD. */
#define NEAR__VFORK_ASM                                                                            \
	"	hint #34\n"                                                                        \
	"	adrp x9, :gottprel:" NEAR__STATE_NAME("near__self") "\n" \
	"	ldr x9, [x9, #:gottprel_lo12:" NEAR__STATE_NAME("near__self") "]\n" \
	"	mrs x10, tpidr_el0\n"                                                              \
	"	add x9, x9, x10\n"                                                                 \
	"	ldr x11, [x9]\n"                                                                   \
	"	ldr w12, [x9, #12]\n"                                                              \
	"	adrp x13, :got:" NEAR__STATE_NAME("near__dead") "\n" \
	"	ldr x13, [x13, #:got_lo12:" NEAR__STATE_NAME("near__dead") "]\n" \
	"	mov w14, #3\n"                                                                     \
	"	str w14, [x9, #12]\n"                                                              \
	"	str x13, [x9]\n"                                                                   \
	"	mov x0, #0x4111\n"                                                                 \
	"	mov x1, #0\n"                                                                      \
	"	mov x8, #220\n"                                                                    \
	"	svc #0\n"                                                                          \
	"	cbnz x0, 1f\n"                                                                     \
	"	br x30\n"                                                                          \
	"1:	str x11, [x9]\n"                                                                   \
	"	str w12, [x9, #12]\n"                                                              \
	"	b near__vfork_parent\n"

#define NEAR__HAS_CPU_INSN 0

#endif
