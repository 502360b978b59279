/* SPDX-License-Identifier: MIT */
/* Loading an ELF file: its headers, then what depends on its type. Bytes and section names of the
 * file, and the segments that are made of it. */
#include "check/array.h"
#include "check/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More sections or segments than any linker makes. */
#define MOST_SECTIONS 1000000
#define MOST_SEGMENTS 65535

const void *load_bytes(const struct load *l, uint64_t offset, uint64_t size)
{
	if (offset > l->size || size > l->size - offset)
		return NULL;
	return l->file + offset;
}

const Elf64_Shdr *load_section(const struct load *l, uint32_t type, const uint8_t **bytes)
{
	for (const Elf64_Shdr *s = l->sections; s < l->sections + l->section_count; s++) {
		*bytes = load_bytes(l, s->sh_offset, s->sh_size);
		if (s->sh_type == type && *bytes)
			return s;
	}
	return NULL;
}

const char *load_string(const struct load *l, size_t table, uint64_t offset)
{
	const Elf64_Shdr *strings = table < l->section_count ? &l->sections[table] : NULL;
	const char *bytes = strings ? load_bytes(l, strings->sh_offset, strings->sh_size) : NULL;

	if (!bytes || offset >= strings->sh_size || bytes[strings->sh_size - 1])
		return NULL;
	return bytes + offset;
}

int load_segment(struct load *l, const struct segment *like, uint64_t offset)
{
	const void *bytes = load_bytes(l, offset, like->filled);
	struct image *image = l->image;
	struct segment s = *like;

	if (!bytes || like->filled > like->size || like->size > UINT64_MAX - like->address ||
	    like->filled > l->budget) {
		snprintf(l->why, WHY_SIZE, "damaged: a segment does not lie in the file");
		return -EBADMSG;
	}
	l->budget -= like->filled;
	s.offset = offset;
	s.data = malloc(like->filled ? like->filled : 1);
	if (!s.data)
		return -ENOMEM;
	memcpy(s.data, bytes, like->filled);
	APPEND(image->segments, image->segment_count, s);
	return 0;
}

bool load_header(const struct load *l, uint32_t type, GElf_Phdr *header)
{
	for (size_t i = 0; i < l->segment_count; i++)
		if (gelf_getphdr(l->elf, (int)i, header) && header->p_type == type)
			return true;
	return false;
}

int load_sort_segments(struct load *l)
{
	struct image *image = l->image;

	array_sort(image->segments, image->segment_count, sizeof(*image->segments));
	for (size_t i = 1; i < image->segment_count; i++) {
		const struct segment *before = &image->segments[i - 1];

		if (image->segments[i].address - before->address < before->size) {
			snprintf(l->why, WHY_SIZE, "damaged: two segments overlap");
			return -EBADMSG;
		}
	}
	return 0;
}

static int read_header(struct load *l)
{
	struct image *image = l->image;

	if (l->file[EI_CLASS] != ELFCLASS64 || l->file[EI_DATA] != ELFDATA2LSB) {
		snprintf(l->why, WHY_SIZE, "not supported: %s",
			 l->file[EI_CLASS] == ELFCLASS32   ? "an ELF file of 32 bits"
			 : l->file[EI_DATA] == ELFDATA2MSB ? "a big-endian ELF file"
							   : "an ELF file of unknown class");
		return -ENOTSUP;
	}
	if (!gelf_getehdr(l->elf, &l->header)) {
		snprintf(l->why, WHY_SIZE, "damaged: no ELF header");
		return -EBADMSG;
	}
	while (image->cpu < CPUS && cpu_facts[image->cpu].machine != l->header.e_machine)
		image->cpu++;
	if (image->cpu == CPUS) {
		snprintf(l->why, WHY_SIZE, "not supported: a file for machine number %u",
			 l->header.e_machine);
		return -ENOTSUP;
	}
	image->facts = &cpu_facts[image->cpu];
	return 0;
}

/* Sections that a hostile header claims and the file does not hold are not read at all: then the
 * file counts as stripped. */
static void read_sections(struct load *l)
{
	size_t count = 0;

	if (elf_getshdrnum(l->elf, &count) || elf_getshdrstrndx(l->elf, &l->names))
		count = 0;
	if (count > MOST_SECTIONS || !load_bytes(l, l->header.e_shoff, count * sizeof(Elf64_Shdr)))
		count = 0;
	l->sections = allocate_zeros(count, sizeof(*l->sections));
	l->addresses = allocate_zeros(count, sizeof(*l->addresses));
	for (size_t i = 0; i < count; i++) {
		GElf_Shdr section;
		Elf_Scn *scn = elf_getscn(l->elf, i);

		if (scn && gelf_getshdr(scn, &section))
			l->sections[i] = section;
		l->addresses[i] = l->sections[i].sh_addr;
	}
	l->section_count = count;
}

static int load_all(struct load *l)
{
	int err = read_header(l);

	if (err)
		return err;
	if (elf_getphdrnum(l->elf, &l->segment_count) || l->segment_count > MOST_SEGMENTS)
		l->segment_count = 0;
	read_sections(l);
	switch (l->header.e_type) {
	case ET_EXEC:
	case ET_DYN:
		err = load_program(l);
		break;
	case ET_REL:
		l->image->is_object = true;
		err = load_object(l);
		break;
	default:
		snprintf(l->why, WHY_SIZE,
			 "not supported: neither a program nor a shared or relocatable object");
		err = -ENOTSUP;
	}
	if (!err) {
		load_symbols(l);
		load_listed(l);
	}
	return err;
}

int image_load(struct image *image, const uint8_t *file, size_t size, char why[WHY_SIZE])
{
	struct load l = {.image = image, .file = file, .size = size, .why = why};
	int err;

	memset(image, 0, sizeof(*image));
	why[0] = '\0';
	if (size < EI_NIDENT || memcmp(file, ELFMAG, SELFMAG) != 0) {
		snprintf(why, WHY_SIZE, "not an ELF file");
		return -ENOEXEC;
	}
	/* Segments may share pages of the file, but not many. */
	l.budget = size < SIZE_MAX / 4 ? 4 * size : size;
	elf_version(EV_CURRENT);
	l.elf = elf_memory((char *)(uintptr_t)file, size);
	if (!l.elf || elf_kind(l.elf) != ELF_K_ELF) {
		snprintf(why, WHY_SIZE, "damaged: no ELF header");
		err = -EBADMSG;
	} else {
		err = load_all(&l);
	}
	elf_end(l.elf);
	free(l.sections);
	free(l.addresses);
	if (err == -ENOMEM)
		snprintf(why, WHY_SIZE, "not enough memory");
	if (err)
		image_free(image);
	return err;
}
