/* SPDX-License-Identifier: MIT */
/* insn: one instruction, of any CPU, as far as the checks need to know it. */
#ifndef NEARCPU_CHECK_INSN_H
#define NEARCPU_CHECK_INSN_H

#include "check/image.h"

/* What an instruction is. */
enum {
	INSN_BRANCH = 1 << 0,   /* direct, to `target`; conditional unless INSN_ENDS is set too */
	INSN_ENDS = 1 << 1,     /* the next instruction does not follow */
	INSN_INDIRECT = 1 << 2, /* a branch or return to an address in a register or memory */
	INSN_CALL = 1 << 3,     /* to `target` if INSN_BRANCH is set too, else to src + imm */
	INSN_SYSCALL = 1 << 4,
	INSN_TRAP = 1 << 5,
	INSN_ATOMIC = 1 << 6,
	INSN_STORE = 1 << 7,
	INSN_READS_CPU = 1 << 8, /* returns the CPU without rseq: rdtscp, rdpid, lsl */
	INSN_RETURNS = 1 << 9,   /* INSN_INDIRECT that returns from a function */
};

/* How the register `dst` gets its value. */
enum insn_value {
	VALUE_OTHER,  /* from all that is read, nobody knows how */
	VALUE_CONST,  /* imm */
	VALUE_COPY,   /* src + imm */
	VALUE_SUM,    /* src + (src2 << shift) + imm */
	VALUE_LOAD,   /* memory, all 8 bytes of it or fewer */
	VALUE_THREAD, /* the thread pointer + imm */
};

/* Registers are numbers below 64; what is not a general register is not tracked. */
#define NO_REGISTER (-1)
#define REGISTERS 64

/* thread + base + (index << shift) + offset, each part optional; or an address in `offset`. */
struct insn_memory {
	bool is_thread;
	int8_t base, index;
	uint8_t shift;
	uint8_t size; /* bytes, 0 if unknown */
	bool read, written;
	int64_t offset;
};

struct insn {
	uint64_t address;
	uint64_t target;
	uint32_t kind;
	uint8_t size; /* bytes of code */
	uint8_t memory_count;
	struct insn_memory memory[2];
	enum insn_value value;
	int8_t dst, src, src2;
	uint8_t shift;
	/* What a store writes: register `stored`, or the constant `imm` if that is NO_REGISTER and
	 * `stores_const` is set. */
	int8_t stored;
	bool stores_const;
	int64_t imm;
	int64_t writeback;      /* added to the base of memory[0], if `dst` is not it */
	uint64_t reads, writes; /* sets of registers */
	char text[200];
};

struct decoder;

/* NULL if the disassembler does not serve this CPU. */
struct decoder *decoder_open(const struct image *image);
void decoder_close(struct decoder *d);

/* Each decoding, and what else a hostile file can make long, costs one of a number. False if
 * nothing is left: all that follows then finds nothing, and the file is given up. */
bool decoder_spend(struct decoder *d);
bool decoder_is_spent(const struct decoder *d);

/* Decodes the instruction at an address. False if there is none. Without `with_text` the text is
 * empty. */
bool decode(struct decoder *d, uint64_t address, struct insn *insn, bool with_text);

/* The same with the bytes at the address given, which costs nothing; not for x86_64. */
bool decode_bytes(struct decoder *d, uint64_t address, const uint8_t *code, size_t left,
		  struct insn *insn, bool with_text);

/* `count` bits of an instruction word. */
static inline unsigned field(uint32_t word, int from, int count)
{
	return word >> from & ((1u << count) - 1);
}

#endif
