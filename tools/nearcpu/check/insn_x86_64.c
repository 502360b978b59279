/* SPDX-License-Identifier: MIT */
/* x86_64, by capstone; and two instructions that capstone 4 does not know. */
#include "check/decode.h"

#include <stdio.h>

/* General registers by the numbers of the instruction encoding; -1 for all others. */
static int number_of(unsigned reg)
{
	static const int8_t numbers[X86_REG_ENDING] = {
#define SET(n, a, b, c, d)                                                                         \
	[X86_REG_##a] = (n) + 1, [X86_REG_##b] = (n) + 1, [X86_REG_##c] = (n) + 1,                 \
	[X86_REG_##d] = (n) + 1
		SET(0, RAX, EAX, AX, AL),
		SET(1, RCX, ECX, CX, CL),
		SET(2, RDX, EDX, DX, DL),
		SET(3, RBX, EBX, BX, BL),
		SET(4, RSP, ESP, SP, SPL),
		SET(5, RBP, EBP, BP, BPL),
		SET(6, RSI, ESI, SI, SIL),
		SET(7, RDI, EDI, DI, DIL),
		SET(8, R8, R8D, R8W, R8B),
		SET(9, R9, R9D, R9W, R9B),
		SET(10, R10, R10D, R10W, R10B),
		SET(11, R11, R11D, R11W, R11B),
		SET(12, R12, R12D, R12W, R12B),
		SET(13, R13, R13D, R13W, R13B),
		SET(14, R14, R14D, R14W, R14B),
		SET(15, R15, R15D, R15W, R15B),
		[X86_REG_AH] = 1,
		[X86_REG_CH] = 2,
		[X86_REG_DH] = 3,
		[X86_REG_BH] = 4,
	};
#undef SET
	return reg < X86_REG_ENDING ? numbers[reg] - 1 : NO_REGISTER;
}

#define STACK 4

static bool is_general(const cs_x86_op *op)
{
	return op->type == X86_OP_REG && number_of(op->reg) != NO_REGISTER;
}

#define IS_ONE_OF(id, ...) is_one_of(id, (const unsigned[]){__VA_ARGS__, X86_INS_INVALID})

static bool is_one_of(unsigned id, const unsigned *ids)
{
	while (*ids != X86_INS_INVALID && *ids != id)
		ids++;
	return *ids != X86_INS_INVALID;
}

/* Capstone 4 has no record of what some instructions do with their first operand. */
static bool only_reads_first(unsigned id)
{
	return IS_ONE_OF(id, X86_INS_CMP, X86_INS_TEST, X86_INS_BT, X86_INS_PUSH, X86_INS_JMP,
			 X86_INS_CALL, X86_INS_MUL, X86_INS_IMUL, X86_INS_DIV, X86_INS_IDIV,
			 X86_INS_PREFETCH, X86_INS_PREFETCHW, X86_INS_PREFETCHNTA,
			 X86_INS_PREFETCHT0, X86_INS_PREFETCHT1, X86_INS_PREFETCHT2,
			 X86_INS_CLFLUSH, X86_INS_NOP);
}

/* Capstone 4 takes most stores of vectors and of the x87 for loads. */
static bool writes_first(const cs_insn *from)
{
	const cs_x86 *x = &from->detail->x86;

	return IS_ONE_OF(from->id, X86_INS_CMPXCHG8B, X86_INS_CMPXCHG16B, X86_INS_FST, X86_INS_FSTP,
			 X86_INS_FIST, X86_INS_FISTP, X86_INS_STMXCSR) ||
	       (x->op_count > 1 && x->operands[1].type == X86_OP_REG &&
		!only_reads_first(from->id));
}

/* The parts of an address. */
static void address_of(const struct insn *insn, const x86_op_mem *from, struct insn_memory *m)
{
	m->base = (int8_t)number_of(from->base);
	m->index = (int8_t)number_of(from->index);
	m->shift = (uint8_t)__builtin_ctz((unsigned)from->scale | 8);
	m->offset = from->disp;
	if (from->base == X86_REG_RIP)
		m->offset = (int64_t)(insn->address + insn->size + (uint64_t)from->disp);
}

static void add_memory(struct insn *insn, const cs_insn *from, const cs_x86_op *op, bool first)
{
	struct insn_memory *m = &insn->memory[insn->memory_count];
	bool writes = op->access & CS_AC_WRITE, reads = op->access & CS_AC_READ;

	if (insn->memory_count == 2 || from->id == X86_INS_LEA || from->id == X86_INS_NOP)
		return;
	if (!op->access) {
		writes = first && !only_reads_first(from->id);
		reads = !writes;
	} else if (first && only_reads_first(from->id)) {
		writes = false;
	} else if (first && !writes && writes_first(from)) {
		writes = true;
		reads = IS_ONE_OF(from->id, X86_INS_CMPXCHG, X86_INS_CMPXCHG8B, X86_INS_CMPXCHG16B);
	}
	insn->memory_count++;
	m->is_thread = op->mem.segment == X86_REG_FS;
	address_of(insn, &op->mem, m);
	m->size = op->size;
	m->read = reads;
	m->written = writes;
	insn->kind |= writes ? INSN_STORE : 0;
}

/* Capstone does not count the loop instructions as jumps. */
static bool is_jump(const struct decoder *d, const cs_insn *from)
{
	return cs_insn_group(d->capstone, from, CS_GRP_JUMP) ||
	       IS_ONE_OF(from->id, X86_INS_LOOP, X86_INS_LOOPE, X86_INS_LOOPNE);
}

static void classify(struct decoder *d, struct insn *insn, const cs_insn *from)
{
	const cs_x86 *x = &from->detail->x86;
	bool direct = x->op_count == 1 && x->operands[0].type == X86_OP_IMM;
	uint32_t ends = from->id == X86_INS_JMP || from->id == X86_INS_LJMP ? INSN_ENDS : 0;

	if (from->id == X86_INS_CALL || from->id == X86_INS_LCALL)
		insn->kind |= INSN_CALL | (direct ? INSN_BRANCH : 0);
	else if (is_jump(d, from))
		insn->kind |= direct ? INSN_BRANCH | ends : INSN_INDIRECT | INSN_ENDS;
	else if (cs_insn_group(d->capstone, from, CS_GRP_RET) ||
		 cs_insn_group(d->capstone, from, CS_GRP_IRET))
		insn->kind |= INSN_INDIRECT | INSN_ENDS | INSN_RETURNS;
	if (insn->kind & INSN_BRANCH)
		insn->target = (uint64_t)x->operands[0].imm;
	if (IS_ONE_OF(from->id, X86_INS_SYSCALL, X86_INS_SYSENTER, X86_INS_INT))
		insn->kind |= INSN_SYSCALL;
	else if (IS_ONE_OF(from->id, X86_INS_INT1, X86_INS_INT3, X86_INS_UD0, X86_INS_UD2,
			   X86_INS_UD2B, X86_INS_HLT))
		insn->kind |= INSN_TRAP;
	else if (IS_ONE_OF(from->id, X86_INS_RDTSCP, X86_INS_LSL))
		insn->kind |= INSN_READS_CPU;
	if (x->prefix[0] == X86_PREFIX_LOCK || (from->id == X86_INS_XCHG && insn->memory_count))
		insn->kind |= INSN_ATOMIC;
}

static void lea(struct insn *insn, const cs_x86 *x)
{
	struct insn_memory m;

	address_of(insn, &x->operands[1].mem, &m);
	insn->src = m.base;
	insn->src2 = m.index;
	insn->shift = m.shift;
	insn->imm = m.offset;
	if (insn->src2 != NO_REGISTER)
		insn->value = VALUE_SUM;
	else if (insn->src != NO_REGISTER)
		insn->value = VALUE_COPY;
	else
		insn->value = VALUE_CONST;
}

static void add_value(struct insn *insn, const cs_x86_op *from, int sign)
{
	if (from->type == X86_OP_IMM) {
		insn->value = VALUE_COPY;
		insn->src = insn->dst;
		insn->imm = sign * from->imm;
	} else if (is_general(from) && sign > 0) {
		insn->value = VALUE_SUM;
		insn->src = insn->dst;
		insn->src2 = (int8_t)number_of(from->reg);
	}
}

/* The few ways in which addresses are made. */
static void value_of(struct insn *insn, const cs_insn *from)
{
	const cs_x86 *x = &from->detail->x86;
	const cs_x86_op *to = &x->operands[0], *second = &x->operands[1];
	bool wide = to->size == 8;

	if (x->op_count != 2 || !is_general(to))
		return;
	insn->dst = (int8_t)number_of(to->reg);
	if (from->id == X86_INS_LEA && wide) {
		lea(insn, x);
	} else if ((from->id == X86_INS_MOV || from->id == X86_INS_MOVABS) &&
		   second->type == X86_OP_IMM) {
		insn->value = VALUE_CONST;
		insn->imm = second->imm;
	} else if (from->id == X86_INS_MOV && wide && is_general(second)) {
		insn->value = VALUE_COPY;
		insn->src = (int8_t)number_of(second->reg);
	} else if ((from->id == X86_INS_MOV || from->id == X86_INS_MOVZX ||
		    from->id == X86_INS_MOVSX || from->id == X86_INS_MOVSXD) &&
		   second->type == X86_OP_MEM && to->size >= 4) {
		insn->value = VALUE_LOAD;
	} else if (from->id == X86_INS_ADD && wide) {
		add_value(insn, second, 1);
	} else if (from->id == X86_INS_SUB && wide) {
		add_value(insn, second, -1);
	} else if (from->id == X86_INS_XOR && is_general(second) && second->reg == to->reg) {
		insn->value = VALUE_CONST;
	}
	if (insn->value == VALUE_OTHER)
		insn->dst = NO_REGISTER; /* `writes` has it */
}

/* push and pop move the stack pointer by what they store or load. */
static void stack(struct insn *insn, const cs_insn *from)
{
	const cs_x86_op *op = &from->detail->x86.operands[0];
	struct insn_memory m = {false, STACK, NO_REGISTER, 0, 8, false, true, -8};

	if (from->detail->x86.op_count != 1 || op->type == X86_OP_MEM || op->size != 8)
		return;
	if (from->id == X86_INS_PUSH) {
		insn->kind |= INSN_STORE;
		insn->stored = (int8_t)(is_general(op) ? number_of(op->reg) : NO_REGISTER);
	} else if (from->id == X86_INS_POP) {
		m.read = true;
		m.written = false;
		m.offset = 0;
		insn->value = VALUE_LOAD;
		insn->dst = (int8_t)number_of(op->reg);
	} else {
		return;
	}
	insn->writeback = m.read ? 8 : -8;
	insn->memory[insn->memory_count++] = m;
}

static void stored_value(struct insn *insn, const cs_insn *from)
{
	const cs_x86 *x = &from->detail->x86;

	if (from->id != X86_INS_MOV || x->op_count != 2 || x->operands[0].type != X86_OP_MEM)
		return;
	if (x->operands[1].type == X86_OP_IMM) {
		insn->stores_const = true;
		insn->imm = x->operands[1].imm;
	} else if (is_general(&x->operands[1])) {
		insn->stored = (int8_t)number_of(x->operands[1].reg);
	}
}

static void registers(struct decoder *d, struct insn *insn, const cs_insn *from)
{
	cs_regs read, written;
	uint8_t read_count = 0, written_count = 0;

	if (cs_regs_access(d->capstone, from, read, &read_count, written, &written_count))
		return;
	for (unsigned i = 0; i < read_count; i++)
		if (number_of(read[i]) != NO_REGISTER)
			insn->reads |= (uint64_t)1 << number_of(read[i]);
	for (unsigned i = 0; i < written_count; i++)
		if (number_of(written[i]) != NO_REGISTER)
			insn->writes |= (uint64_t)1 << number_of(written[i]);
}

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

/* What capstone does not know: ud1 and rdpid. False if it is neither. */
static bool by_hand(struct insn *insn, const uint8_t *code, size_t left)
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

bool insn_x86_64(struct decoder *d, struct insn *insn, const uint8_t *code, size_t left,
		 bool with_text)
{
	size_t size = left < 16 ? left : 16;
	uint64_t address = insn->address;
	const uint8_t *at = code;
	const cs_x86 *x;

	if (by_hand(insn, code, left))
		return true;
	if (!cs_disasm_iter(d->capstone, &at, &size, &address, d->room))
		return false;
	insn->size = (uint8_t)d->room->size;
	x = &d->room->detail->x86;
	for (unsigned i = 0; i < x->op_count; i++)
		if (x->operands[i].type == X86_OP_MEM)
			add_memory(insn, d->room, &x->operands[i], i == 0);
	classify(d, insn, d->room);
	value_of(insn, d->room);
	stored_value(insn, d->room);
	stack(insn, d->room);
	registers(d, insn, d->room);
	if (with_text)
		disassembled(insn, d->room);
	return true;
}
