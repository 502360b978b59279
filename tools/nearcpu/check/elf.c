/* SPDX-License-Identifier: MIT */
/* One ELF file from beginning to end; and what an archive is made of. */
#include "check/check.h"

#include <ar.h>
#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *cpu_name(enum cpu cpu)
{
	static const char *const names[] = {
		[CPU_X86_64] = "x86_64", [CPU_AARCH64] = "aarch64", [CPU_RISCV64] = "riscv64"};

	return names[cpu];
}

static void count(struct check_counts *counts, const struct sequence *s)
{
	counts->sequences++;
	for (size_t i = 0; i < s->problem_count; i++)
		counts->problems[rule_texts[s->problems[i].rule].severity]++;
}

static int gave_up(char *why)
{
	snprintf(why, CHECK_WHY, "gave up: more code to look at than any program has (damaged?)");
	return -E2BIG;
}

static int check_sequences(struct checker *c, check_reader *read_one, void *context,
			   struct check_counts *counts, char *why)
{
	for (size_t i = 0; i < c->descriptor_count; i++) {
		struct sequence s;
		int err = sequence_check(c, &c->descriptors[i], &s);

		if (!err && decoder_is_spent(c->decoder))
			err = gave_up(why);
		if (!err) {
			count(counts, &s);
			read_one(context, &s);
		}
		sequence_close(&s);
		if (err)
			return err;
	}
	return 0;
}

static int check_image(struct image *image, check_reader *read_one, void *context,
		       struct check_counts *counts, char *why)
{
	struct checker c = {.image = image};
	int err = -ENOMEM;

	c.flow = calloc(1, sizeof(*c.flow));
	c.decoder = decoder_open(image);
	if (!c.decoder && !errno) {
		snprintf(why, CHECK_WHY, "the disassembler (capstone) does not know %s",
			 cpu_name(image->cpu));
		err = -ENOTSUP;
	} else if (c.decoder && c.flow) {
		c.flow->decoder = c.decoder;
		c.flow->image = image;
		err = find_descriptors(&c);
		if (err == -E2BIG)
			gave_up(why);
		if (!err)
			err = find_branches_in(&c);
		if (!err)
			err = check_sequences(&c, read_one, context, counts, why);
	}
	free(c.flow);
	decoder_close(c.decoder);
	free(c.descriptors);
	free(c.ranges);
	free(c.branches_in);
	return err;
}

int check_elf(const uint8_t *file, size_t size, check_reader *read_one, void *context,
	      struct check_counts *counts, char why[CHECK_WHY])
{
	struct image image;
	int err = image_load(&image, file, size, why);

	if (err)
		return err;
	err = check_image(&image, read_one, context, counts, why);
	if (err == -ENOMEM)
		snprintf(why, CHECK_WHY, "not enough memory");
	image_free(&image);
	return err;
}

#define THIN "!<thin>\n"

static uint64_t member_size(const struct ar_hdr *header)
{
	char digits[sizeof(header->ar_size) + 1] = "";

	memcpy(digits, header->ar_size, sizeof(header->ar_size));
	return strtoull(digits, NULL, 10);
}

/* Whether the members fill the file: at one that does not fit, libelf ends without a word. */
static bool is_whole(const uint8_t *file, size_t size)
{
	size_t at = SARMAG;

	while (at < size) {
		struct ar_hdr header;
		uint64_t length;

		if (size - at < sizeof(header))
			return false;
		memcpy(&header, file + at, sizeof(header));
		at += sizeof(header);
		length = member_size(&header);
		if (memcmp(header.ar_fmag, ARFMAG, sizeof(header.ar_fmag)) != 0 ||
		    length > size - at)
			return false;
		at += length;
		at += at & 1; /* padding */
	}
	return true;
}

static void split_archive(Elf *archive, const uint8_t *file, size_t size, check_each *each,
			  void *context)
{
	Elf_Cmd command = ELF_C_READ_MMAP; /* as libelf counts what is in memory */
	Elf *member;
	bool go_on = true;

	while (go_on && (member = elf_begin(-1, command, archive))) {
		const Elf_Arhdr *header = elf_getarhdr(member);
		int64_t offset = elf_getbase(member);

		/* Members that are not ELF files (the index, notes) are nobody's business. */
		if (header && offset >= 0 && (uint64_t)offset <= size &&
		    header->ar_size >= SELFMAG &&
		    (uint64_t)header->ar_size <= size - (uint64_t)offset &&
		    memcmp(file + offset, ELFMAG, SELFMAG) == 0)
			go_on = each(context, header->ar_name ? header->ar_name : "?",
				     file + offset, (size_t)header->ar_size);
		command = elf_next(member);
		elf_end(member);
	}
}

int check_split(const uint8_t *file, size_t size, check_each *each, void *context,
		char why[CHECK_WHY])
{
	Elf *archive;
	int err = 0;

	if (size >= SARMAG && memcmp(file, THIN, SARMAG) == 0) {
		snprintf(why, CHECK_WHY, "not supported: a thin archive; check its members");
		return -ENOTSUP;
	}
	if (size < SARMAG || memcmp(file, ARMAG, SARMAG) != 0) {
		each(context, NULL, file, size);
		return 0;
	}
	elf_version(EV_CURRENT);
	archive = elf_memory((char *)(uintptr_t)file, size);
	if (!archive || elf_kind(archive) != ELF_K_AR) {
		snprintf(why, CHECK_WHY, "damaged: not an archive after all");
		err = -EBADMSG;
	} else {
		split_archive(archive, file, size, each, context);
	}
	if (!err && !is_whole(file, size)) {
		snprintf(why, CHECK_WHY, "damaged: the archive ends within a member");
		err = -EBADMSG;
	}
	elf_end(archive);
	return err;
}
