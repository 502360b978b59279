/* SPDX-License-Identifier: MIT */
/* The library's state: the objects of which a process has one, however many of its shared objects
 * contain the static library. The binding "unique" tells the dynamic linker to keep one copy in
 * whatever scope they were opened (glibc; others unite global scopes only), and never to unload it.
 * C has no word for it, and clang refuses to change a binding afterwards: hence assembly. */
#include "kernel/internal.h"
#include "parking/lot.h"
#include "locks/order.h"
#include "locks/owner.h"

/* Room for later fields, so that copies of different versions of the library can share it. */
#define PROCESS_SIZE 8192
_Static_assert(sizeof(struct near__process) <= PROCESS_SIZE, "near__process in the assembly below");
#define LOT_SIZE 66560
_Static_assert(sizeof(struct near__lot) == LOT_SIZE, "near__lot in the assembly below");
_Static_assert(NEAR__NO_OWNER == 16, "near__owner in the assembly below");
_Static_assert(sizeof(struct near__lot_mine) == 2 * sizeof(void *) + 8, "near__lot_mine below");
_Static_assert(sizeof(struct near__area) == 32, "near__dead in the assembly below");
_Static_assert(sizeof(struct near__thread) == 2 * sizeof(void *) + 16, "near__self below");

#if __SIZEOF_POINTER__ == 8
#define POINTER ".8byte "
#else
#define POINTER ".4byte "
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

/* A new thread is not live: `area` is near__dead, the rest is 0. Nor does it own a lock yet.
 * copy.c reads the note: name, and the distance to the state in this object. */
/* clang-format off */
__asm__(".pushsection .bss.near, \"aw\", %nobits\n"
	".balign 64\n"
	".type near__dead, %gnu_unique_object\n"
	".size near__dead, 32\n"
	"near__dead: .zero 32\n"
	".balign 64\n"
	".type near__process, %gnu_unique_object\n"
	".size near__process, " TEXT(PROCESS_SIZE) "\n"
	"near__process: .Lnear_process: .zero " TEXT(PROCESS_SIZE) "\n"
	".balign 64\n"
	".type near__lot, %gnu_unique_object\n"
	".size near__lot, " TEXT(LOT_SIZE) "\n"
	"near__lot: .zero " TEXT(LOT_SIZE) "\n"
	".popsection\n"
	".pushsection .tdata.near, \"awT\", %progbits\n"
	".balign 16\n"
	".type near__self, %gnu_unique_object\n"
	".size near__self, 2 * " TEXT(__SIZEOF_POINTER__) " + 16\n"
	"near__self: " POINTER "near__dead\n"
	".zero 16 + " TEXT(__SIZEOF_POINTER__) "\n"
	".balign 8\n"
	".type near__owner, %gnu_unique_object\n"
	".size near__owner, 8\n"
	"near__owner: .8byte 16\n"
	".balign " TEXT(__SIZEOF_POINTER__) "\n"
	".type near__order_self, %gnu_unique_object\n"
	".size near__order_self, " TEXT(__SIZEOF_POINTER__) "\n"
	"near__order_self: " POINTER "0\n"
	".type near__lot_mine, %gnu_unique_object\n"
	".size near__lot_mine, 2 * " TEXT(__SIZEOF_POINTER__) " + 8\n"
	"near__lot_mine: .zero 2 * " TEXT(__SIZEOF_POINTER__) " + 8\n"
	".popsection\n"
	".pushsection .note.nearcpu, \"a\", %note\n"
	".balign 4\n"
	".4byte 8, 4, 1\n"
	".asciz \"Nearcpu\"\n"
	".4byte .Lnear_process - .\n"
	".popsection\n");
/* clang-format on */
