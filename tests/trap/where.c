/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "where.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *image; /* the program's file; it stays mapped, names point into it */
static uintptr_t bias;    /* between the file's addresses and those of the process */

static int find_bias(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	bias = info->dlpi_addr;
	return 1; /* the program itself comes first */
}

static void map_program(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0) {
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		image = map == MAP_FAILED ? NULL : map;
	}
	close(fd);
	dl_iterate_phdr(find_bias, NULL);
}

static const char *search(const ElfW(Shdr) * sections, const ElfW(Shdr) * symtab, uintptr_t address)
{
	const ElfW(Sym) *symbols = (const void *)(image + symtab->sh_offset);
	const char *strings = image + sections[symtab->sh_link].sh_offset;

	for (size_t i = 0; i < symtab->sh_size / sizeof(*symbols); i++) {
		const ElfW(Sym) *s = &symbols[i];

		/* The kind is the low four bits, in files of 32 and of 64 bits. */
		if ((s->st_info & 0xf) == STT_FUNC && address - bias >= s->st_value &&
		    address - bias < s->st_value + s->st_size)
			return strings + s->st_name;
	}
	return NULL;
}

const char *where(uintptr_t address)
{
	const ElfW(Ehdr) * header;
	const ElfW(Shdr) * sections;
	const char *name = NULL;

	if (!image)
		map_program();
	if (!image)
		return "?";
	header = (const void *)image;
	sections = (const void *)(image + header->e_shoff);
	for (unsigned i = 0; i < header->e_shnum && !name; i++)
		if (sections[i].sh_type == SHT_SYMTAB)
			name = search(sections, &sections[i], address);
	return name ? name : "?";
}
