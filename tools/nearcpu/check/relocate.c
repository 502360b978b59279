/* SPDX-License-Identifier: MIT */
/* Relocations of relocatable objects, by CPU. */
#include "check/relocate.h"

#include <string.h>

static void put(struct image *image, uint64_t place, uint64_t value, size_t size)
{
	image_write(image, place, &value, size);
}

/* Replaces the bits of `mask` in a word of code. */
static void patch(struct image *image, uint64_t place, uint32_t mask, uint64_t bits, size_t size)
{
	uint32_t word = 0;

	if (!image_read(image, place, &word, size))
		return;
	word = (word & ~mask) | ((uint32_t)bits & mask);
	image_write(image, place, &word, size);
}

/* How a place is filled. The symbol's value, or the address of its slot in the GOT. */
enum how {
	WORD,         /* the value, in `param` bytes */
	DISTANCE,     /* from the place, in `param` bytes */
	GOT_DISTANCE, /* 4 bytes; the addend is the distance to the next instruction */
	PAGE,
	GOT_PAGE, /* ADRP */
	OFFSET,
	GOT_OFFSET,  /* the low 12 bits, in units of 1 << param */
	HIGH_OFFSET, /* the next 12 bits */
	BRANCH,      /* a distance in words: `param` bits of it, from bit `at` on */
};

struct kind {
	uint32_t type;
	enum how how;
	uint8_t param, at;
};

static void put_adrp(struct image *image, const struct relocation *r, uint64_t target)
{
	uint64_t pages = (target >> 12) - (r->place >> 12);

	patch(image, r->place, 0x60ffffe0, (pages & 3) << 29 | (pages >> 2 & 0x7ffff) << 5, 4);
}

static void put_offset(struct image *image, const struct relocation *r, uint64_t value, int shift)
{
	patch(image, r->place, 0xfff << 10, (value & 0xfff) >> shift << 10, 4);
}

static void fill(struct image *image, const struct relocation *r, const struct kind *k)
{
	uint64_t distance = r->value - r->place;

	switch (k->how) {
	case WORD:
		put(image, r->place, r->value, k->param);
		break;
	case DISTANCE:
		put(image, r->place, distance, k->param);
		break;
	case GOT_DISTANCE:
		put(image, r->place, r->slot - 4 - r->place, 4);
		break;
	case PAGE:
	case GOT_PAGE:
		put_adrp(image, r, k->how == PAGE ? r->value : r->slot);
		break;
	case OFFSET:
	case GOT_OFFSET:
		put_offset(image, r, k->how == OFFSET ? r->value : r->slot, k->param);
		break;
	case HIGH_OFFSET:
		put_offset(image, r, r->value >> 12, 0);
		break;
	case BRANCH:
		patch(image, r->place, ((1u << k->param) - 1) << k->at, distance >> 2 << k->at, 4);
		break;
	}
}

static void fill_by(struct image *image, const struct relocation *r, const struct kind *kinds)
{
	for (; kinds->type; kinds++)
		if (kinds->type == r->type)
			fill(image, r, kinds);
}

void relocate_x86_64(struct image *image, const struct relocation *r)
{
	static const struct kind kinds[] = {
		{R_X86_64_64, WORD, 8, 0},
		{R_X86_64_PC64, DISTANCE, 8, 0},
		{R_X86_64_32, WORD, 4, 0},
		{R_X86_64_32S, WORD, 4, 0},
		{R_X86_64_TPOFF32, WORD, 4, 0},
		{R_X86_64_PC32, DISTANCE, 4, 0},
		{R_X86_64_PLT32, DISTANCE, 4, 0},
		{R_X86_64_PC8, DISTANCE, 1, 0},
		{R_X86_64_GOTPCREL, GOT_DISTANCE, 0, 0},
		{R_X86_64_GOTPCRELX, GOT_DISTANCE, 0, 0},
		{R_X86_64_REX_GOTPCRELX, GOT_DISTANCE, 0, 0},
		{R_X86_64_GOTTPOFF, GOT_DISTANCE, 0, 0},
		{0, 0, 0, 0},
	};

	fill_by(image, r, kinds);
}

void relocate_aarch64(struct image *image, const struct relocation *r)
{
	static const struct kind kinds[] = {
		{R_AARCH64_ABS64, WORD, 8, 0},
		{R_AARCH64_PREL32, DISTANCE, 4, 0},
		{R_AARCH64_ADR_PREL_PG_HI21, PAGE, 0, 0},
		{R_AARCH64_ADR_PREL_PG_HI21_NC, PAGE, 0, 0},
		{R_AARCH64_ADR_GOT_PAGE, GOT_PAGE, 0, 0},
		{R_AARCH64_TLSIE_ADR_GOTTPREL_PAGE21, GOT_PAGE, 0, 0},
		{R_AARCH64_JUMP26, BRANCH, 26, 0},
		{R_AARCH64_CALL26, BRANCH, 26, 0},
		{R_AARCH64_CONDBR19, BRANCH, 19, 5},
		{R_AARCH64_TSTBR14, BRANCH, 14, 5},
		{R_AARCH64_ADD_ABS_LO12_NC, OFFSET, 0, 0},
		{R_AARCH64_LDST8_ABS_LO12_NC, OFFSET, 0, 0},
		{R_AARCH64_TLSLE_ADD_TPREL_LO12, OFFSET, 0, 0},
		{R_AARCH64_TLSLE_ADD_TPREL_LO12_NC, OFFSET, 0, 0},
		{R_AARCH64_LDST16_ABS_LO12_NC, OFFSET, 1, 0},
		{R_AARCH64_LDST32_ABS_LO12_NC, OFFSET, 2, 0},
		{R_AARCH64_LDST64_ABS_LO12_NC, OFFSET, 3, 0},
		{R_AARCH64_LD64_GOT_LO12_NC, GOT_OFFSET, 3, 0},
		{R_AARCH64_TLSIE_LD64_GOTTPREL_LO12_NC, GOT_OFFSET, 3, 0},
		{R_AARCH64_TLSLE_ADD_TPREL_HI12, HIGH_OFFSET, 0, 0},
		{0, 0, 0, 0},
	};

	fill_by(image, r, kinds);
}

static uint64_t bits(uint64_t value, int from, int count, int to)
{
	return (value >> from & ((1u << count) - 1)) << to;
}

static void put_low(struct image *image, uint64_t place, uint64_t value, bool store)
{
	if (store)
		patch(image, place, 0xfe000f80, bits(value, 0, 5, 7) | bits(value, 5, 7, 25), 4);
	else
		patch(image, place, 0xfff00000, bits(value, 0, 12, 20), 4);
}

static void put_high(struct image *image, uint64_t place, uint64_t value)
{
	patch(image, place, 0xfffff000, value + 0x800, 4);
}

static void add(struct image *image, const struct relocation *r, size_t size, bool negative)
{
	uint64_t word = 0;

	if (image_read(image, r->place, &word, size))
		put(image, r->place, negative ? word - r->value : word + r->value, size);
}

static void relocate_riscv64_branch(struct image *image, const struct relocation *r)
{
	uint64_t d = r->value - r->place;

	switch (r->type) {
	case R_RISCV_BRANCH:
		patch(image, r->place, 0xfe000f80,
		      bits(d, 11, 1, 7) | bits(d, 1, 4, 8) | bits(d, 5, 6, 25) | bits(d, 12, 1, 31),
		      4);
		break;
	case R_RISCV_JAL:
		patch(image, r->place, 0xfffff000,
		      bits(d, 12, 8, 12) | bits(d, 11, 1, 20) | bits(d, 1, 10, 21) |
			      bits(d, 20, 1, 31),
		      4);
		break;
	case R_RISCV_RVC_BRANCH:
		patch(image, r->place, 0x1c7c,
		      bits(d, 5, 1, 2) | bits(d, 1, 2, 3) | bits(d, 6, 2, 5) | bits(d, 3, 2, 10) |
			      bits(d, 8, 1, 12),
		      2);
		break;
	case R_RISCV_RVC_JUMP:
		patch(image, r->place, 0x1ffc,
		      bits(d, 5, 1, 2) | bits(d, 1, 3, 3) | bits(d, 7, 1, 6) | bits(d, 6, 1, 7) |
			      bits(d, 10, 1, 8) | bits(d, 8, 2, 9) | bits(d, 4, 1, 11) |
			      bits(d, 11, 1, 12),
		      2);
		break;
	default:
		break;
	}
}

bool relocate_is_high(uint32_t type, bool *by_slot)
{
	*by_slot = type == R_RISCV_GOT_HI20 || type == R_RISCV_TLS_GOT_HI20;
	return *by_slot || type == R_RISCV_PCREL_HI20;
}

bool relocate_is_low(uint32_t type)
{
	return type == R_RISCV_PCREL_LO12_I || type == R_RISCV_PCREL_LO12_S;
}

static void relocate_riscv64_address(struct image *image, const struct relocation *r)
{
	switch (r->type) {
	case R_RISCV_CALL:
	case R_RISCV_CALL_PLT:
		put_high(image, r->place, r->value - r->place);
		put_low(image, r->place + 4, r->value - r->place, false);
		break;
	case R_RISCV_HI20:
	case R_RISCV_TPREL_HI20:
		put_high(image, r->place, r->value);
		break;
	case R_RISCV_LO12_I:
	case R_RISCV_TPREL_LO12_I:
		put_low(image, r->place, r->value, false);
		break;
	case R_RISCV_LO12_S:
	case R_RISCV_TPREL_LO12_S:
		put_low(image, r->place, r->value, true);
		break;
	default:
		relocate_riscv64_branch(image, r);
	}
}

void relocate_riscv64(struct image *image, const struct relocation *r)
{
	bool by_slot;

	if (relocate_is_high(r->type, &by_slot)) {
		put_high(image, r->place, (by_slot ? r->slot : r->value) - r->place);
		return;
	}
	switch (r->type) {
	case R_RISCV_PCREL_LO12_I:
	case R_RISCV_PCREL_LO12_S:
		put_low(image, r->place, r->high_value - r->high_place,
			r->type == R_RISCV_PCREL_LO12_S);
		break;
	case R_RISCV_64:
		put(image, r->place, r->value, 8);
		break;
	case R_RISCV_ADD64:
	case R_RISCV_SUB64:
		add(image, r, 8, r->type == R_RISCV_SUB64);
		break;
	case R_RISCV_ADD32:
	case R_RISCV_SUB32:
		add(image, r, 4, r->type == R_RISCV_SUB32);
		break;
	default:
		relocate_riscv64_address(image, r);
	}
}
