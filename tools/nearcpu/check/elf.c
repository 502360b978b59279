/* SPDX-License-Identifier: MIT */
/* One ELF file from beginning to end; and what an archive is made of. */
#include "check/array.h"
#include "check/check.h"

#include <ar.h>
#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void sequence_count(struct check_counts *counts, const struct sequence *s)
{
	counts->sequences++;
	for (size_t i = 0; i < s->problem_count; i++)
		counts->problems[rule_texts[s->problems[i].rule].severity]++;
}

static int check_sequences(struct checker *c, check_reader *read_one, void *context,
			   struct check_counts *counts)
{
	for (size_t i = 0; i < c->descriptor_count; i++) {
		struct sequence s;

		sequence_check(c, &c->descriptors[i], &s);
		if (!decoder_is_spent(c->decoder)) {
			sequence_count(counts, &s);
			read_one(context, &s);
		}
		sequence_close(&s);
		if (decoder_is_spent(c->decoder))
			return -E2BIG;
	}
	return 0;
}

static int check_image(struct image *image, check_reader *read_one, void *context,
		       struct check_counts *counts, char *why)
{
	struct checker c = {.image = image, .decoder = decoder_open(image)};
	int err;

	if (!c.decoder) {
		snprintf(why, CHECK_WHY, "the disassembler (capstone) does not know %s",
			 image->facts->name);
		return -ENOTSUP;
	}
	c.flow = allocate_zeros(1, sizeof(*c.flow));
	c.flow->decoder = c.decoder;
	c.flow->image = image;
	err = find_descriptors(&c);
	if (!err) {
		find_branches_in(&c);
		err = check_sequences(&c, read_one, context, counts);
	}
	if (err)
		snprintf(why, CHECK_WHY,
			 "gave up: more code to look at than any program has (damaged?)");
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
	image_free(&image);
	return err;
}

#define THIN "!<thin>\n"

/* The size in the header before a member's content; libelf reports at most what is left of the
 * file. The field has digits and blanks, and ar_fmag after it ends the number. */
static uint64_t member_size(const uint8_t *content)
{
	return strtoull(((const struct ar_hdr *)content)[-1].ar_size, NULL, 10);
}

/* False if the file does not end where its last member does: at a member that does not fit or has a
 * bad header, libelf ends as if there were no more. */
static bool split_archive(Elf *archive, const uint8_t *file, size_t size, check_each *each,
			  void *context)
{
	Elf_Cmd command = ELF_C_READ_MMAP; /* as libelf counts what is in memory */
	bool go_on = true;
	uint64_t end = SARMAG;
	Elf *member;

	while (go_on && end <= size && (member = elf_begin(-1, command, archive))) {
		const Elf_Arhdr *header = elf_getarhdr(member);
		uint64_t from = (uint64_t)elf_getbase(member);
		bool is_there = header && from <= size && (uint64_t)header->ar_size <= size - from;

		end = is_there ? from + member_size(file + from) : UINT64_MAX;
		/* Members that are not ELF files (the index, notes) are skipped. */
		if (is_there && header->ar_size >= SELFMAG &&
		    memcmp(file + from, ELFMAG, SELFMAG) == 0)
			go_on = each(context, header->ar_name ? header->ar_name : "?", file + from,
				     (size_t)header->ar_size);
		command = elf_next(member);
		elf_end(member);
	}
	return !go_on || end == size || end + (end & 1) == size;
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
	} else if (!split_archive(archive, file, size, each, context)) {
		snprintf(why, CHECK_WHY,
			 "damaged: the archive ends within a member, or has one with a bad header");
		err = -EBADMSG;
	}
	elf_end(archive);
	return err;
}
