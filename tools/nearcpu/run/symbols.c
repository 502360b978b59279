/* SPDX-License-Identifier: MIT */
/* The symbols of the program. */
#include "run/run.h"

#include <string.h>

static bool is_malloc(const Elf64_Sym *s, const char *name, size_t room)
{
	return s->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
	       room > sizeof("malloc") - 1 && strcmp(name, "malloc") == 0;
}

bool run_has_malloc(const char *elf)
{
	return elf_has_symbol(elf, SHT_DYNSYM, is_malloc) == 1 ||
	       elf_has_symbol(elf, SHT_SYMTAB, is_malloc) == 1;
}
