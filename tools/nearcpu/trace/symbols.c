/* SPDX-License-Identifier: MIT */
/* What the addresses of call stacks are: functions of the program or of a library, by the lines of
 * /proc/PID/maps that the trace has (NEAR__TRACE_OBJECT), and by the files, if they are those that
 * were mapped: they have the same inode, and have not changed since. Each address is searched for
 * once. */
#include "trace/print.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#include "common/elf_file.h"
#include "common/text.h"

/* Of the address that is searched for: what it is more than the symbol `name`, less 1; the inode of
 * its file. */
static uint64_t wanted, inode;
static char name[256];

/* The path of the last one that was there; NULL: there was none. */
static const char *find_object(const struct trace_file *f, uint64_t address)
{
	uint64_t begin, end, offset;

	for (unsigned id = UINT16_MAX; id; id--) {
		const struct trace_point *p = f->points[id];

		if (!p || !p->is_object || !strchr(p->place, '/') ||
		    sscanf(p->place, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %" SCNu64, &begin,
			   &end, &offset, &inode) < 4 ||
		    address < begin || address >= end)
			continue;
		wanted = address - begin + offset - 1; /* the call is in the function */
		return strchr(p->place, '/');
	}
	return NULL;
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

/* A trace may have any path. */
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

const char *trace_address(const struct trace_field *f, uint64_t address)
{
	struct trace_file *file = f->point->file->owner;
	struct word key = word("0x%" PRIx64, address);
	json_t *text = json_object_get(file->symbols, key.text);
	const char *path;

	if (text)
		return json_string_value(text);
	path = find_object(file, address);
	if (path) {
		snprintf(name, sizeof(name), "%s", strrchr(path, '/') + 1);
		search_file(path, file->session.begin.realtime_ns);
		for (char *c = name; *c; c++) /* what terminals, CSV and JSON have as it is */
			*c = isgraph((unsigned char)*c) && !strchr("\"\\,[]", *c) ? *c : '?';
		text = json_sprintf("%s+0x%" PRIx64, name, wanted + 1);
	} else {
		text = json_string(key.text);
	}
	if (!file->symbols)
		file->symbols = json_object();
	json_object_set_new(file->symbols, key.text, text);
	return json_string_value(text);
}
