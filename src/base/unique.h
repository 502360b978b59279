/* SPDX-License-Identifier: MIT */
/* unique: objects of which a process has one, however many of its shared objects contain the static
 * library. The binding "unique" makes the dynamic linker keep one copy in whatever scope they were
 * opened (glibc; others unite global scopes only), and never unload it. C has no word for it, and
 * clang refuses to change a binding afterwards: hence assembly. Each layer defines its own state,
 * so that a static program has the state of the layers that it uses. Sizes and contents are numbers
 * that the assembler knows: assert that they are those of the type. A file defines one zeroed
 * object: aarch64's assembler confuses the addresses of two. Thread-local memory is scarce, see
 * block.h: what inline code does not use belongs there. The symbols have the suffix of api.h:
 * another version has its own. */
#ifndef NEARCPU_UNIQUE_H
#define NEARCPU_UNIQUE_H

#include <nearcpu/api.h>

#include "base/valgrind.h"

#if __SIZEOF_POINTER__ == 8
#define NEAR__UNIQUE_POINTER ".8byte "
#else
#define NEAR__UNIQUE_POINTER ".4byte "
#endif

/* Zeroed memory of the process, on cache lines of its own. */
#define NEAR__UNIQUE(name, size)                                                                   \
	NEAR__UNIQUE_(name, ".bss.near, \"aw\", %nobits", "64", size,                              \
		      ".zero " NEAR__TEXT(size) "\n")
/* The same for the state of a layer, struct `name`: valgrind's tools report no races on its locks
 * and on words that atomics change. */
#define NEAR__LAYER_STATE(name, size)                                                              \
	_Static_assert(sizeof(struct name) <= (size), #name);                                      \
	NEAR__UNIQUE(name, size);                                                                  \
	NEAR__BEFORE_PROGRAM static void name##_ignore_races(void)                                 \
	{                                                                                          \
		near__valgrind_ignore(&name, sizeof(name));                                        \
	}                                                                                          \
	NEAR__SEMICOLON
/* The same, which cannot be written to. */
#define NEAR__UNIQUE_ZERO_CONST(name, size)                                                        \
	NEAR__UNIQUE_(name, ".rodata.near, \"a\", %progbits", "64", size,                          \
		      ".zero " NEAR__TEXT(size) "\n")
/* Thread-local memory of `size` bytes that starts with `content`; 32 bytes are on one line. */
#define NEAR__UNIQUE_TLS(name, size, content)                                                      \
	NEAR__UNIQUE_(name, ".tdata.near, \"awT\", %progbits", "32", size, content)
/* The same as NEAR__UNIQUE, but shared by all versions of the library. */
#define NEAR__UNIQUE_FOR_ALL(name, size)                                                           \
	NEAR__UNIQUE_AS(#name, name, ".bss.near, \"aw\", %nobits", "64", size,                     \
			".zero " NEAR__TEXT(size) "\n")
#define NEAR__UNIQUE_(name, section, align, size, content)                                         \
	NEAR__UNIQUE_AS(NEAR__STATE_NAME(#name), name, section, align, size, content)
#define NEAR__UNIQUE_AS(symbol, name, section, align, size, content)                               \
	__asm__(".pushsection " section "\n"                                                       \
		".balign " align "\n"                                                              \
		".type " symbol ", %gnu_unique_object\n"                                           \
		".size " symbol ", " NEAR__TEXT(size) "\n" symbol ": .L" #name ": " content        \
						      ".popsection\n")

#endif
