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

struct object {
	uint64_t begin, end, offset, inode;
	const char *path;
};

/* Of the address that is searched for. */
static uint64_t wanted; /* less than that of the symbol `name` */
static char name[256];

/* The last one that was there. */
static bool find_object(struct object *o, const struct trace_file *f, uint64_t address)
{
	for (unsigned id = UINT16_MAX; id; id--) {
		const struct trace_point *p = f->points[id];

		if (!p || !p->is_object ||
		    sscanf(p->place, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %" SCNu64,
			   &o->begin, &o->end, &o->offset, &o->inode) < 4)
			continue;
		o->path = strchr(p->place, '/');
		if (o->path && address >= o->begin && address < o->end)
			return true;
	}
	return false;
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
	for (unsigned i = 0; i < e.e_phnum; i++) {
		if (!elf_in_file(f, e.e_phoff + i * sizeof(h), sizeof(h)))
			return;
		memcpy(&h, f->at + e.e_phoff + i * sizeof(h), sizeof(h));
		if (h.p_type == PT_LOAD && wanted - h.p_offset < h.p_filesz) {
			wanted += h.p_vaddr - h.p_offset;
			return;
		}
	}
}

/* A trace may have any path. */
static void search_file(const struct object *o, uint64_t since_ns)
{
	struct elf_file f;
	struct stat st;

	if (stat(o->path, &st) || !S_ISREG(st.st_mode) || st.st_ino != o->inode ||
	    (uint64_t)st.st_mtime > since_ns / 1000000000 || !elf_map(&f, o->path))
		return;
	add_base(&f);
	elf_unmap(&f);
	if (elf_has_symbol(o->path, SHT_SYMTAB, has_address) < 0)
		elf_has_symbol(o->path, SHT_DYNSYM, has_address);
}

const char *trace_address(const struct trace_field *f, uint64_t address)
{
	struct trace_file *file = f->point->file->owner;
	struct word key = word("0x%" PRIx64, address);
	json_t *text = json_object_get(file->symbols, key.text);
	struct object o;

	if (text)
		return json_string_value(text);
	if (find_object(&o, file, address)) {
		/* The call is in the function: its return address may be behind it. */
		wanted = address - o.begin + o.offset - 1;
		snprintf(name, sizeof(name), "%s", strrchr(o.path, '/') + 1);
		search_file(&o, file->session.begin.realtime_ns);
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
