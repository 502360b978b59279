/* SPDX-License-Identifier: MIT */
/* Functions of a program or a library, by lines of /proc/PID/maps and by the files. */
#include "common/symbols.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/elf_file.h"

/* Of the address that is searched for: what it is more than the symbol `name`, less 1; the inode of
 * its file. */
static uint64_t wanted, inode;
static char name[256], text[300];
static const char *found_path;

bool symbols_find(const char *line, uint64_t address)
{
	uint64_t begin, end, offset;

	found_path = strchr(line, '/');
	if (!found_path ||
	    sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %" SCNu64, &begin, &end,
		   &offset, &inode) < 4 ||
	    address < begin || address >= end)
		return false;
	wanted = address - begin + offset - 1; /* the call is in the function */
	return true;
}

static bool has_address(const Elf64_Sym *s, const char *symbol, size_t room)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);

	if (s->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC) ||
	    wanted - s->st_value >= s->st_size)
		return false;
	room = room < sizeof(name) ? room : sizeof(name) - 1;
	snprintf(name, sizeof(name), "%.*s", (int)room, symbol);
	wanted -= s->st_value;
	return true;
}

/* From the place in the file to the address that the file has for it. */
static void add_base(const struct elf_file *f)
{
	Elf64_Ehdr e = {.e_phnum = 0};
	Elf64_Phdr h;

	memcpy(&e, f->at, f->size < sizeof(e) ? 0 : sizeof(e));
	for (unsigned i = 0; i < e.e_phnum && elf_in_file(f, e.e_phoff + i * sizeof(h), sizeof(h));
	     i++) {
		memcpy(&h, f->at + e.e_phoff + i * sizeof(h), sizeof(h));
		if (h.p_type == PT_LOAD && wanted - h.p_offset < h.p_filesz) {
			wanted += h.p_vaddr - h.p_offset;
			return;
		}
	}
}

/* The line may have any path. */
static void search_file(const char *path, uint64_t since_ns)
{
	struct elf_file f;
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_ino != inode ||
	    (uint64_t)st.st_mtime > since_ns / 1000000000 || !elf_map(&f, path))
		return;
	add_base(&f);
	elf_unmap(&f);
	if (elf_has_symbol(path, SHT_SYMTAB, has_address) < 0)
		elf_has_symbol(path, SHT_DYNSYM, has_address);
}

const char *symbols_name(uint64_t since_ns)
{
	snprintf(name, sizeof(name), "%s", strrchr(found_path, '/') + 1);
	search_file(found_path, since_ns);
	for (char *c = name; *c; c++) /* what terminals, CSV and JSON have as it is */
		*c = isgraph((unsigned char)*c) && !strchr("\"\\,[]", *c) ? *c : '?';
	snprintf(text, sizeof(text), "%s+0x%" PRIx64, name, wanted + 1);
	return text;
}
