/* SPDX-License-Identifier: MIT */
/* Files mapped into memory, and the symbols of a program or a library. */
#include "common/elf_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool elf_map_fd(struct elf_file *f, int fd)
{
	struct stat st;

	*f = (struct elf_file){"", 0};
	if (fstat(fd, &st))
		return false;
	if (st.st_size <= 0)
		return true;
	f->size = (size_t)st.st_size;
	f->at = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (f->at == MAP_FAILED)
		*f = (struct elf_file){"", 0};
	return f->size;
}

bool elf_map(struct elf_file *f, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool mapped = elf_map_fd(f, fd);

	if (fd >= 0)
		close(fd);
	return mapped;
}

void elf_unmap(const struct elf_file *f)
{
	if (f->size)
		munmap((void *)f->at, f->size);
}

/* ---- symbols ---- */

bool elf_in_file(const struct elf_file *f, uint64_t offset, uint64_t size)
{
	return offset <= f->size && size <= f->size - offset;
}

static int has_in(const struct elf_file *f, const Elf64_Shdr *symbols, const Elf64_Shdr *names,
		  elf_symbol_test *test)
{
	if (!elf_in_file(f, symbols->sh_offset, symbols->sh_size) ||
	    !elf_in_file(f, names->sh_offset, names->sh_size))
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

static int has(const struct elf_file *f, unsigned type, elf_symbol_test *test)
{
	Elf64_Ehdr e;
	Elf64_Shdr s, names;

	if (f->size < sizeof(e))
		return -1;
	memcpy(&e, f->at, sizeof(e));
	if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_shentsize != sizeof(s) || !elf_in_file(f, e.e_shoff, e.e_shnum * sizeof(s)))
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

int elf_has_symbol(const char *path, unsigned type, elf_symbol_test *test)
{
	struct elf_file f;
	int answer;

	if (!elf_map(&f, path))
		return -1;
	answer = has(&f, type, test);
	elf_unmap(&f);
	return answer;
}
