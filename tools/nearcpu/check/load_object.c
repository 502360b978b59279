/* SPDX-License-Identifier: MIT */
/* Relocatable objects: the sections one after the other, as if linked alone. What the object does
 * not define gets an address of its own behind all sections, where nothing is, so that no branch to
 * it seems to go elsewhere. */
#include "check/array.h"
#include "check/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ADDRESS 0x10000

/* Room for an undefined symbol, and behind all of them for an entry of a GOT. */
#define SYMBOL_ROOM 16
#define SLOT_ROOM 8

struct symbols {
	const uint8_t *bytes;
	size_t count;
};

/* High parts by place, for the low parts that name them. */
struct high {
	uint64_t place, value;
};

struct object {
	struct load *l;
	struct symbols symbols;
	struct high *high;
	size_t high_count;
};

static int lay_out(struct load *l)
{
	uint64_t at = FIRST_ADDRESS;

	for (size_t i = 0; i < l->section_count; i++) {
		const Elf64_Shdr *s = &l->sections[i];
		uint64_t align = s->sh_addralign;
		struct segment segment = {
			.size = s->sh_size,
			.filled = s->sh_type == SHT_NOBITS ? 0 : s->sh_size,
			.executable = s->sh_flags & SHF_EXECINSTR,
			.writable = s->sh_flags & SHF_WRITE,
		};
		int err;

		l->addresses[i] = 0;
		if (!(s->sh_flags & SHF_ALLOC) || !s->sh_size)
			continue;
		if (!align || align > 1 << 20 || align & (align - 1))
			align = 1;
		if (s->sh_size > (uint64_t)1 << 40) {
			snprintf(l->why, WHY_SIZE, "damaged: a section of more than 1 TiB");
			return -EBADMSG;
		}
		at = (at + align - 1) & ~(align - 1);
		segment.address = at;
		err = load_segment(l, &segment, s->sh_offset);
		if (err)
			return err;
		l->addresses[i] = at;
		at += s->sh_size;
	}
	l->end = (at + 0xffff) & ~(uint64_t)0xffff;
	return 0;
}

static bool read_symbol(const struct object *o, uint32_t index, Elf64_Sym *symbol)
{
	if (index >= o->symbols.count)
		return false;
	memcpy(symbol, o->symbols.bytes + index * sizeof(*symbol), sizeof(*symbol));
	return true;
}

static uint64_t symbol_address(const struct object *o, uint32_t index)
{
	const struct load *l = o->l;
	Elf64_Sym symbol;

	if (!index || !read_symbol(o, index, &symbol))
		return 0;
	if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_COMMON)
		return l->end + (uint64_t)index * SYMBOL_ROOM;
	if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS)
		return symbol.st_value + TLS_BIAS;
	if (symbol.st_shndx < l->section_count)
		return l->addresses[symbol.st_shndx] + symbol.st_value;
	return symbol.st_value;
}

static uint64_t slot_address(const struct object *o, uint32_t index)
{
	return o->l->end + o->symbols.count * SYMBOL_ROOM + (uint64_t)index * SLOT_ROOM;
}

static struct relocation relocation(const struct object *o, const Elf64_Rela *r, uint64_t base)
{
	struct relocation out = {.type = ELF64_R_TYPE(r->r_info),
				 .symbol = (uint32_t)ELF64_R_SYM(r->r_info),
				 .place = base + r->r_offset};

	out.value = symbol_address(o, out.symbol) + (uint64_t)r->r_addend;
	out.slot = slot_address(o, out.symbol);
	return out;
}

typedef void visitor(struct object *o, struct relocation *r);

static void collect_high(struct object *o, struct relocation *r)
{
	bool by_slot;

	if (relocate_is_high(r->type, &by_slot))
		APPEND(o->high, o->high_count,
		       (struct high){r->place, by_slot ? r->slot : r->value});
}

static void apply(struct object *o, struct relocation *r)
{
	size_t n = array_find(o->high, o->high_count, sizeof(*o->high), r->value);

	if (n && o->high[n - 1].place == r->value) { /* NOLINT: n is 0 without an array */
		r->high_place = o->high[n - 1].place;
		r->high_value = o->high[n - 1].value;
	}
	relocate(o->l->image, r);
}

/* Relocations of sections that are laid out. */
static void for_each(struct object *o, visitor *visit)
{
	struct load *l = o->l;
	size_t most = l->size; /* a file cannot hold more, unless its sections overlap */

	for (size_t i = 0; i < l->section_count; i++) {
		const Elf64_Shdr *s = &l->sections[i];
		const uint8_t *bytes = load_bytes(l, s->sh_offset, s->sh_size);

		if (s->sh_type != SHT_RELA || !bytes || s->sh_info >= l->section_count ||
		    !l->addresses[s->sh_info])
			continue;
		for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= s->sh_size && most;
		     at += sizeof(Elf64_Rela), most--) {
			struct relocation r;
			Elf64_Rela rela;

			memcpy(&rela, bytes + at, sizeof(rela));
			if (rela.r_offset >= l->sections[s->sh_info].sh_size)
				continue;
			r = relocation(o, &rela, l->addresses[s->sh_info]);
			visit(o, &r);
		}
	}
}

static void add_tls_slot(struct object *o, uint32_t index, const Elf64_Sym *symbol)
{
	struct image *image = o->l->image;
	bool is_here = symbol->st_shndx != SHN_UNDEF;

	APPEND(image->tls_words, image->tls_word_count,
	       (struct tls_word){slot_address(o, index), (int64_t)(symbol->st_value + TLS_BIAS),
				 is_here ? 0 : index});
}

/* The table of addresses that a linker would make, with an entry for each symbol. */
static int make_table(struct object *o)
{
	struct load *l = o->l;
	struct segment table = {.address = slot_address(o, 0),
				.size = o->symbols.count * SLOT_ROOM,
				.filled = o->symbols.count * SLOT_ROOM};
	int err;

	if (!o->symbols.count)
		return 0;
	/* The content is written below; the symbols are larger, so that there are enough bytes. */
	err = load_segment(l, &table, (uint64_t)(o->symbols.bytes - l->file));
	for (uint32_t i = 0; i < o->symbols.count && !err; i++) {
		uint64_t address = symbol_address(o, i);
		Elf64_Sym symbol;

		image_write(l->image, slot_address(o, i), &address, sizeof(address));
		if (read_symbol(o, i, &symbol) && ELF64_ST_TYPE(symbol.st_info) == STT_TLS)
			add_tls_slot(o, i, &symbol);
	}
	return err;
}

int load_object(struct load *l)
{
	struct object o = {.l = l};
	const Elf64_Shdr *symbols;
	const uint8_t *bytes;
	int err = lay_out(l);

	if (!err)
		err = load_sort_segments(l);
	if (err)
		return err;
	symbols = load_section(l, SHT_SYMTAB, &bytes);
	if (symbols)
		o.symbols = (struct symbols){bytes, symbols->sh_size / sizeof(Elf64_Sym)};
	err = make_table(&o);
	if (err)
		return err;
	if (l->image->cpu == CPU_RISCV64)
		for_each(&o, collect_high);
	array_sort(o.high, o.high_count, sizeof(*o.high));
	for_each(&o, apply);
	free(o.high);
	return 0;
}
