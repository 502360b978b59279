/* SPDX-License-Identifier: MIT */
/* Secret numbers where getrandom fails (a kernel before 3.17, a filter of system calls, early at
 * boot): a keyed hash of the 16 bytes that the kernel passes at exec.
 *
 * A number must not reveal these bytes: the C library computes the stack protector's canary and the
 * key of its mangled pointers from them, and numbers leak (one determines the heap's address). They
 * are the key of SipHash-2-4, a pseudorandom function: no attack on its outputs is known that is
 * cheaper than trying all keys, and one output reveals nothing about another. The counter prevents
 * equal inputs; the clock makes the child of a fork differ from its parent. */
#include <string.h>
#include <sys/auxv.h>

#include "base/clock.h"
#include "malloc/base/os.h"
#include "malloc/base/tools.h"

static uint64_t bits_rotate(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = bits_rotate(v[1], 13) ^ v[0];
	v[3] = bits_rotate(v[3], 16) ^ v[2];
	v[0] = bits_rotate(v[0], 32) + v[3];
	v[2] += v[1];
	v[3] = bits_rotate(v[3], 21) ^ v[0];
	v[1] = bits_rotate(v[1], 17) ^ v[2];
	v[2] = bits_rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	sip_round(v);
	v[0] ^= word;
}

/* Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; for whole words. */
uint64_t near__siphash(const uint64_t key[2], const uint64_t *words, size_t n)
{
	uint64_t v[4] = {
		key[0] ^ UINT64_C(0x736f6d6570736575),
		key[1] ^ UINT64_C(0x646f72616e646f6d),
		key[0] ^ UINT64_C(0x6c7967656e657261),
		key[1] ^ UINT64_C(0x7465646279746573),
	};

	for (size_t i = 0; i < n; i++)
		sip_word(v, words[i]);
	sip_word(v, (uint64_t)n * 8 << 56);
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Without the kernel's bytes (AT_RANDOM is missing) only the clock and the stack's address are
 * secret. */
uint64_t near__hashed_random(void)
{
	static uint64_t calls;
	const void *bytes = (const void *)getauxval(AT_RANDOM);
	uint64_t key[2] = {0, 0}, words[3];
	struct timespec t;

	if (bytes)
		memcpy(key, bytes, sizeof(key));
	near__tool_clock(CLOCK_MONOTONIC, &t);
	words[0] = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED); /* any different value serves */
	words[1] = near__nanoseconds(t);
	words[2] = (uintptr_t)__builtin_frame_address(0);
	return near__siphash(key, words, 3);
}
