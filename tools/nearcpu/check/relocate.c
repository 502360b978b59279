/* SPDX-License-Identifier: MIT */
/* Relocations of relocatable objects, by CPU. */
#include "check/load.h"
#include "check/scatter.h"

/* Which number fills a place: symbol + addend, changed by these. */
enum {
	VALUE = 0,
	SLOT = 1 << 0,     /* the address of the symbol's slot in the GOT instead */
	DISTANCE = 1 << 1, /* from the place */
	NEXT = 1 << 2,     /* and from the instruction behind it: 4 less */
	PAGES = 1 << 3,    /* the distance in pages */
	OFFSET = 1 << 4,   /* the low 12 bits */
	ROUND = 1 << 5,    /* so that a signed low part of 12 bits completes the high one */
	LOW_PART = 1 << 6, /* the distance that the high part was made of */
	ADD = 1 << 7,      /* to what the place has */
	SUBTRACT = 1 << 8,
};

struct kind {
	uint32_t type;
	uint16_t number;
	uint8_t size;  /* of the word that is changed */
	uint8_t after; /* its distance from the place */
	struct bits bits[MOST_BITS];
};

/* clang-format off */
#define ALL {{0, 64, 0}}
#define PAGE_BITS {{0, 2, 29}, {2, 19, 5}}
#define OFFSET_BITS(shift) {{shift, 12, 10}}
#define HIGH {{12, 20, 12}}
#define LOW {{0, 12, 20}}
#define LOW_STORE {{0, 5, 7}, {5, 7, 25}}

static const struct kind kinds_x86_64[] = {
	{R_X86_64_64, VALUE, 8, 0, ALL},
	{R_X86_64_PC64, DISTANCE, 8, 0, ALL},
	{R_X86_64_32, VALUE, 4, 0, ALL},
	{R_X86_64_32S, VALUE, 4, 0, ALL},
	{R_X86_64_TPOFF32, VALUE, 4, 0, ALL},
	{R_X86_64_PC32, DISTANCE, 4, 0, ALL},
	{R_X86_64_PLT32, DISTANCE, 4, 0, ALL},
	{R_X86_64_PC8, DISTANCE, 1, 0, ALL},
	{R_X86_64_GOTPCREL, SLOT | DISTANCE | NEXT, 4, 0, ALL},
	{R_X86_64_GOTPCRELX, SLOT | DISTANCE | NEXT, 4, 0, ALL},
	{R_X86_64_REX_GOTPCRELX, SLOT | DISTANCE | NEXT, 4, 0, ALL},
	{R_X86_64_GOTTPOFF, SLOT | DISTANCE | NEXT, 4, 0, ALL},
	{0, 0, 0, 0, ALL},
};

static const struct kind kinds_aarch64[] = {
	{R_AARCH64_ABS64, VALUE, 8, 0, ALL},
	{R_AARCH64_PREL32, DISTANCE, 4, 0, ALL},
	{R_AARCH64_ADR_PREL_PG_HI21, PAGES, 4, 0, PAGE_BITS},
	{R_AARCH64_ADR_PREL_PG_HI21_NC, PAGES, 4, 0, PAGE_BITS},
	{R_AARCH64_ADR_GOT_PAGE, SLOT | PAGES, 4, 0, PAGE_BITS},
	{R_AARCH64_TLSIE_ADR_GOTTPREL_PAGE21, SLOT | PAGES, 4, 0, PAGE_BITS},
	{R_AARCH64_JUMP26, DISTANCE, 4, 0, {{2, 26, 0}}},
	{R_AARCH64_CALL26, DISTANCE, 4, 0, {{2, 26, 0}}},
	{R_AARCH64_CONDBR19, DISTANCE, 4, 0, {{2, 19, 5}}},
	{R_AARCH64_TSTBR14, DISTANCE, 4, 0, {{2, 14, 5}}},
	{R_AARCH64_ADD_ABS_LO12_NC, OFFSET, 4, 0, OFFSET_BITS(0)},
	{R_AARCH64_LDST8_ABS_LO12_NC, OFFSET, 4, 0, OFFSET_BITS(0)},
	{R_AARCH64_TLSLE_ADD_TPREL_LO12, OFFSET, 4, 0, OFFSET_BITS(0)},
	{R_AARCH64_TLSLE_ADD_TPREL_LO12_NC, OFFSET, 4, 0, OFFSET_BITS(0)},
	{R_AARCH64_LDST16_ABS_LO12_NC, OFFSET, 4, 0, OFFSET_BITS(1)},
	{R_AARCH64_LDST32_ABS_LO12_NC, OFFSET, 4, 0, OFFSET_BITS(2)},
	{R_AARCH64_LDST64_ABS_LO12_NC, OFFSET, 4, 0, OFFSET_BITS(3)},
	{R_AARCH64_LD64_GOT_LO12_NC, SLOT | OFFSET, 4, 0, OFFSET_BITS(3)},
	{R_AARCH64_TLSIE_LD64_GOTTPREL_LO12_NC, SLOT | OFFSET, 4, 0, OFFSET_BITS(3)},
	{R_AARCH64_TLSLE_ADD_TPREL_HI12, VALUE, 4, 0, OFFSET_BITS(12)},
	{0, 0, 0, 0, ALL},
};

static const struct kind kinds_riscv64[] = {
	{R_RISCV_64, VALUE, 8, 0, ALL},
	{R_RISCV_ADD64, ADD, 8, 0, ALL},
	{R_RISCV_SUB64, SUBTRACT, 8, 0, ALL},
	{R_RISCV_ADD32, ADD, 4, 0, ALL},
	{R_RISCV_SUB32, SUBTRACT, 4, 0, ALL},
	{R_RISCV_PCREL_HI20, DISTANCE | ROUND, 4, 0, HIGH},
	{R_RISCV_GOT_HI20, SLOT | DISTANCE | ROUND, 4, 0, HIGH},
	{R_RISCV_TLS_GOT_HI20, SLOT | DISTANCE | ROUND, 4, 0, HIGH},
	{R_RISCV_PCREL_LO12_I, LOW_PART, 4, 0, LOW},
	{R_RISCV_PCREL_LO12_S, LOW_PART, 4, 0, LOW_STORE},
	{R_RISCV_CALL, DISTANCE | ROUND, 4, 0, HIGH},
	{R_RISCV_CALL, DISTANCE, 4, 4, LOW},
	{R_RISCV_CALL_PLT, DISTANCE | ROUND, 4, 0, HIGH},
	{R_RISCV_CALL_PLT, DISTANCE, 4, 4, LOW},
	{R_RISCV_HI20, ROUND, 4, 0, HIGH},
	{R_RISCV_TPREL_HI20, ROUND, 4, 0, HIGH},
	{R_RISCV_LO12_I, VALUE, 4, 0, LOW},
	{R_RISCV_TPREL_LO12_I, VALUE, 4, 0, LOW},
	{R_RISCV_LO12_S, VALUE, 4, 0, LOW_STORE},
	{R_RISCV_TPREL_LO12_S, VALUE, 4, 0, LOW_STORE},
	{R_RISCV_BRANCH, DISTANCE, 4, 0, {{11, 1, 7}, {1, 4, 8}, {5, 6, 25}, {12, 1, 31}}},
	{R_RISCV_JAL, DISTANCE, 4, 0, {{12, 8, 12}, {11, 1, 20}, {1, 10, 21}, {20, 1, 31}}},
	{R_RISCV_RVC_BRANCH, DISTANCE, 2, 0,
	 {{5, 1, 2}, {1, 2, 3}, {6, 2, 5}, {3, 2, 10}, {8, 1, 12}}},
	{R_RISCV_RVC_JUMP, DISTANCE, 2, 0,
	 {{5, 1, 2}, {1, 3, 3}, {7, 1, 6}, {6, 1, 7}, {10, 1, 8}, {8, 2, 9}, {4, 1, 11},
	  {11, 1, 12}}},
	{0, 0, 0, 0, ALL},
};
/* clang-format on */

static uint64_t number_of(const struct kind *k, const struct relocation *r, uint64_t word)
{
	uint64_t n = k->number & SLOT ? r->slot : r->value;

	if (k->number & ADD)
		return word + n;
	if (k->number & SUBTRACT)
		return word - n;
	if (k->number & LOW_PART)
		return r->high_value - r->high_place;
	if (k->number & PAGES)
		return (n >> 12) - (r->place >> 12);
	if (k->number & DISTANCE)
		n -= r->place;
	if (k->number & NEXT)
		n -= 4;
	if (k->number & OFFSET)
		n &= 0xfff;
	return k->number & ROUND ? n + 0x800 : n;
}

static void image_fill(struct image *image, const struct relocation *r, const struct kind *k)
{
	uint64_t word = 0;

	if (!image_read(image, r->place + k->after, &word, k->size))
		return;
	word = bits_put(word, number_of(k, r, word), k->bits);
	image_write(image, r->place + k->after, &word, k->size);
}

void relocate(struct image *image, const struct relocation *r)
{
	static const struct kind *const kinds[] = {[CPU_X86_64] = kinds_x86_64,
						   [CPU_AARCH64] = kinds_aarch64,
						   [CPU_RISCV64] = kinds_riscv64};

	for (const struct kind *k = kinds[image->cpu]; k->type; k++)
		if (k->type == r->type)
			image_fill(image, r, k);
}

bool relocate_is_high(uint32_t type, bool *by_slot)
{
	*by_slot = type == R_RISCV_GOT_HI20 || type == R_RISCV_TLS_GOT_HI20;
	return *by_slot || type == R_RISCV_PCREL_HI20;
}
