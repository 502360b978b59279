/* SPDX-License-Identifier: MIT */
/* The table of locks. Because of the binding "unique" the dynamic linker keeps one in the process,
 * no matter how many shared objects contain this library; a program that contains it exports its
 * own by its link options. C cannot express this binding, so this is assembly. */
#include "atomic/table.h"

_Static_assert(sizeof(struct near__atomic_lock) == 64, "a lock in each line");
_Static_assert(sizeof(struct near__atomic_locks) == 16448, "near__atomic_locks below");

/* clang-format off */
__asm__(".pushsection .bss.near, \"aw\", %nobits\n"
	".balign 64\n"
	".globl near__atomic_locks\n"
	".type near__atomic_locks, %gnu_unique_object\n"
	".size near__atomic_locks, 16448\n"
	"near__atomic_locks: .zero 16448\n"
	".popsection\n");
/* clang-format on */
