/* SPDX-License-Identifier: MIT */
/* The functions of an image, by .symtab or .dynsym; and the sections that list sequences.
 *
 * A stripped file has its functions in the table that unwinding searches (.eh_frame_hdr; Linux
 * Standard Base, "Exception Frames"). It stays when symbols and section headers are gone. */
#include "check/array.h"
#include "check/load.h"

#include <stdlib.h>
#include <string.h>

/* A file may be made of nothing but symbols; each costs 24 bytes there. */
static void add_function(struct load *l, const Elf64_Sym *symbol, const char *name)
{
	struct image *image = l->image;
	uint64_t start = symbol->st_value, size = symbol->st_size;

	if (l->image->is_object) {
		if (symbol->st_shndx >= l->section_count || !l->addresses[symbol->st_shndx])
			return;
		start += l->addresses[symbol->st_shndx];
	}
	if (size && size <= UINT64_MAX - start && image_is_code(image, start))
		APPEND(image->functions, image->function_count,
		       (struct function){start, start + size, name});
}

static void read_table(struct load *l, const Elf64_Shdr *table, const uint8_t *bytes)
{
	for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
		Elf64_Sym symbol;

		memcpy(&symbol, bytes + at, sizeof(symbol));
		if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF)
			add_function(l, &symbol, load_string(l, table->sh_link, symbol.st_name));
	}
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

static void add_frame(struct image *image, uint64_t start, uint64_t entry)
{
	uint64_t length = length_at(image, entry);

	if (length && image_is_code(image, start) && image_is_code(image, start + length - 1))
		APPEND(image->functions, image->function_count,
		       (struct function){start, start + length, NULL});
}

static void load_frames(struct load *l)
{
	GElf_Phdr p = {0};
	struct header h;
	int32_t pair[2];
	uint64_t at;

	if (!load_header(l, PT_GNU_EH_FRAME, &p) ||
	    !image_read(l->image, p.p_vaddr, &h, sizeof(h)) || h.version != 1 ||
	    h.count != COUNT_4 || h.table != PAIRS_4)
		return;
	at = p.p_vaddr + sizeof(h);
	for (uint64_t i = 0; i < h.pairs && i < l->size / sizeof(pair); i++, at += sizeof(pair)) {
		if (!image_read(l->image, at, pair, sizeof(pair)))
			return;
		add_frame(l->image, p.p_vaddr + (uint64_t)(int64_t)pair[0],
			  p.p_vaddr + (uint64_t)(int64_t)pair[1]);
	}
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

void load_symbols(struct load *l)
{
	const uint8_t *bytes;
	const Elf64_Shdr *table = load_section(l, SHT_SYMTAB, &bytes);

	if (!table) {
		load_frames(l);
		table = load_section(l, SHT_DYNSYM, &bytes);
	}
	if (table)
		read_table(l, table, bytes);
	if (l->image->function_count)
		qsort(l->image->functions, l->image->function_count, sizeof(struct function),
		      by_start);
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

void load_listed(struct load *l)
{
	struct image *image = l->image;

	for (size_t i = 1; i < l->section_count; i++) {
		const Elf64_Shdr *s = &l->sections[i];
		const char *name = load_string(l, l->names, s->sh_name);
		int kind = listed_kind(name ? name : "", s);
		uint64_t start = l->addresses[i];

		if (kind != LISTED_KINDS && s->sh_type == SHT_PROGBITS && s->sh_size &&
		    s->sh_size <= UINT64_MAX - start)
			APPEND(image->listed[kind], image->listed_count[kind],
			       (struct range){start, start + s->sh_size});
	}
}
