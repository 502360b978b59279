/* SPDX-License-Identifier: MIT */
/* RV64GC, by the tables of the RISC-V manual (volume I, the chapters on the C extension and on
 * instruction listings). A compressed instruction is first written as the long one that it stands
 * for. */
#include "check/insn.h"

static int32_t sign(uint32_t value, int width)
{
	return (int32_t)(value << (32 - width)) >> (32 - width);
}

/* Long instructions from their parts. */

static uint32_t form_i(unsigned opcode, unsigned f3, unsigned rd, unsigned rs1, int32_t imm)
{
	return opcode | rd << 7 | f3 << 12 | rs1 << 15 | (uint32_t)imm << 20;
}

static uint32_t form_r(unsigned opcode, unsigned f3, unsigned f7, unsigned rd, unsigned rs1,
		       unsigned rs2)
{
	return opcode | rd << 7 | f3 << 12 | rs1 << 15 | rs2 << 20 | f7 << 25;
}

static uint32_t form_s(unsigned opcode, unsigned f3, unsigned rs1, unsigned rs2, uint32_t imm)
{
	return opcode | field(imm, 0, 5) << 7 | f3 << 12 | rs1 << 15 | rs2 << 20 |
	       field(imm, 5, 7) << 25;
}

static uint32_t form_b(unsigned f3, unsigned rs1, uint32_t imm)
{
	return 0x63 | field(imm, 11, 1) << 7 | field(imm, 1, 4) << 8 | f3 << 12 | rs1 << 15 |
	       field(imm, 5, 6) << 25 | field(imm, 12, 1) << 31;
}

static uint32_t form_j(unsigned rd, uint32_t imm)
{
	return 0x6f | rd << 7 | field(imm, 12, 8) << 12 | field(imm, 11, 1) << 20 |
	       field(imm, 1, 10) << 21 | field(imm, 20, 1) << 31;
}

/* Quadrant 0: loads and stores by the eight popular registers. */
static uint32_t expand_0(unsigned c)
{
	unsigned rd = 8 + field(c, 2, 3), rs1 = 8 + field(c, 7, 3);
	unsigned word = field(c, 10, 3) << 3 | field(c, 6, 1) << 2 | field(c, 5, 1) << 6;
	unsigned two = field(c, 10, 3) << 3 | field(c, 5, 2) << 6;
	unsigned stack = field(c, 11, 2) << 4 | field(c, 7, 4) << 6 | field(c, 6, 1) << 2 |
			 field(c, 5, 1) << 3;

	switch (field(c, 13, 3)) {
	case 0:
		return stack ? form_i(0x13, 0, rd, 2, (int32_t)stack) : 0;
	case 1:
		return form_i(0x07, 3, rd, rs1, (int32_t)two);
	case 2:
		return form_i(0x03, 2, rd, rs1, (int32_t)word);
	case 3:
		return form_i(0x03, 3, rd, rs1, (int32_t)two);
	case 5:
		return form_s(0x27, 3, rs1, rd, two);
	case 6:
		return form_s(0x23, 2, rs1, rd, word);
	case 7:
		return form_s(0x23, 3, rs1, rd, two);
	default:
		return 0;
	}
}

static uint32_t expand_arithmetic(unsigned c)
{
	static const struct {
		unsigned f3, f7, opcode;
	} two[8] = {{0, 0x20, 0x33}, {4, 0, 0x33},    {6, 0, 0x33},
		    {7, 0, 0x33},    {0, 0x20, 0x3b}, {0, 0, 0x3b}};
	unsigned rd = 8 + field(c, 7, 3), rs2 = 8 + field(c, 2, 3);
	unsigned amount = field(c, 12, 1) << 5 | field(c, 2, 5);
	unsigned which = field(c, 12, 1) << 2 | field(c, 5, 2);

	switch (field(c, 10, 2)) {
	case 0:
		return form_i(0x13, 5, rd, rd, (int32_t)amount);
	case 1:
		return form_i(0x13, 5, rd, rd, (int32_t)(amount | 0x400));
	case 2:
		return form_i(0x13, 7, rd, rd, sign(amount, 6));
	default:
		return two[which].opcode ? form_r(two[which].opcode, two[which].f3, two[which].f7,
						  rd, rd, rs2)
					 : 0;
	}
}

static uint32_t expand_1(unsigned c)
{
	unsigned rd = field(c, 7, 5);
	int32_t imm = sign(field(c, 12, 1) << 5 | field(c, 2, 5), 6);
	int32_t far = sign(field(c, 12, 1) << 11 | field(c, 11, 1) << 4 | field(c, 9, 2) << 8 |
				   field(c, 8, 1) << 10 | field(c, 7, 1) << 6 |
				   field(c, 6, 1) << 7 | field(c, 3, 3) << 1 | field(c, 2, 1) << 5,
			   12);
	int32_t near = sign(field(c, 12, 1) << 8 | field(c, 10, 2) << 3 | field(c, 5, 2) << 6 |
				    field(c, 3, 2) << 1 | field(c, 2, 1) << 5,
			    9);
	int32_t stack = sign(field(c, 12, 1) << 9 | field(c, 6, 1) << 4 | field(c, 5, 1) << 6 |
				     field(c, 3, 2) << 7 | field(c, 2, 1) << 5,
			     10);

	switch (field(c, 13, 3)) {
	case 0:
		return form_i(0x13, 0, rd, rd, imm);
	case 1:
		return rd ? form_i(0x1b, 0, rd, rd, imm) : 0;
	case 2:
		return form_i(0x13, 0, rd, 0, imm);
	case 3:
		if (!imm)
			return 0;
		return rd == 2 ? form_i(0x13, 0, 2, 2, stack)
			       : 0x37u | rd << 7 | (uint32_t)imm << 12;
	case 4:
		return expand_arithmetic(c);
	case 5:
		return form_j(0, (uint32_t)far);
	default:
		return form_b(field(c, 13, 1), 8 + field(c, 7, 3), (uint32_t)near);
	}
}

static uint32_t expand_2(unsigned c)
{
	unsigned rd = field(c, 7, 5), rs2 = field(c, 2, 5);
	unsigned two = field(c, 12, 1) << 5 | field(c, 5, 2) << 3 | field(c, 2, 3) << 6;
	unsigned word = field(c, 12, 1) << 5 | field(c, 4, 3) << 2 | field(c, 2, 2) << 6;
	unsigned store_two = field(c, 10, 3) << 3 | field(c, 7, 3) << 6;
	unsigned store_word = field(c, 9, 4) << 2 | field(c, 7, 2) << 6;

	switch (field(c, 13, 3)) {
	case 0:
		return form_i(0x13, 1, rd, rd, (int32_t)(field(c, 12, 1) << 5 | rs2));
	case 1:
		return form_i(0x07, 3, rd, 2, (int32_t)two);
	case 2:
		return rd ? form_i(0x03, 2, rd, 2, (int32_t)word) : 0;
	case 3:
		return rd ? form_i(0x03, 3, rd, 2, (int32_t)two) : 0;
	case 4:
		if (rs2)
			return form_r(0x33, 0, 0, rd, field(c, 12, 1) ? rd : 0, rs2);
		if (rd)
			return form_i(0x67, 0, field(c, 12, 1), rd, 0);
		return field(c, 12, 1) ? 0x00100073 : 0;
	case 5:
		return form_s(0x27, 3, 2, rs2, store_two);
	case 6:
		return form_s(0x23, 2, 2, rs2, store_word);
	default:
		return form_s(0x23, 3, 2, rs2, store_two);
	}
}

/* What a long instruction does. */

static uint64_t bit_of(unsigned reg)
{
	return reg ? (uint64_t)1 << reg : 0;
}

static void memory(struct insn *insn, uint32_t w, int32_t offset)
{
	struct insn_memory *m = &insn->memory[0];

	insn->memory_count = 1;
	m->base = (int8_t)field(w, 15, 5);
	m->index = NO_REGISTER;
	m->offset = offset;
	m->size = (uint8_t)(1u << field(w, 12, 2));
	insn->reads |= bit_of(field(w, 15, 5));
}

/* Bit 2 tells floating-point loads and stores. */
static void load(struct insn *insn, uint32_t w)
{
	memory(insn, w, sign(field(w, 20, 12), 12));
	insn->memory[0].read = true;
	if (field(w, 2, 1))
		return;
	insn->value = VALUE_LOAD;
	insn->dst = (int8_t)field(w, 7, 5);
}

static void store(struct insn *insn, uint32_t w)
{
	unsigned reg = field(w, 20, 5);

	memory(insn, w, sign(field(w, 25, 7) << 5 | field(w, 7, 5), 12));
	insn->memory[0].written = true;
	insn->kind |= INSN_STORE;
	if (field(w, 2, 1))
		return;
	insn->reads |= bit_of(reg);
	insn->stored = (int8_t)(reg ? (int)reg : NO_REGISTER);
	insn->stores_const = !reg; /* imm is 0 */
}

static void atomic(struct insn *insn, uint32_t w)
{
	unsigned op = field(w, 27, 5);

	memory(insn, w, 0);
	insn->reads |= bit_of(field(w, 20, 5));
	insn->dst = (int8_t)field(w, 7, 5);
	insn->memory[0].read = op != 3;    /* SC */
	insn->memory[0].written = op != 2; /* LR */
	insn->kind |= INSN_ATOMIC | (op != 2 ? INSN_STORE : 0);
}

static void immediate(struct insn *insn, uint32_t w)
{
	unsigned src = field(w, 15, 5);

	insn->dst = (int8_t)field(w, 7, 5);
	insn->reads |= bit_of(src);
	if (field(w, 0, 7) != 0x13 || field(w, 12, 3) != 0)
		return;
	insn->imm = sign(field(w, 20, 12), 12);
	insn->value = src ? VALUE_COPY : VALUE_CONST;
	insn->src = (int8_t)src;
}

static void arithmetic(struct insn *insn, uint32_t w)
{
	unsigned rs1 = field(w, 15, 5), rs2 = field(w, 20, 5);
	bool adds = (w & 0xfe00707f) == 0x33;

	insn->dst = (int8_t)field(w, 7, 5);
	insn->reads |= bit_of(rs1) | bit_of(rs2);
	if (adds && (!rs1 || !rs2)) {
		insn->value = rs1 || rs2 ? VALUE_COPY : VALUE_CONST;
		insn->src = (int8_t)(rs1 | rs2);
	} else if (adds) {
		insn->value = VALUE_SUM;
		insn->src = (int8_t)rs1;
		insn->src2 = (int8_t)rs2;
	}
}

static void jumps(struct insn *insn, uint32_t w)
{
	unsigned rd = field(w, 7, 5);

	if (field(w, 0, 7) == 0x63) {
		int32_t d = sign(field(w, 31, 1) << 12 | field(w, 7, 1) << 11 |
					 field(w, 25, 6) << 5 | field(w, 8, 4) << 1,
				 13);

		insn->kind |= INSN_BRANCH;
		insn->target = insn->address + (uint64_t)(int64_t)d;
		insn->reads |= bit_of(field(w, 15, 5)) | bit_of(field(w, 20, 5));
		return;
	}
	insn->dst = (int8_t)rd;
	if (field(w, 0, 7) == 0x6f) {
		int32_t d = sign(field(w, 31, 1) << 20 | field(w, 12, 8) << 12 |
					 field(w, 20, 1) << 11 | field(w, 21, 10) << 1,
				 21);

		insn->kind |= INSN_BRANCH | (rd ? INSN_CALL : INSN_ENDS);
		insn->target = insn->address + (uint64_t)(int64_t)d;
		return;
	}
	/* JALR; with AUIPC before it, to a known place. */
	insn->kind |= rd ? INSN_CALL : INSN_INDIRECT | INSN_ENDS;
	insn->src = (int8_t)field(w, 15, 5);
	insn->imm = sign(field(w, 20, 12), 12);
	insn->reads |= bit_of(field(w, 15, 5));
}

static void system_call(struct insn *insn, uint32_t w)
{
	if (w == 0x00000073)
		insn->kind |= INSN_SYSCALL;
	else if (field(w, 12, 3) == 0 || w == 0xc0001073)
		insn->kind |= INSN_TRAP; /* EBREAK and the privileged ones; UNIMP */
	else
		insn->dst = (int8_t)field(w, 7, 5); /* CSR */
}

static void upper(struct insn *insn, uint32_t w)
{
	insn->dst = (int8_t)field(w, 7, 5);
	insn->value = VALUE_CONST;
	insn->imm = (int32_t)(w & 0xfffff000);
	if (field(w, 0, 7) == 0x17)
		insn->imm = (int64_t)((uint64_t)insn->imm + insn->address); /* AUIPC */
}

/* Floating-point operations whose result is in a general register: compare, convert, move,
 * classify. Of the others and of fences nothing is known. */
static void others(struct insn *insn, uint32_t w)
{
	if (field(w, 0, 7) == 0x53 && field(w, 30, 2) >= 2 && !(field(w, 28, 1)))
		insn->dst = (int8_t)field(w, 7, 5);
}

static bool long_insn(struct insn *insn, uint32_t w)
{
	/* By bits 2 to 6. */
	static void (*const does[32])(struct insn *, uint32_t) = {
		[0x00] = load,        [0x01] = load,       [0x03] = others, [0x04] = immediate,
		[0x05] = upper,       [0x06] = immediate,  [0x08] = store,  [0x09] = store,
		[0x0b] = atomic,      [0x0c] = arithmetic, [0x0d] = upper,  [0x0e] = arithmetic,
		[0x10] = others,      [0x11] = others,     [0x12] = others, [0x13] = others,
		[0x14] = others,      [0x18] = jumps,      [0x19] = jumps,  [0x1b] = jumps,
		[0x1c] = system_call,
	};
	unsigned opcode = field(w, 2, 5), f3 = field(w, 12, 3);

	/* Widths that there are not. */
	if (!does[opcode] || (opcode == 0x00 && f3 == 7) || (opcode == 0x08 && f3 > 3))
		return false;
	does[opcode](insn, w);
	return true;
}

bool insn_riscv64(struct insn *insn, uint32_t word, bool with_text)
{
	static uint32_t (*const expand[])(unsigned) = {expand_0, expand_1, expand_2};
	uint32_t w = word;

	insn->size = 4;
	if ((word & 3) != 3) {
		insn->size = 2;
		w = expand[word & 3](word & 0xffff);
		if (!w && (word & 0xffff)) /* all zero is the instruction that is never valid */
			return false;
	}
	if (!w)
		insn->kind |= INSN_TRAP | INSN_ENDS;
	else if (!long_insn(insn, w))
		return false;
	if (insn->dst == 0)
		insn->dst = NO_REGISTER;
	if (insn->dst != NO_REGISTER)
		insn->writes |= (uint64_t)1 << insn->dst;
	if (with_text)
		text_riscv64(insn, w);
	return true;
}
