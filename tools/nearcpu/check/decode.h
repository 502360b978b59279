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

/* Copies the text of an instruction that capstone knows. */
void disassembled(struct insn *insn, const cs_insn *from);

bool insn_x86_64(struct decoder *d, struct insn *insn, const uint8_t *code, size_t left,
		 bool with_text);

#endif
