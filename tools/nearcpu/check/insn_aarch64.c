/* SPDX-License-Identifier: MIT */
/* A64, by the tables of the Arm Architecture Reference Manual (DDI 0487, C4.1): what branches, what
 * touches memory, and the few ways in which addresses are made. The disassembler writes the text;
 * the one of Debian 12 does not know the newer atomic instructions. */
#include "check/decode.h"

static int64_t signed_field(uint32_t word, int from, int count)
{
	int64_t value = field(word, from, count);

	return value >> (count - 1) ? value - ((int64_t)1 << count) : value;
}

/* Register 31 is zero or the stack pointer, depending on the instruction. */
#define SP 31

static uint64_t bit_of(unsigned reg)
{
	return reg == 31 ? 0 : (uint64_t)1 << reg;
}

static void branch(struct insn *insn, int64_t words, uint32_t kind)
{
	insn->kind |= INSN_BRANCH | kind;
	insn->target = insn->address + (uint64_t)words * 4;
}

static void branches(struct insn *insn, uint32_t w)
{
	if ((w & 0x7c000000) == 0x14000000) {
		branch(insn, signed_field(w, 0, 26), w >> 31 ? INSN_CALL : INSN_ENDS);
		if (w >> 31)
			insn->writes |= bit_of(30);
	} else if ((w & 0x7e000000) == 0x34000000) {
		branch(insn, signed_field(w, 5, 19), 0);
		insn->reads |= bit_of(field(w, 0, 5));
	} else if ((w & 0x7e000000) == 0x36000000) {
		branch(insn, signed_field(w, 5, 14), 0);
		insn->reads |= bit_of(field(w, 0, 5));
	} else if ((w & 0xfe000000) == 0x54000000) {
		branch(insn, signed_field(w, 5, 19), field(w, 0, 4) >= 14 ? INSN_ENDS : 0);
	} else if ((w & 0xff000000) == 0xd4000000) {
		/* SVC, HVC, SMC; BRK, HLT, DCPS. */
		insn->kind |= field(w, 21, 3) == 0 ? INSN_SYSCALL : INSN_TRAP;
	} else if ((w & 0xfe000000) == 0xd6000000) {
		/* BLR and its kin have opc 1 or 9; all else does not come back. */
		insn->kind |= field(w, 21, 4) == 1 || field(w, 21, 4) == 9
				      ? INSN_CALL
				      : INSN_INDIRECT | INSN_ENDS;
		insn->kind |= field(w, 21, 4) == 2 ? INSN_RETURNS : 0;
		insn->reads |= bit_of(field(w, 5, 5));
	} else if ((w & 0xffffffe0) == 0xd53bd040) {
		insn->value = VALUE_THREAD; /* MRS x, TPIDR_EL0 */
		insn->dst = (int8_t)field(w, 0, 5);
	} else if ((w & 0xfff00000) == 0xd5300000) {
		insn->writes |= bit_of(field(w, 0, 5));
	}
}

static void immediate(struct insn *insn, uint32_t w)
{
	unsigned dst = field(w, 0, 5), src = field(w, 5, 5);
	uint64_t pages;

	insn->dst = (int8_t)dst;
	if ((w & 0x1f000000) == 0x10000000) { /* ADR, ADRP */
		pages = (uint64_t)(signed_field(w, 5, 19) * 4 + field(w, 29, 2));
		insn->value = VALUE_CONST;
		insn->imm = (int64_t)(w >> 31 ? (insn->address & ~(uint64_t)0xfff) + (pages << 12)
					      : insn->address + pages);
	} else if ((w & 0x9f800000) == 0x91000000) { /* ADD, SUB of 8 bytes */
		insn->value = VALUE_COPY;
		insn->src = (int8_t)src;
		insn->imm = (int64_t)field(w, 10, 12) << (field(w, 22, 1) ? 12 : 0);
		if (field(w, 30, 1))
			insn->imm = -insn->imm;
		if (field(w, 29, 1) && dst == 31)
			insn->dst = NO_REGISTER; /* CMP */
		insn->reads |= (uint64_t)1 << src;
	} else if ((w & 0x7f800000) == 0x52800000) { /* MOVZ */
		insn->value = VALUE_CONST;
		insn->imm = (int64_t)((uint64_t)field(w, 5, 16) << (16 * field(w, 21, 2)));
	} else {
		/* MOVK keeps a part of the old value. */
		insn->reads |= (w & 0x7f800000) == 0x72800000 ? bit_of(dst) : bit_of(src);
		if ((w & 0x1f800000) == 0x13800000)
			insn->reads |= bit_of(field(w, 16, 5));
		/* SUBS, ANDS with register 31 only compare. */
		if (dst == 31 && ((w & 0x3f800000) == 0x31000000 || (w & 0x7f800000) == 0x72000000))
			insn->dst = NO_REGISTER;
	}
}

/* Register 31 is none: zero. */
static int8_t register_of(unsigned number)
{
	return (int8_t)(number == 31 ? NO_REGISTER : (int)number);
}

static void arithmetic(struct insn *insn, uint32_t w)
{
	unsigned dst = field(w, 0, 5), src = field(w, 5, 5), src2 = field(w, 16, 5);

	insn->dst = register_of(dst);
	insn->reads |= bit_of(src) | bit_of(src2);
	if ((w & 0xffe0ffe0) == 0xaa0003e0) { /* MOV of 8 bytes */
		insn->value = VALUE_COPY;
		insn->src = (int8_t)src2;
		if (src2 == 31)
			insn->value = VALUE_CONST;
	} else if ((w & 0xff200000) == 0x8b000000 && !field(w, 22, 2) && src != 31 && src2 != 31) {
		insn->value = VALUE_SUM; /* ADD, with LSL */
		insn->src = (int8_t)src;
		insn->src2 = (int8_t)src2;
		insn->shift = (uint8_t)field(w, 10, 6);
	} else if ((w & 0xffe0e000) == 0x8b206000 && src2 != 31) {
		insn->value = VALUE_SUM; /* ADD, with UXTX */
		insn->src = (int8_t)src;
		insn->src2 = (int8_t)src2;
		insn->shift = (uint8_t)field(w, 10, 3);
		insn->reads |= (uint64_t)1 << src;
	} else if ((w & 0x1f000000) == 0x1b000000) {
		insn->reads |= bit_of(field(w, 10, 5)); /* MADD and its kin */
	}
}

static struct insn_memory *memory(struct insn *insn, uint32_t w, unsigned size)
{
	struct insn_memory *m = &insn->memory[0];

	insn->memory_count = 1;
	m->base = (int8_t)field(w, 5, 5);
	m->index = NO_REGISTER;
	m->size = (uint8_t)size;
	insn->reads |= (uint64_t)1 << m->base;
	return m;
}

static void loads(struct insn *insn, struct insn_memory *m, uint32_t w, bool vector)
{
	m->read = true;
	if (vector)
		return;
	insn->value = VALUE_LOAD;
	insn->dst = register_of(field(w, 0, 5));
}

static void stores(struct insn *insn, struct insn_memory *m, uint32_t w, bool vector)
{
	unsigned reg = field(w, 0, 5);

	m->written = true;
	insn->kind |= INSN_STORE;
	if (vector)
		return;
	insn->reads |= bit_of(reg);
	insn->stored = register_of(reg);
	insn->stores_const = reg == 31; /* imm is 0 */
}

static void accesses(struct insn *insn, struct insn_memory *m, uint32_t w, bool load, bool vector)
{
	if (load)
		loads(insn, m, w, vector);
	else
		stores(insn, m, w, vector);
}

/* Exclusive and ordered: LDXR, STXR, LDAR, STLR, CAS. */
static void exclusive(struct insn *insn, uint32_t w)
{
	bool ordered = field(w, 23, 1), load = field(w, 22, 1);
	struct insn_memory *m = memory(insn, w, 1u << field(w, 30, 2));

	if (ordered && !field(w, 21, 1)) {
		accesses(insn, m, w, load, false);
		return;
	}
	insn->kind |= INSN_ATOMIC | INSN_STORE;
	m->read = ordered || load;
	m->written = ordered || !load;
	insn->writes |= bit_of(field(w, 0, 5)) | bit_of(field(w, 16, 5)) | bit_of(field(w, 10, 5));
	insn->kind &= ~(uint32_t)(m->written ? 0 : INSN_STORE);
}

static void pair(struct insn *insn, uint32_t w)
{
	bool vector = field(w, 26, 1);
	unsigned opc = field(w, 30, 2), mode = field(w, 23, 2);
	unsigned each = vector ? 4u << opc : opc == 2 ? 8 : 4;
	struct insn_memory *m = memory(insn, w, 2 * each);
	int64_t offset = signed_field(w, 15, 7) * each;

	if (mode != 1)
		m->offset = offset;
	if (mode == 1 || mode == 3)
		insn->writeback = offset;
	accesses(insn, m, w, field(w, 22, 1), true);
	if (!vector)
		*(field(w, 22, 1) ? &insn->writes : &insn->reads) |= bit_of(field(w, 0, 5)) |
								     bit_of(field(w, 10, 5));
}

/* Atomic operations on memory (LDADD to SWP), and LDAPR among them. */
static void atomic(struct insn *insn, struct insn_memory *m, uint32_t w)
{
	if ((w & 0x3ffffc00) == 0x38bfc000) {
		loads(insn, m, w, false);
		return;
	}
	insn->kind |= INSN_ATOMIC | INSN_STORE;
	m->read = m->written = true;
	insn->reads |= bit_of(field(w, 16, 5));
	insn->writes |= bit_of(field(w, 0, 5));
}

static void single(struct insn *insn, uint32_t w)
{
	bool vector = field(w, 26, 1), by_unit = field(w, 24, 1);
	unsigned opc = field(w, 22, 2), mode = field(w, 10, 2);
	unsigned log = vector && opc >= 2 ? 4 : field(w, 30, 2);
	struct insn_memory *m = memory(insn, w, 1u << log);

	if (by_unit) {
		m->offset = (int64_t)field(w, 10, 12) << log;
	} else if (field(w, 21, 1)) {
		if (mode != 2) {
			atomic(insn, m, w);
			return;
		}
		m->index = (int8_t)field(w, 16, 5);
		m->shift = (uint8_t)(field(w, 12, 1) ? log : 0);
		insn->reads |= bit_of(field(w, 16, 5));
		if (m->index == 31)
			m->index = NO_REGISTER;
	} else {
		if (mode != 1)
			m->offset = signed_field(w, 12, 9);
		if (mode == 1 || mode == 3)
			insn->writeback = signed_field(w, 12, 9);
	}
	if (!vector && field(w, 30, 2) == 3 && opc == 2) {
		insn->memory_count = 0; /* PRFM */
		return;
	}
	accesses(insn, m, w, vector ? opc & 1 : opc != 0, vector);
}

static void literal(struct insn *insn, uint32_t w)
{
	struct insn_memory *m = &insn->memory[0];

	insn->memory_count = 1;
	m->base = m->index = NO_REGISTER;
	m->size = field(w, 30, 2) == 1 ? 8 : 4;
	m->offset = (int64_t)(insn->address + (uint64_t)(signed_field(w, 5, 19) * 4));
	loads(insn, m, w, field(w, 26, 1));
}

static void memory_access(struct insn *insn, uint32_t w)
{
	if ((w & 0x3f000000) == 0x08000000) {
		exclusive(insn, w);
	} else if ((w & 0x3b000000) == 0x18000000) {
		literal(insn, w);
	} else if ((w & 0x3a000000) == 0x28000000) {
		pair(insn, w);
	} else if ((w & 0x3a000000) == 0x38000000) {
		single(insn, w);
	} else if ((w & 0xbe000000) == 0x0c000000) {
		/* Several vectors. */
		accesses(insn, memory(insn, w, 0), w, field(w, 22, 1), true);
		if (field(w, 23, 1))
			insn->writes |= bit_of(field(w, 5, 5));
	} else if ((w & 0x3f200c00) == 0x19000000) {
		/* LDAPUR, STLUR. */
		struct insn_memory *m = memory(insn, w, 1u << field(w, 30, 2));

		m->offset = signed_field(w, 12, 9);
		accesses(insn, m, w, field(w, 22, 2), false);
	}
}

void insn_aarch64(struct insn *insn, uint32_t word)
{
	unsigned group = field(word, 25, 4);

	insn->size = 4;
	if (word >> 16 == 0)
		insn->kind |= INSN_TRAP | INSN_ENDS; /* UDF */
	else if (group == 8 || group == 9)
		immediate(insn, word);
	else if (group == 10 || group == 11)
		branches(insn, word);
	else if ((group & 5) == 4)
		memory_access(insn, word);
	else if ((group & 7) == 5)
		arithmetic(insn, word);
	/* Vectors write no general register but by FMOV, UMOV and conversions. */
	else if ((group & 7) == 7)
		insn->writes |= bit_of(field(word, 0, 5));
	if (insn->dst != NO_REGISTER)
		insn->writes |= (uint64_t)1 << insn->dst;
	if (insn->writeback)
		insn->writes |= (uint64_t)1 << insn->memory[0].base; /* NOLINT: it has one */
}
