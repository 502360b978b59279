/* SPDX-License-Identifier: MIT */
/* load: what the files that make an image share. */
#ifndef NEARCPU_CHECK_LOAD_H
#define NEARCPU_CHECK_LOAD_H

#include "check/image.h"

#include <elf.h>
#include <gelf.h>

/* A file while it is loaded. */
struct load {
	struct image *image;
	Elf *elf;
	const uint8_t *file;
	size_t size;
	GElf_Ehdr header;
	size_t section_count, segment_count;
	Elf64_Shdr *sections;
	uint64_t *addresses; /* of the sections: as they say, or as an object is laid out */
	size_t names;        /* index of the section of section names */
	uint64_t end;        /* behind the last section that was laid out */
	size_t budget;       /* bytes that may still be copied */
	char *why;
};

#define WHY_SIZE 200

/* Where the thread-local storage of a module is taken to begin, from the thread pointer: it differs
 * from process to process, and is not at 0, where x86_64 has the address of the thread itself. */
#define TLS_BIAS 0x100000

/* The bytes [offset, offset + size) of the file, or NULL if they are not all there. */
const void *load_bytes(const struct load *l, uint64_t offset, uint64_t size);

/* The first section of that type which is all there, with its content; or NULL. */
const Elf64_Shdr *load_section(const struct load *l, uint32_t type, const uint8_t **bytes);

/* A string of a section of strings, or NULL. It stays as long as the file. */
const char *load_string(const struct load *l, size_t table, uint64_t offset);

/* Adds a segment with a copy of `filled` bytes at `offset` of the file. */
int load_segment(struct load *l, const struct segment *like, uint64_t offset);

/* The first program header of that type. */
bool load_header(const struct load *l, uint32_t type, GElf_Phdr *header);

/* Sorts the segments; -EBADMSG if two overlap. */
int load_sort_segments(struct load *l);

/* Segments and relocations of a program or shared object, and of a relocatable object. */
int load_program(struct load *l);
int load_object(struct load *l);

/* Functions and the sections that list sequences. */
void load_symbols(struct load *l);
void load_listed(struct load *l);

/* ---- relocate.c ---- */

/* A relocation of an object. Those matter that make addresses and branches, and by which code
 * reaches descriptors and the thread's storage. */
struct relocation {
	uint32_t type, symbol;
	uint64_t place;
	uint64_t value; /* symbol + addend */
	uint64_t slot;  /* of the symbol in a GOT */
	/* riscv64: what the high part at `value` was made of, for the low part. */
	uint64_t high_value, high_place;
};

/* Fills the place, if the relocation is one that matters. */
void relocate(struct image *image, const struct relocation *r);

/* riscv64: a high part, whose target is the symbol or, if *by_slot, its slot in the GOT. */
bool relocate_is_high(uint32_t type, bool *by_slot);

#endif
