/* SPDX-License-Identifier: MIT */
/* The state of the process, see kernel.h. Data alone: process.c decides what is in it. */
#include "base/unique.h"
#include "kernel/kernel.h"

/* Room for later fields: patch versions of the library share it. */
#define PROCESS_SIZE 1024
_Static_assert(sizeof(struct near__process) <= PROCESS_SIZE, "near__process");
NEAR__UNIQUE(near__process, PROCESS_SIZE);

/* other_copies.c reads this note: a name, the distance to the state in this object, by a local
 * symbol that the dynamic linker does not redirect, and the version that decides who shares it. */
/* clang-format off */
__asm__(".pushsection .note.nearcpu, \"a\", %note\n"
	".balign 4\n"
	".globl near__note\n"
	".hidden near__note\n"
	"near__note:\n"
	".4byte 8, 8, 1\n"
	".asciz \"Nearcpu\"\n"
	".4byte .Lnear__process - .\n"
	".4byte " NEAR__TEXT(NEAR__STATE_NUMBER) "\n"
	".popsection\n");
/* clang-format on */
