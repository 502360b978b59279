/* SPDX-License-Identifier: MIT */
#include "hashes.h"

#include "atomic/hash.h"

/* The fraction of the golden ratio: multiples of it are spread evenly (Knuth, volume 3, 6.4). */
#define GOLDEN 0x9e3779b97f4a7c15u

/* GCC's libatomic: a lock for each line of a page. */
static unsigned hash_gcc(uintptr_t p)
{
	return (unsigned)(p / LINE % 64);
}

static unsigned hash_low(uintptr_t p)
{
	return (unsigned)(p / LINE % 256);
}

/* compiler-rt, atomic.c: 1,024 words, and 16 bytes share one. */
static unsigned hash_llvm(uintptr_t p)
{
	uintptr_t hash = p >> 4;

	return (unsigned)((hash ^ hash >> 16) % 1024);
}

/* Gustedt's stdatomic, atomic_generic.c: one that he had beside it, and the one that he took. There
 * they are of the address. */
static unsigned hash_xor(uintptr_t p)
{
	uintptr_t x = p / LINE;

	return (unsigned)((x ^ x >> 8) % 256);
}

static unsigned hash_gustedt(uintptr_t p)
{
	uint64_t x = (uint64_t)(p / LINE) * 14530039u;

	x ^= x >> 32;
	x ^= x >> 16;
	x ^= x >> 8;
	return (unsigned)(x % 256);
}

static unsigned hash_fold(uintptr_t p)
{
	uint64_t x = p / LINE;

	x ^= x >> 32;
	x ^= x >> 16;
	x ^= x >> 8;
	return (unsigned)(x % 256);
}

static unsigned hash_golden(uintptr_t p)
{
	return (unsigned)((uint64_t)(p / LINE) * GOLDEN >> 56);
}

/* Murmur3's last steps for 64 bits. */
static unsigned hash_murmur(uintptr_t p)
{
	uint64_t x = p / LINE;

	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdu;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53u;
	x ^= x >> 33;
	return (unsigned)(x % 256);
}

static unsigned hash_ours(uintptr_t p)
{
	return (unsigned)near__atomic_hash(p / LINE);
}

const struct hash hashes[] = {
	{"gcc", "GCC: line % 64", 64, hash_gcc},
	{"llvm", "compiler-rt", 1024, hash_llvm},
	{"low", "line % 256", 256, hash_low},
	{"xor", "xor of two bytes", 256, hash_xor},
	{"fold", "xor of all bytes", 256, hash_fold},
	{"golden", "golden ratio", 256, hash_golden},
	{"gustedt", "Gustedt", 256, hash_gustedt},
	{"murmur", "Murmur3", 256, hash_murmur},
	{"ours", "ours", 256, hash_ours},
};
const size_t hash_count = sizeof(hashes) / sizeof(hashes[0]);
