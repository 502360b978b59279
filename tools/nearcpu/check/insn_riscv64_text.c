/* SPDX-License-Identifier: MIT */
/* The text of RV64GC, as assemblers write it. Debian 12's disassembler does not know this CPU. */
#include "check/insn.h"

#include <stdio.h>

static const char *const names[32] = {"zero", "ra", "sp",  "gp",  "tp", "t0", "t1", "t2",
				      "s0",   "s1", "a0",  "a1",  "a2", "a3", "a4", "a5",
				      "a6",   "a7", "s2",  "s3",  "s4", "s5", "s6", "s7",
				      "s8",   "s9", "s10", "s11", "t3", "t4", "t5", "t6"};

#define RD names[field(w, 7, 5)]
#define RS1 names[field(w, 15, 5)]
#define RS2 names[field(w, 20, 5)]

#define PRINT(...) snprintf(insn->text, sizeof(insn->text), __VA_ARGS__)

static void text_memory(struct insn *insn, uint32_t w)
{
	static const char *const load[8] = {"lb", "lh", "lw", "ld", "lbu", "lhu", "lwu", "l?"};
	static const char *const store[8] = {"sb", "sh", "sw", "sd", "s?", "s?", "s?", "s?"};
	static const char *const width[8] = {"b", "h", "w", "d", "q", "?", "?", "?"};
	int offset = (int)insn->memory[0].offset;
	bool is_store = field(w, 5, 1), is_float = field(w, 2, 1);
	unsigned f3 = field(w, 12, 3);

	if (is_float)
		PRINT("f%c%s f%u, %d(%s)", is_store ? 's' : 'l', width[f3],
		      field(w, is_store ? 20 : 7, 5), offset, RS1);
	else
		PRINT("%s %s, %d(%s)", is_store ? store[f3] : load[f3], is_store ? RS2 : RD, offset,
		      RS1);
}

static void text_immediate(struct insn *insn, uint32_t w)
{
	static const char *const op[8] = {"addi", "slli", "slti", "sltiu",
					  "xori", "srli", "ori",  "andi"};
	const char *suffix = field(w, 3, 1) ? "w" : "";
	int imm = (int32_t)w >> 20;
	unsigned f3 = field(w, 12, 3), amount = field(w, 20, field(w, 3, 1) ? 5 : 6);

	if (w == 0x13)
		PRINT("nop");
	else if ((f3 & 3) == 1)
		PRINT("%s%s %s, %s, %u", f3 == 5 && field(w, 30, 1) ? "srai" : op[f3], suffix, RD,
		      RS1, amount);
	else if (f3 == 0 && !imm && !*suffix)
		PRINT("mv %s, %s", RD, RS1);
	else if (f3 == 0 && !field(w, 15, 5) && !*suffix)
		PRINT("li %s, %d", RD, imm);
	else
		PRINT("%s%s %s, %s, %d", op[f3], suffix, RD, RS1, imm);
}

static void text_arithmetic(struct insn *insn, uint32_t w)
{
	static const char *const base[8] = {"add", "sll", "slt", "sltu", "xor", "srl", "or", "and"};
	static const char *const mul[8] = {"mul", "mulh", "mulhsu", "mulhu",
					   "div", "divu", "rem",    "remu"};
	const char *suffix = field(w, 3, 1) ? "w" : "", *op = base[field(w, 12, 3)];

	if (field(w, 25, 7) == 1)
		op = mul[field(w, 12, 3)];
	else if (field(w, 25, 7) == 0x20 && field(w, 12, 3) == 0)
		op = "sub";
	else if (field(w, 25, 7) == 0x20 && field(w, 12, 3) == 5)
		op = "sra";
	else if (field(w, 25, 7))
		op = NULL;
	if (!op)
		PRINT(".insn 0x%08x", w);
	else if (insn->value == VALUE_COPY)
		PRINT("mv %s, %s", RD, names[insn->src & 31]);
	else
		PRINT("%s%s %s, %s, %s", op, suffix, RD, RS1, RS2);
}

static void text_atomic(struct insn *insn, uint32_t w)
{
	static const char *const op[32] = {
		[0] = "amoadd",  [1] = "amoswap",  [2] = "lr",      [3] = "sc",
		[4] = "amoxor",  [8] = "amoor",    [12] = "amoand", [16] = "amomin",
		[20] = "amomax", [24] = "amominu", [28] = "amomaxu"};
	const char *name = op[field(w, 27, 5)], *width = field(w, 12, 3) == 2 ? "w" : "d";

	if (!name)
		PRINT(".insn 0x%08x", w);
	else if (field(w, 27, 5) == 2)
		PRINT("lr.%s %s, (%s)", width, RD, RS1);
	else
		PRINT("%s.%s %s, %s, (%s)", name, width, RD, RS2, RS1);
}

static void text_branch(struct insn *insn, uint32_t w)
{
	static const char *const op[8] = {"beq", "bne", "b?", "b?", "blt", "bge", "bltu", "bgeu"};
	unsigned long long target = insn->target;

	if (field(w, 20, 5) == 0 && field(w, 12, 3) < 2)
		PRINT("%sz %s, 0x%llx", op[field(w, 12, 3)], RS1, target);
	else
		PRINT("%s %s, %s, 0x%llx", op[field(w, 12, 3)], RS1, RS2, target);
}

static void text_jump(struct insn *insn, uint32_t w)
{
	unsigned long long target = insn->target;

	if (field(w, 0, 7) == 0x6f && field(w, 7, 5) == 0)
		PRINT("j 0x%llx", target);
	else if (field(w, 0, 7) == 0x6f)
		PRINT("jal %s, 0x%llx", RD, target);
	else if (w == 0x00008067)
		PRINT("ret");
	else if (field(w, 7, 5) == 0)
		PRINT("jr %d(%s)", (int32_t)w >> 20, RS1);
	else
		PRINT("jalr %s, %d(%s)", RD, (int32_t)w >> 20, RS1);
}

static void text_fence(struct insn *insn, uint32_t w)
{
	static const char sets[16][5] = {"0", "w",  "r",  "rw",  "o",  "ow",  "or",  "orw",
					 "i", "iw", "ir", "irw", "io", "iow", "ior", "iorw"};

	if (field(w, 12, 3) == 1)
		PRINT("fence.i");
	else if (w == 0x0100000f)
		PRINT("pause");
	else
		PRINT("fence %s, %s", sets[field(w, 24, 4)], sets[field(w, 20, 4)]);
}

static void text_system(struct insn *insn, uint32_t w)
{
	static const char *const op[8] = {"?", "csrrw",  "csrrs",  "csrrc",
					  "?", "csrrwi", "csrrsi", "csrrci"};

	if (w == 0x00000073)
		PRINT("ecall");
	else if (w == 0x00100073)
		PRINT("ebreak");
	else if (w == 0xc0001073)
		PRINT("unimp");
	else if (field(w, 12, 3) & 3)
		PRINT("%s %s, 0x%x, %s", op[field(w, 12, 3)], RD, w >> 20, RS1);
	else
		PRINT(".insn 0x%08x", w);
}

static void text_upper(struct insn *insn, uint32_t w)
{
	PRINT("%s %s, 0x%x", field(w, 5, 1) ? "lui" : "auipc", RD, w >> 12);
}

void text_riscv64(struct insn *insn, uint32_t w)
{
	/* By bits 2 to 6. */
	static void (*const writes[32])(struct insn *, uint32_t) = {
		[0x00] = text_memory,     [0x01] = text_memory, [0x03] = text_fence,
		[0x04] = text_immediate,  [0x05] = text_upper,  [0x06] = text_immediate,
		[0x08] = text_memory,     [0x09] = text_memory, [0x0b] = text_atomic,
		[0x0c] = text_arithmetic, [0x0d] = text_upper,  [0x0e] = text_arithmetic,
		[0x18] = text_branch,     [0x19] = text_jump,   [0x1b] = text_jump,
		[0x1c] = text_system,
	};

	if (!w)
		PRINT("unimp");
	else if (writes[field(w, 2, 5)])
		writes[field(w, 2, 5)](insn, w);
	else
		PRINT(".insn 0x%08x", w);
}
