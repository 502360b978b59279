/* SPDX-License-Identifier: MIT */
/* The symbols of a program or a library. */
#include "run/run.h"

#include <string.h>

static bool in_file(const struct run_file *f, uint64_t offset, uint64_t size)
{
	return offset <= f->size && size <= f->size - offset;
}

static int has_in(const struct run_file *f, const Elf64_Shdr *symbols, const Elf64_Shdr *names,
		  run_symbol_test *test)
{
	if (!in_file(f, symbols->sh_offset, symbols->sh_size) ||
	    !in_file(f, names->sh_offset, names->sh_size))
		return -1;
	for (uint64_t i = 0; i < symbols->sh_size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym s;

		memcpy(&s, f->at + symbols->sh_offset + i * sizeof(s), sizeof(s));
		if (s.st_name && s.st_name < names->sh_size &&
		    test(&s, f->at + names->sh_offset + s.st_name, names->sh_size - s.st_name))
			return 1;
	}
	return 0;
}

static int has(const struct run_file *f, unsigned type, run_symbol_test *test)
{
	Elf64_Ehdr e;
	Elf64_Shdr s, names;

	if (f->size < sizeof(e))
		return -1;
	memcpy(&e, f->at, sizeof(e));
	if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_shentsize != sizeof(s) || !in_file(f, e.e_shoff, e.e_shnum * sizeof(s)))
		return -1;
	for (unsigned i = 0; i < e.e_shnum; i++) {
		memcpy(&s, f->at + e.e_shoff + i * sizeof(s), sizeof(s));
		if (s.sh_type != type || s.sh_link >= e.e_shnum)
			continue;
		memcpy(&names, f->at + e.e_shoff + s.sh_link * sizeof(s), sizeof(s));
		return has_in(f, &s, &names, test);
	}
	return -1;
}

int run_has_symbol(const char *path, unsigned type, run_symbol_test *test)
{
	struct run_file f;
	int answer;

	if (!run_map(&f, path))
		return -1;
	answer = has(&f, type, test);
	run_unmap(&f);
	return answer;
}

static bool is_malloc(const Elf64_Sym *s, const char *name, size_t room)
{
	return s->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
	       room > sizeof("malloc") - 1 && strcmp(name, "malloc") == 0;
}

bool run_has_malloc(const char *elf)
{
	return run_has_symbol(elf, SHT_DYNSYM, is_malloc) == 1 ||
	       run_has_symbol(elf, SHT_SYMTAB, is_malloc) == 1;
}
