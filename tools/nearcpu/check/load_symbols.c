/* SPDX-License-Identifier: MIT */
/* The functions of an image, by .symtab or .dynsym; and the sections that list sequences.
 *
 * A stripped file has its functions in the table that unwinding searches (.eh_frame_hdr; Linux
 * Standard Base, "Exception Frames"). It stays when symbols and section headers are gone. */
#include "check/array.h"
#include "check/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A file may be made of nothing but symbols; each costs 24 bytes there. */
static int add_function(struct load *l, const Elf64_Sym *symbol, const char *name)
{
	struct image *image = l->image;
	uint64_t start = symbol->st_value, size = symbol->st_size;

	if (l->image->is_object) {
		if (symbol->st_shndx >= l->section_count || !l->addresses[symbol->st_shndx])
			return 0;
		start += l->addresses[symbol->st_shndx];
	}
	if (!size || size > UINT64_MAX - start || !image_is_code(image, start))
		return 0;
	return ARRAY_ADD(image->functions, image->function_count,
			 (struct function){start, start + size, name});
}

static const char *name_of(const char *names, size_t size, uint32_t offset)
{
	/* The copy of the names ends with a zero of ours. */
	return offset < size ? names + offset : "";
}

static int read_table(struct load *l, size_t index)
{
	const Elf64_Shdr *table = &l->sections[index], *strings;
	const uint8_t *bytes = load_bytes(l, table->sh_offset, table->sh_size), *from;

	if (!bytes || table->sh_link >= l->section_count)
		return 0;
	strings = &l->sections[table->sh_link];
	from = load_bytes(l, strings->sh_offset, strings->sh_size);
	if (!from || strings->sh_type != SHT_STRTAB)
		return 0;
	l->image->names = malloc(strings->sh_size + 1);
	if (!l->image->names)
		return -ENOMEM;
	memcpy(l->image->names, from, strings->sh_size);
	l->image->names[strings->sh_size] = '\0';
	for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
		Elf64_Sym symbol;
		int err;

		memcpy(&symbol, bytes + at, sizeof(symbol));
		if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF)
			continue;
		err = add_function(l, &symbol,
				   name_of(l->image->names, strings->sh_size, symbol.st_name));
		if (err)
			return err;
	}
	return 0;
}

/* The encodings that linkers use: a count of 4 bytes, and pairs of distances from the table. */
#define COUNT_4 0x03
#define PAIRS_4 0x3b

struct header {
	uint8_t version, frame, count, table;
	int32_t frame_distance;
	uint32_t pairs;
};

/* In an entry of the usual encoding, the length of the function follows its start. */
static uint64_t length_at(const struct image *image, uint64_t entry)
{
	uint32_t length = 0;

	return image_read(image, entry + 12, &length, sizeof(length)) && length < 1u << 24 ? length
											   : 0;
}

static int add_frame(struct load *l, uint64_t start, uint64_t entry)
{
	struct image *image = l->image;
	uint64_t length = length_at(image, entry);

	if (!length || !image_is_code(image, start) || !image_is_code(image, start + length - 1))
		return 0;
	return ARRAY_ADD(image->functions, image->function_count,
			 (struct function){start, start + length, NULL});
}

static int load_frames(struct load *l)
{
	GElf_Phdr p = {0};
	struct header h;
	int32_t pair[2];

	if (!load_header(l, PT_GNU_EH_FRAME, &p) ||
	    !image_read(l->image, p.p_vaddr, &h, sizeof(h)) || h.version != 1 ||
	    h.count != COUNT_4 || h.table != PAIRS_4)
		return 0;
	for (uint64_t i = 0; i < h.pairs && i < l->size / sizeof(pair); i++) {
		int err;

		if (!image_read(l->image, p.p_vaddr + sizeof(h) + i * sizeof(pair), pair,
				sizeof(pair)))
			return 0;
		err = add_frame(l, p.p_vaddr + (uint64_t)(int64_t)pair[0],
				p.p_vaddr + (uint64_t)(int64_t)pair[1]);
		if (err)
			return err;
	}
	return 0;
}

/* The last of those at one address is the one that is found: the shortest, one with a name. */
static int by_start(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return (x->name != NULL) - (y->name != NULL);
}

int load_symbols(struct load *l)
{
	size_t table = 0;
	int err = 0;

	for (size_t i = 0; i < l->section_count && !table; i++)
		if (l->sections[i].sh_type == SHT_SYMTAB)
			table = i;
	if (!table)
		err = load_frames(l);
	for (size_t i = 0; i < l->section_count && !table; i++)
		if (l->sections[i].sh_type == SHT_DYNSYM)
			table = i;
	if (table && !err)
		err = read_table(l, table);
	if (!err && l->image->function_count)
		qsort(l->image->functions, l->image->function_count, sizeof(struct function),
		      by_start);
	return err;
}

static int listed_kind(const char *name, const Elf64_Shdr *s)
{
	if (s->sh_flags & SHF_EXECINSTR)
		return LISTED_CODE;
	if (strcmp(name, "__rseq_cs") == 0)
		return LISTED_CS;
	if (strcmp(name, "__rseq_cs_ptr_array") == 0)
		return LISTED_POINTERS;
	if (strcmp(name, "__rseq_exit_point_array") == 0)
		return LISTED_EXITS;
	return LISTED_KINDS;
}

int load_listed(struct load *l)
{
	struct image *image = l->image;

	for (size_t i = 1; i < l->section_count; i++) {
		const Elf64_Shdr *s = &l->sections[i];
		int kind = listed_kind(load_section_name(l, i), s);
		uint64_t start = l->addresses[i];

		if (kind == LISTED_KINDS || s->sh_type != SHT_PROGBITS || !s->sh_size ||
		    s->sh_size > UINT64_MAX - start)
			continue;
		if (ARRAY_ADD(image->listed[kind], image->listed_count[kind],
			      (struct range){start, start + s->sh_size}))
			return -ENOMEM;
	}
	return 0;
}
