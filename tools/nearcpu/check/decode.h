/* SPDX-License-Identifier: MIT */
/* decode: between the decoders and the disassembler library. */
#ifndef NEARCPU_CHECK_DECODE_H
#define NEARCPU_CHECK_DECODE_H

#include "check/insn.h"

#include <capstone/capstone.h>

struct decoder {
	const struct image *image;
	uint64_t budget;
	csh capstone;
	cs_insn *room;
};

/* Copies the text of an instruction that capstone knows. */
void disassembled(struct insn *insn, const cs_insn *from);

/* Of each CPU, with a cleared insn that has its address, and the word or words of code. */
void insn_aarch64(struct insn *insn, uint32_t word);
bool insn_riscv64(struct insn *insn, uint32_t word, bool with_text);
bool insn_x86_64(struct decoder *d, struct insn *insn, const uint8_t *code, size_t left,
		 bool with_text);

#endif
