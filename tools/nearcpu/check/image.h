/* SPDX-License-Identifier: MIT */
/* image: an ELF file as it would be in memory: segments with relocations applied, functions, and
 * the sections that sequences are listed in. A relocatable object is laid out as a linker would.
 *
 * Everything in the file may be wrong on purpose: each address is checked before it is used. */
#ifndef NEARCPU_CHECK_IMAGE_H
#define NEARCPU_CHECK_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cpu { CPU_X86_64, CPU_AARCH64, CPU_RISCV64, CPUS };

struct cpu_facts {
	const char *name;
	uint16_t machine;     /* of the ELF header */
	uint32_t signature;   /* before each abort handler */
	unsigned step;        /* the least distance between two instructions */
	int8_t stack, thread; /* registers; thread: -1 if that is no general register */
	uint64_t saved;       /* registers that a call leaves alone, by the ABI */
};
extern const struct cpu_facts cpu_facts[CPUS];

struct segment {
	uint64_t address, size; /* as in memory */
	uint8_t *data;          /* a copy of `filled` bytes; the rest is zero */
	uint64_t filled;
	uint64_t offset; /* of its first byte in the file */
	bool executable, writable;
};

struct range {
	uint64_t start, end;
};

struct function {
	uint64_t start, end;
	const char *name; /* in the file, or NULL */
};

/* An address of a thread's storage that the loader writes into a word (a GOT entry). */
struct tls_word {
	uint64_t address;
	int64_t offset; /* from the storage of the module, or from symbol number `symbol` */
	uint32_t symbol;
};

enum listed {
	LISTED_CS,
	LISTED_POINTERS,
	LISTED_EXITS,
	LISTED_CODE, /* sections of instructions: segments hold other things, too */
	LISTED_KINDS
};

struct image {
	enum cpu cpu;
	const struct cpu_facts *facts; /* of the cpu */
	bool is_object;
	struct segment *segments; /* by address, none overlaps another */
	size_t segment_count;
	struct function *functions; /* by address */
	size_t function_count;
	struct range *listed[LISTED_KINDS];
	size_t listed_count[LISTED_KINDS];
	struct tls_word *tls_words; /* by address */
	size_t tls_word_count;
	uint64_t global_pointer; /* riscv64: what register gp holds all the time, or 0 */
};

/* Fills *image from an ELF file of `size` bytes, which must stay as long as the image. Returns 0,
 * or a negative errno with a reason in `why`: -ENOEXEC for what is no ELF file, -ENOTSUP for
 * another machine, class or type, -EBADMSG for a damaged one, -ENOMEM. */
int image_load(struct image *image, const uint8_t *file, size_t size, char why[200]);
void image_free(struct image *image);

const struct segment *image_segment(const struct image *image, uint64_t address);
bool image_is_code(const struct image *image, uint64_t address);

/* False unless all of it lies in one segment. */
bool image_read(const struct image *image, uint64_t address, void *out, size_t size);
bool image_write(struct image *image, uint64_t address, const void *data, size_t size);

/* What is in the file from the address on, up to the end of its segment; NULL if nothing. */
uint8_t *image_bytes(const struct image *image, uint64_t address, size_t *left);

/* The function that contains the address, or NULL. */
const struct function *image_function(const struct image *image, uint64_t address);

const struct tls_word *image_tls_word(const struct image *image, uint64_t address);

#endif
