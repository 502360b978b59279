/* SPDX-License-Identifier: MIT */
/* What the library itself needs of riscv64: vfork. */
#ifndef NEARCPU_ARCH_RISCV64_OS_H
#define NEARCPU_ARCH_RISCV64_OS_H

#include <stdbool.h>

#define NEAR__BROKEN_KERNEL(version) ((void)(version), false)
#define NEAR__BROKEN_WHY ""

/* See x86_64_os.h. 220 is clone; its flags CLONE_VM | CLONE_VFORK | SIGCHLD. */
#define NEAR__VFORK_ASM                                                                            \
	"	la.tls.ie t0, " NEAR__STATE_NAME("near__self") "\n" \
	"	add t0, t0, tp\n"                                                                  \
	"	ld t2, 0(t0)\n"                                                                    \
	"	lw t3, 12(t0)\n"                                                                   \
	"	la t4, " NEAR__STATE_NAME("near__dead") "\n" \
	"	li t5, 3\n"                                                                        \
	"	sw t5, 12(t0)\n"                                                                   \
	"	sd t4, 0(t0)\n"                                                                    \
	"	li a0, 0x4111\n"                                                                   \
	"	li a1, 0\n"                                                                        \
	"	li a7, 220\n"                                                                      \
	"	ecall\n"                                                                           \
	"	bnez a0, 1f\n"                                                                     \
	"	ret\n"                                                                             \
	"1:	sd t2, 0(t0)\n"                                                                    \
	"	sw t3, 12(t0)\n"                                                                   \
	"	tail near__vfork_parent\n"

#define NEAR__HAS_CPU_INSN 0

#endif
