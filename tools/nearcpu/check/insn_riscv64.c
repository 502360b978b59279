/* SPDX-License-Identifier: MIT */
/* RV64GC, by the tables of the RISC-V manual (volume I, the chapters on the C extension and on
 * instruction listings), and its text as assemblers write it: Debian 12's disassembler does not
 * know this CPU. A compressed instruction is first written as the long one that it stands for. */
#include "check/decode.h"
#include "check/scatter.h"

#include <stdio.h>

/* ---- compressed instructions ---- */

/* A short instruction whose bits under `mask` are `match` stands for the long one `base`, into
 * which some of its bits are put. A base of 0 means that the short one is reserved. */
struct compressed {
	uint16_t mask, match;
	uint32_t base;
	struct bits bits[MOST_BITS];
};

/* clang-format off */

/* Registers of 5 bits; and of 3 bits, which are numbered from 8: the base has the 8. */
#define RD {7, 5, 7}
#define RD_AS_RS1 {7, 5, 15}
#define RS2 {2, 5, 20}
#define LOW_RD {7, 3, 7}
#define LOW_RS1 {7, 3, 15}
#define LOW_RS2 {2, 3, 20}
#define LOW_RD_BELOW {2, 3, 7}

/* Immediates. From bit 16 on there is the sign, bit 12. */
#define SIGNED {2, 5, 20}, {16, 7, 25}
#define AMOUNT {2, 5, 20}, {12, 1, 25}
#define BRANCH {3, 2, 8}, {10, 2, 10}, {2, 1, 25}, {5, 2, 26}, {16, 4, 28}, {16, 1, 7}
/* Offsets of 4 and 8 bytes: of loads and stores, and of those by the stack pointer. */
#define LOAD_4 {10, 3, 23}, {6, 1, 22}, {5, 1, 26}
#define LOAD_8 {10, 3, 23}, {5, 2, 26}
#define STORE_4 {10, 2, 10}, {12, 1, 25}, {6, 1, 9}, {5, 1, 26}
#define STORE_8 {10, 2, 10}, {12, 1, 25}, {5, 2, 26}
#define STACK_LOAD_8 {5, 2, 23}, {12, 1, 25}, {2, 3, 26}
#define STACK_STORE_8 {10, 2, 10}, {12, 1, 25}, {7, 3, 26}

#define RESERVED 0, {{0, 0, 0}}

/* The first row that fits counts. */
static const struct compressed quadrant_0[] = {
	{0xffe3, 0x0000, RESERVED},
	{0xe003, 0x0000, 0x00010413, {LOW_RD_BELOW, {11, 2, 24}, {7, 4, 26}, {6, 1, 22},
				      {5, 1, 23}}},                   /* addi rd, sp */
	{0xe003, 0x2000, 0x00043407, {LOW_RD_BELOW, LOW_RS1, LOAD_8}}, /* fld */
	{0xe003, 0x4000, 0x00042403, {LOW_RD_BELOW, LOW_RS1, LOAD_4}}, /* lw */
	{0xe003, 0x6000, 0x00043403, {LOW_RD_BELOW, LOW_RS1, LOAD_8}}, /* ld */
	{0xe003, 0xa000, 0x00843027, {LOW_RS2, LOW_RS1, STORE_8}},     /* fsd */
	{0xe003, 0xc000, 0x00842023, {LOW_RS2, LOW_RS1, STORE_4}},     /* sw */
	{0xe003, 0xe000, 0x00843023, {LOW_RS2, LOW_RS1, STORE_8}},     /* sd */
	{0, 0, RESERVED},
};

static const struct compressed quadrant_1[] = {
	{0xe003, 0x0001, 0x00000013, {RD, RD_AS_RS1, SIGNED}}, /* addi */
	{0xef83, 0x2001, RESERVED},
	{0xe003, 0x2001, 0x0000001b, {RD, RD_AS_RS1, SIGNED}}, /* addiw */
	{0xe003, 0x4001, 0x00000013, {RD, SIGNED}},            /* li */
	{0xf07f, 0x6001, RESERVED},
	{0xef83, 0x6101, 0x00010113, {{6, 1, 24}, {5, 1, 26}, {3, 2, 27}, {2, 1, 25},
				      {16, 3, 29}}},                  /* addi sp, sp */
	{0xe003, 0x6001, 0x00000037, {RD, {2, 5, 12}, {16, 15, 17}}}, /* lui */
	{0xec03, 0x8001, 0x00045413, {LOW_RD, LOW_RS1, AMOUNT}},      /* srli */
	{0xec03, 0x8401, 0x40045413, {LOW_RD, LOW_RS1, AMOUNT}},      /* srai */
	{0xec03, 0x8801, 0x00047413, {LOW_RD, LOW_RS1, SIGNED}},      /* andi */
	{0xfc63, 0x8c01, 0x40840433, {LOW_RD, LOW_RS1, LOW_RS2}},     /* sub */
	{0xfc63, 0x8c21, 0x00844433, {LOW_RD, LOW_RS1, LOW_RS2}},     /* xor */
	{0xfc63, 0x8c41, 0x00846433, {LOW_RD, LOW_RS1, LOW_RS2}},     /* or */
	{0xfc63, 0x8c61, 0x00847433, {LOW_RD, LOW_RS1, LOW_RS2}},     /* and */
	{0xfc63, 0x9c01, 0x4084043b, {LOW_RD, LOW_RS1, LOW_RS2}},     /* subw */
	{0xfc63, 0x9c21, 0x0084043b, {LOW_RD, LOW_RS1, LOW_RS2}},     /* addw */
	{0xe003, 0xa001, 0x0000006f, {{3, 3, 21}, {11, 1, 24}, {2, 1, 25}, {7, 1, 26}, {6, 1, 27},
				      {9, 2, 28}, {8, 1, 30}, {16, 9, 12}, {16, 1, 31}}}, /* j */
	{0xe003, 0xc001, 0x00040063, {LOW_RS1, BRANCH}}, /* beqz */
	{0xe003, 0xe001, 0x00041063, {LOW_RS1, BRANCH}}, /* bnez */
	{0, 0, RESERVED},
};

static const struct compressed quadrant_2[] = {
	{0xe003, 0x0002, 0x00001013, {RD, RD_AS_RS1, AMOUNT}}, /* slli */
	{0xe003, 0x2002, 0x00013007, {RD, STACK_LOAD_8}},      /* fld */
	{0xef83, 0x4002, RESERVED},
	{0xe003, 0x4002, 0x00012003, {RD, {4, 3, 22}, {12, 1, 25}, {2, 2, 26}}}, /* lw */
	{0xef83, 0x6002, RESERVED},
	{0xe003, 0x6002, 0x00013003, {RD, STACK_LOAD_8}}, /* ld */
	{0xffff, 0x8002, RESERVED},
	{0xf07f, 0x8002, 0x00000067, {RD_AS_RS1}},          /* jr */
	{0xf003, 0x8002, 0x00000033, {RD, RS2}},            /* mv */
	{0xffff, 0x9002, 0x00100073, {{0, 0, 0}}},          /* ebreak */
	{0xf07f, 0x9002, 0x000000e7, {RD_AS_RS1}},          /* jalr */
	{0xf003, 0x9002, 0x00000033, {RD, RD_AS_RS1, RS2}}, /* add */
	{0xe003, 0xa002, 0x00013027, {RS2, STACK_STORE_8}}, /* fsd */
	{0xe003, 0xc002, 0x00012023, {RS2, {9, 3, 9}, {12, 1, 25}, {7, 2, 26}}}, /* sw */
	{0xe003, 0xe002, 0x00013023, {RS2, STACK_STORE_8}}, /* sd */
	{0, 0, RESERVED},
};

/* clang-format on */

/* 0 if there is none. */
static uint32_t expand_compressed(uint16_t c)
{
	static const struct compressed *const quadrants[] = {quadrant_0, quadrant_1, quadrant_2};
	const struct compressed *row = quadrants[c & 3];

	while ((c & row->mask) != row->match)
		row++;
	return (uint32_t)bits_put(row->base, c | (c >> 12 & 1 ? ~UINT64_C(0xffff) : 0), row->bits);
}

/* ---- what a long instruction does ---- */

/* Immediates. All bits from 31 on are the sign. */
static const struct bits imm_i[MOST_BITS] = {{20, 32, 0}},
			 imm_s[MOST_BITS] = {{7, 5, 0}, {25, 27, 5}},
			 imm_b[MOST_BITS] = {{8, 4, 1}, {25, 6, 5}, {7, 1, 11}, {31, 20, 12}},
			 imm_j[MOST_BITS] = {{21, 10, 1}, {20, 1, 11}, {12, 8, 12}, {31, 12, 20}};

static int32_t imm_of(uint32_t w, const struct bits list[MOST_BITS])
{
	return (int32_t)bits_put(0, (uint64_t)(int32_t)w, list);
}

static void memory_at(struct insn *insn, uint32_t w, int32_t offset)
{
	struct insn_memory *m = &insn->memory[0];

	insn->memory_count = 1;
	m->base = (int8_t)field(w, 15, 5);
	m->index = NO_REGISTER;
	m->offset = offset;
	m->size = (uint8_t)(1u << field(w, 12, 2));
}

/* Bit 5 is set in stores, bit 2 in those of floating-point registers. */
static void load_store(struct insn *insn, uint32_t w)
{
	bool is_store = field(w, 5, 1), is_float = field(w, 2, 1);

	memory_at(insn, w, imm_of(w, is_store ? imm_s : imm_i));
	insn->memory[0].read = !is_store;
	insn->memory[0].written = is_store;
	insn->kind |= is_store ? INSN_STORE : 0;
	if (is_store && !is_float) {
		insn->stores_const = !field(w, 20, 5); /* imm is 0 */
		insn->stored = (int8_t)(insn->stores_const ? NO_REGISTER : (int)field(w, 20, 5));
	} else if (!is_float) {
		insn->value = VALUE_LOAD;
	}
}

static void atomic(struct insn *insn, uint32_t w)
{
	unsigned op = field(w, 27, 5);

	memory_at(insn, w, 0);
	insn->memory[0].read = op != 3;    /* SC */
	insn->memory[0].written = op != 2; /* LR */
	insn->kind |= INSN_ATOMIC | (op != 2 ? INSN_STORE : 0);
}

static void immediate(struct insn *insn, uint32_t w)
{
	if (field(w, 0, 7) != 0x13 || field(w, 12, 3) != 0)
		return;
	insn->imm = imm_of(w, imm_i);
	insn->src = (int8_t)field(w, 15, 5);
	insn->value = insn->src ? VALUE_COPY : VALUE_CONST;
}

static void arithmetic(struct insn *insn, uint32_t w)
{
	int8_t rs1 = (int8_t)field(w, 15, 5), rs2 = (int8_t)field(w, 20, 5);

	if ((w & 0xfe00707f) != 0x33)
		return;
	if (rs1 && rs2) {
		insn->value = VALUE_SUM;
		insn->src = rs1;
		insn->src2 = rs2;
	} else {
		insn->value = rs1 || rs2 ? VALUE_COPY : VALUE_CONST;
		insn->src = rs1 | rs2;
	}
}

static void jump_by(struct insn *insn, int32_t distance, uint32_t kind)
{
	insn->kind |= INSN_BRANCH | kind;
	insn->target = insn->address + (uint64_t)(int64_t)distance;
}

static void branch(struct insn *insn, uint32_t w)
{
	jump_by(insn, imm_of(w, imm_b), 0);
}

static void jal(struct insn *insn, uint32_t w)
{
	jump_by(insn, imm_of(w, imm_j), insn->dst ? INSN_CALL : INSN_ENDS);
}

/* With AUIPC before it, to a known place. */
static void jalr(struct insn *insn, uint32_t w)
{
	insn->kind |= insn->dst ? INSN_CALL : INSN_INDIRECT | INSN_ENDS;
	insn->src = (int8_t)field(w, 15, 5);
	insn->imm = imm_of(w, imm_i);
	insn->kind |= !insn->dst && insn->src == 1 ? INSN_RETURNS : 0; /* ra */
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
	insn->value = VALUE_CONST;
	insn->imm = (int32_t)(w & 0xfffff000);
	if (field(w, 0, 7) == 0x17)
		insn->imm = (int64_t)((uint64_t)insn->imm + insn->address); /* AUIPC */
}

/* Compare, convert, move and classify, whose result is in a general register. */
static void float_operation(struct insn *insn, uint32_t w)
{
	if (field(w, 30, 2) >= 2 && !field(w, 28, 1))
		insn->dst = (int8_t)field(w, 7, 5);
}

/* Nothing that matters is known of the others: fences, and operations of floating-point registers
 * alone. */
static void nothing(struct insn *insn, uint32_t w)
{
	(void)insn;
	(void)w;
}

/* ---- text ---- */

static const char *const names[32] = {"zero", "ra", "sp",  "gp",  "tp", "t0", "t1", "t2",
				      "s0",   "s1", "a0",  "a1",  "a2", "a3", "a4", "a5",
				      "a6",   "a7", "s2",  "s3",  "s4", "s5", "s6", "s7",
				      "s8",   "s9", "s10", "s11", "t3", "t4", "t5", "t6"};

/* A register's name, by the bit that its number begins at: 7, 15 and 20 are rd, rs1 and rs2. */
#define REG(from) names[field(w, from, 5)]

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
		      field(w, is_store ? 20 : 7, 5), offset, REG(15));
	else
		PRINT("%s %s, %d(%s)", is_store ? store[f3] : load[f3], is_store ? REG(20) : REG(7),
		      offset, REG(15));
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
		PRINT("%s%s %s, %s, %u", f3 == 5 && field(w, 30, 1) ? "srai" : op[f3], suffix,
		      REG(7), REG(15), amount);
	else if (f3 == 0 && !imm && !*suffix)
		PRINT("mv %s, %s", REG(7), REG(15));
	else if (f3 == 0 && !field(w, 15, 5) && !*suffix)
		PRINT("li %s, %d", REG(7), imm);
	else
		PRINT("%s%s %s, %s, %d", op[f3], suffix, REG(7), REG(15), imm);
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
	if (op && insn->value == VALUE_COPY)
		PRINT("mv %s, %s", REG(7), names[insn->src & 31]);
	else if (op)
		PRINT("%s%s %s, %s, %s", op, suffix, REG(7), REG(15), REG(20));
}

static void text_atomic(struct insn *insn, uint32_t w)
{
	static const char *const op[32] = {
		[0] = "amoadd",  [1] = "amoswap",  [2] = "lr",      [3] = "sc",
		[4] = "amoxor",  [8] = "amoor",    [12] = "amoand", [16] = "amomin",
		[20] = "amomax", [24] = "amominu", [28] = "amomaxu"};
	const char *name = op[field(w, 27, 5)], *width = field(w, 12, 3) == 2 ? "w" : "d";

	if (field(w, 27, 5) == 2)
		PRINT("lr.%s %s, (%s)", width, REG(7), REG(15));
	else if (name)
		PRINT("%s.%s %s, %s, (%s)", name, width, REG(7), REG(20), REG(15));
}

static void text_branch(struct insn *insn, uint32_t w)
{
	static const char *const op[8] = {"beq", "bne", "b?", "b?", "blt", "bge", "bltu", "bgeu"};
	unsigned long long target = insn->target;

	if (field(w, 20, 5) == 0 && field(w, 12, 3) < 2)
		PRINT("%sz %s, 0x%llx", op[field(w, 12, 3)], REG(15), target);
	else
		PRINT("%s %s, %s, 0x%llx", op[field(w, 12, 3)], REG(15), REG(20), target);
}

static void text_jal(struct insn *insn, uint32_t w)
{
	if (field(w, 7, 5) == 0)
		PRINT("j 0x%llx", (unsigned long long)insn->target);
	else
		PRINT("jal %s, 0x%llx", REG(7), (unsigned long long)insn->target);
}

static void text_jalr(struct insn *insn, uint32_t w)
{
	if (w == 0x00008067)
		PRINT("ret");
	else if (field(w, 7, 5) == 0)
		PRINT("jr %d(%s)", imm_of(w, imm_i), REG(15));
	else
		PRINT("jalr %s, %d(%s)", REG(7), imm_of(w, imm_i), REG(15));
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
		PRINT("%s %s, 0x%x, %s", op[field(w, 12, 3)], REG(7), w >> 20, REG(15));
}

static void text_upper(struct insn *insn, uint32_t w)
{
	PRINT("%s %s, 0x%x", field(w, 5, 1) ? "lui" : "auipc", REG(7), w >> 12);
}

/* ---- all ---- */

struct major {
	void (*decode)(struct insn *insn, uint32_t w);
	void (*text)(struct insn *insn, uint32_t w); /* replaces the number */
	unsigned registers;                          /* all that it names, general ones */
};

enum { WRITES_RD = 1, READS_RS1 = 2, READS_RS2 = 4, ALL_THREE = 7 };

/* By bits 2 to 6. */
static const struct major majors[32] = {
	[0x00] = {load_store, text_memory, WRITES_RD | READS_RS1},
	[0x01] = {load_store, text_memory, READS_RS1},
	[0x03] = {nothing, text_fence, 0},
	[0x04] = {immediate, text_immediate, WRITES_RD | READS_RS1},
	[0x05] = {upper, text_upper, WRITES_RD},
	[0x06] = {immediate, text_immediate, WRITES_RD | READS_RS1},
	[0x08] = {load_store, text_memory, READS_RS1 | READS_RS2},
	[0x09] = {load_store, text_memory, READS_RS1},
	[0x0b] = {atomic, text_atomic, ALL_THREE},
	[0x0c] = {arithmetic, text_arithmetic, ALL_THREE},
	[0x0d] = {upper, text_upper, WRITES_RD},
	[0x0e] = {arithmetic, text_arithmetic, ALL_THREE},
	[0x10 ... 0x13] = {nothing, NULL, 0},
	[0x14] = {float_operation, NULL, 0},
	[0x18] = {branch, text_branch, READS_RS1 | READS_RS2},
	[0x19] = {jalr, text_jalr, WRITES_RD | READS_RS1},
	[0x1b] = {jal, text_jal, WRITES_RD},
	[0x1c] = {system_call, text_system, 0},
};

static bool decode_long(struct insn *insn, uint32_t w, bool with_text)
{
	const struct major *major = &majors[field(w, 2, 5)];
	unsigned opcode = field(w, 2, 5), f3 = field(w, 12, 3);

	/* Widths that there are not. */
	if (!major->decode || (opcode == 0x00 && f3 == 7) || (opcode == 0x08 && f3 > 3))
		return false;
	if (major->registers & WRITES_RD)
		insn->dst = (int8_t)field(w, 7, 5);
	if (major->registers & READS_RS1)
		insn->reads |= UINT64_C(1) << field(w, 15, 5);
	if (major->registers & READS_RS2)
		insn->reads |= UINT64_C(1) << field(w, 20, 5);
	insn->reads &= ~UINT64_C(1); /* zero */
	major->decode(insn, w);
	if (with_text)
		PRINT(".insn 0x%08x", w);
	if (with_text && major->text)
		major->text(insn, w);
	return true;
}

bool insn_riscv64(struct insn *insn, uint32_t word, bool with_text)
{
	uint32_t w = word;

	insn->size = 4;
	if ((word & 3) != 3) {
		insn->size = 2;
		w = expand_compressed((uint16_t)word);
		if (!w && (uint16_t)word) /* all zero is the instruction that is never valid */
			return false;
	}
	if (w && !decode_long(insn, w, with_text))
		return false;
	if (!w)
		insn->kind |= INSN_TRAP | INSN_ENDS;
	if (!w && with_text)
		PRINT("unimp");
	if (insn->dst == 0)
		insn->dst = NO_REGISTER;
	if (insn->dst != NO_REGISTER)
		insn->writes |= (uint64_t)1 << insn->dst;
	return true;
}
