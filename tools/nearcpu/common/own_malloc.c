/* SPDX-License-Identifier: MIT */
/* The malloc that a program brings along, by its symbols. */
#include "common/elf_file.h"
#include "common/own_malloc.h"

#include <string.h>

/* Functions that the allocators have under the same name wherever they are built in. */
static const struct {
	const char *symbol, *allocator;
} marks[] = {
	{"je_malloc", "jemalloc"},
	{"mallctl", "jemalloc"},
	{"je_mallctl", "jemalloc"},
	{"_rjem_mallctl", "jemalloc"}, /* Rust's */
	{"tc_malloc", "tcmalloc"},
	{"TCMallocInternalMalloc", "tcmalloc"},
	{"mi_malloc", "mimalloc"},
	{"_mi_malloc_generic", "mimalloc"},
	{"rpmalloc", "rpmalloc"},
	{"sn_rust_alloc", "snmalloc"},
	{"runtime.mallocgc", "Go's"},
	{"near_malloc_stats", "this library's"},
	{"malloc", "one without a name that is known"},
};
#define MARKS (sizeof(marks) / sizeof(marks[0]))

static size_t best; /* of the marks that were found: the first */

static bool is_mark(const Elf64_Sym *s, const char *name, size_t room)
{
	if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_FUNC)
		return false;
	for (size_t i = 0; i < best; i++)
		if (strlen(marks[i].symbol) < room && strcmp(name, marks[i].symbol) == 0)
			best = i;
	return best < MARKS - 1;
}

const char *own_malloc(const char *elf)
{
	best = MARKS;
	if (elf_has_symbol(elf, SHT_DYNSYM, is_mark) != 1)
		elf_has_symbol(elf, SHT_SYMTAB, is_mark);
	return best < MARKS ? marks[best].allocator : NULL;
}
