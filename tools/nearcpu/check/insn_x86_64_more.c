/* SPDX-License-Identifier: MIT */
/* Two instructions of x86_64 that capstone 4 does not know: ud1 and rdpid. */
#include "check/decode.h"

#include <stdio.h>

/* The length of a ModRM byte with what follows it, 0 if the code ends within. */
static size_t modrm_length(const uint8_t *code, size_t left)
{
	unsigned mod = left ? code[0] >> 6 : 3, rm = left ? code[0] & 7u : 0;
	size_t length = 1;

	if (mod != 3 && rm == 4 && left > 1) {
		length++;
		if (mod == 0 && (code[1] & 7) == 5)
			length += 4;
	}
	if (mod == 1)
		length++;
	else if (mod == 2 || (mod == 0 && rm == 5))
		length += 4;
	return length <= left ? length : 0;
}

/* ud1, which makes a signature an instruction, and with which clang's -fsanitize-trap stops: then
 * with prefixes, and an operand that encodes the reason. */
static bool ud1(struct insn *insn, const uint8_t *code, size_t left)
{
	size_t at = 0, operand;

	left = left < 15 ? left : 15;
	while (at < left && (code[at] == 0x66 || code[at] == 0x67))
		at++;
	at += at < left && code[at] >> 4 == 4;
	if (left < at + 3 || code[at] != 0x0f || code[at + 1] != 0xb9)
		return false;
	operand = modrm_length(code + at + 2, left - at - 2);
	if (!operand)
		return false;
	insn->size = (uint8_t)(at + 2 + operand);
	insn->kind = INSN_TRAP | INSN_ENDS;
	if (insn->size == 7 && code[2] == 0x3d)
		snprintf(insn->text, sizeof(insn->text), "ud1 edi, [rip + 0x%02x%02x%02x%02x]",
			 code[6], code[5], code[4], code[3]);
	else
		snprintf(insn->text, sizeof(insn->text), "ud1");
	return true;
}

bool insn_x86_64_by_hand(struct insn *insn, const uint8_t *code, size_t left)
{
	size_t at = left > 1 && code[0] == 0xf3;

	if (ud1(insn, code, left))
		return true;
	if (at && left > 4 && code[at] >> 4 == 4)
		at++;
	if (at && left >= at + 3 && code[at] == 0x0f && code[at + 1] == 0xc7 &&
	    code[at + 2] >> 3 == 0x1f) {
		unsigned reg = (code[at + 2] & 7u) | (at == 2 && code[1] & 1 ? 8 : 0);

		insn->size = (uint8_t)(at + 3);
		insn->kind = INSN_READS_CPU;
		insn->writes = (uint64_t)1 << reg;
		snprintf(insn->text, sizeof(insn->text), "rdpid (register %u)", reg);
		return true;
	}
	return false;
}
