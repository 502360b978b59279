/* SPDX-License-Identifier: MIT */
/* Reads the symbol tables of an ELF file. */
#define _GNU_SOURCE
#include "torture/names.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void near__names_open(struct names *w, const char *path, uintptr_t base)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	*w = (struct names){.base = base};
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && (size_t)st.st_size >= sizeof(ElfW(Ehdr))) {
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		w->image = map == MAP_FAILED ? NULL : map;
		w->size = (size_t)st.st_size;
	}
	close(fd);
	if (w->image && memcmp(w->image, ELFMAG, SELFMAG) != 0)
		near__names_close(w);
}

void near__names_close(struct names *w)
{
	if (w->image)
		munmap((void *)(uintptr_t)w->image, w->size);
	w->image = NULL;
}

/* The file may have changed since the process started: nothing outside of it is read. */
static const void *names_part(const struct names *w, uint64_t offset, uint64_t size)
{
	return offset <= w->size && size <= w->size - offset ? w->image + offset : NULL;
}

static const char *name_at(const struct names *w, const ElfW(Shdr) * strings, size_t offset)
{
	const char *name;

	if (!names_part(w, strings->sh_offset, strings->sh_size) || offset >= strings->sh_size)
		return NULL;
	name = w->image + strings->sh_offset + offset;
	return memchr(name, '\0', strings->sh_size - offset) ? name : NULL;
}

static const char *names_search(const struct names *w, const ElfW(Shdr) * table,
				const ElfW(Shdr) * strings, uintptr_t address, uintptr_t *offset)
{
	const ElfW(Sym) *symbols = names_part(w, table->sh_offset, table->sh_size);

	for (size_t i = 0; symbols && i < table->sh_size / sizeof(*symbols); i++) {
		const ElfW(Sym) *s = &symbols[i];

		/* The kind is the low four bits, in files of 32 and of 64 bits. */
		if ((s->st_info & 0xf) != STT_FUNC || address < s->st_value ||
		    address >= s->st_value + s->st_size)
			continue;
		*offset = address - s->st_value;
		return name_at(w, strings, s->st_name);
	}
	return NULL;
}

/* Stripped files still have the table of their dynamic symbols. */
const char *near__name_of(const struct names *w, uintptr_t address, uintptr_t *offset)
{
	static const unsigned kinds[] = {SHT_SYMTAB, SHT_DYNSYM};
	const ElfW(Ehdr) *header = (const void *)w->image;
	const ElfW(Shdr) *sections = NULL;
	const char *name = NULL;

	address -= w->base;
	if (header)
		sections = names_part(w, header->e_shoff,
				      (uint64_t)header->e_shnum * sizeof(*sections));
	for (unsigned k = 0; sections && k < 2; k++)
		for (unsigned i = 0; i < header->e_shnum && !name; i++)
			if (sections[i].sh_type == kinds[k] &&
			    sections[i].sh_link < header->e_shnum)
				name = names_search(w, &sections[i], &sections[sections[i].sh_link],
						    address, offset);
	if (name)
		return name;
	*offset = address;
	return "?";
}
