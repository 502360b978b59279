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
	bool is_open;
};

bool disassembler_open(struct decoder *d);
void disassembler_close(struct decoder *d);

/* Writes the text of an instruction that was decoded. */
void disassemble(struct decoder *d, struct insn *insn, const uint8_t *code);

bool insn_x86_64(struct decoder *d, struct insn *insn, const uint8_t *code, size_t left,
		 bool with_text);

/* What the disassembler library does not know. False if it is not one of these. */
bool insn_x86_64_by_hand(struct insn *insn, const uint8_t *code, size_t left);

#endif
