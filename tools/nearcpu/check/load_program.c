/* SPDX-License-Identifier: MIT */
/* Programs and shared objects: the segments as the kernel maps them, and the relocations that the
 * loader applies before anything runs. They are found by the dynamic section, which stays when
 * section headers are stripped.
 *
 * RELR needs no work: the words that it lists hold their addends, and the image is at its link
 * address. */
#include "check/array.h"
#include "check/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dynamic {
	uint64_t rela, rela_size, symbols;
};

static int map_segments(struct load *l)
{
	for (size_t i = 0; i < l->segment_count; i++) {
		struct segment s;
		GElf_Phdr p;
		int err;

		if (!gelf_getphdr(l->elf, (int)i, &p) || p.p_type != PT_LOAD || !p.p_memsz)
			continue;
		s = (struct segment){.address = p.p_vaddr,
				     .size = p.p_memsz,
				     .filled = p.p_filesz,
				     .executable = p.p_flags & PF_X,
				     .writable = p.p_flags & PF_W};
		err = load_segment(l, &s, p.p_offset);
		if (err)
			return err;
	}
	if (l->image->segment_count)
		return load_sort_segments(l);
	snprintf(l->why, WHY_SIZE, "damaged: no segment to load");
	return -EBADMSG;
}

static void read_dynamic(struct load *l, struct dynamic *d)
{
	GElf_Phdr p = {0};
	Elf64_Dyn entry;

	if (!load_header(l, PT_DYNAMIC, &p))
		return;
	for (uint64_t at = 0; at < p.p_memsz; at += sizeof(entry)) {
		if (!image_read(l->image, p.p_vaddr + at, &entry, sizeof(entry)) ||
		    entry.d_tag == DT_NULL)
			return;
		if (entry.d_tag == DT_RELA)
			d->rela = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_RELASZ)
			d->rela_size = entry.d_un.d_val;
		else if (entry.d_tag == DT_SYMTAB)
			d->symbols = entry.d_un.d_ptr;
	}
}

/* The value of a symbol of this file; 0 for one of another. */
static uint64_t symbol_value(const struct load *l, const struct dynamic *d, uint32_t index)
{
	Elf64_Sym symbol;

	if (!index || !d->symbols ||
	    !image_read(l->image, d->symbols + index * sizeof(symbol), &symbol, sizeof(symbol)))
		return 0;
	return symbol.st_value;
}

static void add_tls_word(struct load *l, const struct dynamic *d, const Elf64_Rela *r)
{
	struct image *image = l->image;
	uint32_t index = ELF64_R_SYM(r->r_info);
	uint64_t value = symbol_value(l, d, index);

	/* A symbol of this file is known by its place, one of another by its number. */
	APPEND(image->tls_words, image->tls_word_count,
	       (struct tls_word){r->r_offset, (int64_t)(value + (uint64_t)r->r_addend + TLS_BIAS),
				 value || !index ? 0 : index});
}

static void apply(struct load *l, const struct dynamic *d, const Elf64_Rela *r)
{
	/* RELATIVE, 64 bits absolute, GLOB_DAT, and the offset from the thread pointer. */
	static const struct {
		uint32_t relative, absolute, global, tls;
	} types[] = {
		[CPU_X86_64] = {R_X86_64_RELATIVE, R_X86_64_64, R_X86_64_GLOB_DAT,
				R_X86_64_TPOFF64},
		[CPU_AARCH64] = {R_AARCH64_RELATIVE, R_AARCH64_ABS64, R_AARCH64_GLOB_DAT,
				 R_AARCH64_TLS_TPREL},
		[CPU_RISCV64] = {R_RISCV_RELATIVE, R_RISCV_64, R_RISCV_64, R_RISCV_TLS_TPREL64},
	};
	uint32_t type = ELF64_R_TYPE(r->r_info);
	uint64_t value = (uint64_t)r->r_addend;

	if (type == types[l->image->cpu].tls)
		add_tls_word(l, d, r);
	if (type == types[l->image->cpu].absolute || type == types[l->image->cpu].global)
		value += symbol_value(l, d, ELF64_R_SYM(r->r_info));
	else if (type != types[l->image->cpu].relative)
		return;
	image_write(l->image, r->r_offset, &value, sizeof(value));
}

static void apply_rela(struct load *l, const struct dynamic *d)
{
	Elf64_Rela r;

	for (uint64_t at = 0; d->rela && at < d->rela_size && at < l->size; at += sizeof(r)) {
		if (!image_read(l->image, d->rela + at, &r, sizeof(r)))
			return; /* damaged; the entries before it are valid */
		apply(l, d, &r);
	}
}

/* The start-up code of a riscv64 program sets gp by these two instructions, once and for all. The
 * linker then makes addresses from it. */
static void find_global_pointer(struct image *image, const struct segment *s)
{
	uint32_t two[2];

	for (uint64_t i = 0; i + sizeof(two) <= s->filled && !image->global_pointer; i += 2) {
		memcpy(two, s->data + i, sizeof(two));
		/* auipc gp, high; addi gp, gp, low */
		if ((two[0] & 0xfff) == 0x197 && (two[1] & 0xfffff) == 0x18193)
			image->global_pointer = s->address + i +
						(uint64_t)(int32_t)(two[0] & 0xfffff000) +
						(uint64_t)(int64_t)((int32_t)two[1] >> 20);
	}
}

int load_program(struct load *l)
{
	struct dynamic d = {0};
	int err = map_segments(l);

	if (err)
		return err;
	read_dynamic(l, &d);
	apply_rela(l, &d);
	for (size_t i = 0; i < l->image->segment_count; i++)
		if (l->image->cpu == CPU_RISCV64 && l->image->segments[i].executable)
			find_global_pointer(l->image, &l->image->segments[i]);
	array_sort(l->image->tls_words, l->image->tls_word_count, sizeof(struct tls_word));
	return 0;
}
