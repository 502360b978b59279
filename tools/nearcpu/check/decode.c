/* SPDX-License-Identifier: MIT */
/* Decodes an instruction of any CPU, within a budget. */
#include "check/decode.h"
#include "common/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Some seconds of work; Envoy, with 97 sequences in 100 MB, needs less than a hundredth. */
#define DECODE_MOST 8000000

static bool disassembler_open(struct decoder *d)
{
	bool is_arm = d->image->cpu == CPU_AARCH64;

	if (d->image->cpu == CPU_RISCV64)
		return true;
	if (cs_open(is_arm ? CS_ARCH_ARM64 : CS_ARCH_X86, is_arm ? CS_MODE_ARM : CS_MODE_64,
		    &d->capstone) != CS_ERR_OK)
		return false;
	if (!is_arm) {
		cs_option(d->capstone, CS_OPT_DETAIL, CS_OPT_ON);
		cs_option(d->capstone, CS_OPT_SYNTAX, CS_OPT_SYNTAX_INTEL);
	}
	d->room = cs_malloc(d->capstone);
	if (!d->room)
		out_of_memory();
	return true;
}

struct decoder *decoder_open(const struct image *image)
{
	struct decoder *d = allocate_zeros(1, sizeof(*d));

	d->image = image;
	d->budget = DECODE_MOST;
	if (disassembler_open(d))
		return d;
	decoder_close(d);
	return NULL;
}

void decoder_close(struct decoder *d)
{
	if (d && d->room) {
		cs_free(d->room, 1);
		cs_close(&d->capstone);
	}
	free(d);
}

bool decoder_spend(struct decoder *d)
{
	if (d->budget)
		d->budget--;
	return d->budget > 0;
}

bool decoder_is_spent(const struct decoder *d)
{
	return !d->budget;
}

void disassembled(struct insn *insn, const cs_insn *from)
{
	snprintf(insn->text, sizeof(insn->text), "%s%s%s", from->mnemonic,
		 from->op_str[0] ? " " : "", from->op_str);
}

/* The text of an instruction that another decoder has decoded. */
static void disassemble(struct decoder *d, struct insn *insn, const uint8_t *code)
{
	uint64_t address = insn->address;
	size_t size = insn->size;

	if (cs_disasm_iter(d->capstone, &code, &size, &address, d->room))
		disassembled(insn, d->room);
	else
		snprintf(insn->text, sizeof(insn->text), ".inst 0x%02x%02x%02x%02x", code[3],
			 code[2], code[1], code[0]);
}

bool decode_bytes(struct decoder *d, uint64_t address, const uint8_t *code, size_t left,
		  struct insn *insn, bool with_text)
{
	uint32_t word = 0;

	memset(insn, 0, sizeof(*insn));
	insn->address = address;
	insn->dst = insn->src = insn->src2 = insn->stored = NO_REGISTER;
	memcpy(&word, code, left < 4 ? left : 4);
	if (address % d->image->facts->step)
		return false;
	switch (d->image->cpu) {
	case CPU_X86_64:
		return insn_x86_64(d, insn, code, left, with_text);
	case CPU_AARCH64:
		if (left < 4)
			return false;
		insn_aarch64(insn, word);
		if (with_text)
			disassemble(d, insn, code);
		return true;
	case CPU_RISCV64:
		return left >= ((word & 3) == 3 ? 4 : 2) && insn_riscv64(insn, word, with_text);
	default:
		return false;
	}
}

bool decode(struct decoder *d, uint64_t address, struct insn *insn, bool with_text)
{
	size_t left = 0;
	const uint8_t *code = NULL;

	if (decoder_spend(d) && image_is_code(d->image, address))
		code = image_bytes(d->image, address, &left);
	return code && decode_bytes(d, address, code, left, insn, with_text);
}
