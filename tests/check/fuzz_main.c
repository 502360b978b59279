/* SPDX-License-Identifier: MIT */
/* usage: fuzz_check ROUNDS FILE...
 *
 * Changes each file in ROUNDS ways, the same each time, and checks what comes out. A
 * mistake crashes, or is stopped by a sanitizer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* xorshift64* (Vigna, 2014). */
static uint64_t random_state = 88172645463325252u;

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (random_state * 2685821657736338717u) % n;
}

static const uint64_t odd_numbers[] = {
	0,
	1,
	2,
	0x7f,
	0xff,
	0xffff,
	0x7fffffff,
	0xffffffff,
	0x7fffffffffffffff,
	UINT64_MAX,
	UINT64_MAX - 7,
	1ull << 60,
	1ull << 32,
	1ull << 40,
	32,
	UINT64_MAX - 31,
};

/* Numbers in headers, tables and descriptors are aligned: so are most changes. */
static void change(uint8_t *data, size_t size)
{
	uint64_t number = odd_numbers[random_below(sizeof(odd_numbers) / sizeof(odd_numbers[0]))];
	size_t width = (size_t)1 << random_below(4), at = random_below(size);
	size_t from = random_below(size), length;

	if (random_below(4))
		at = random_below(2) ? at % 1024 % size : at;
	at &= ~(width - 1);
	if (width > size - at)
		return;
	switch (random_below(4)) {
	case 0:
		data[at] ^= (uint8_t)(1u << random_below(8));
		break;
	case 1:
		number += random_below(64);
		/* fall through */
	case 2:
		memcpy(data + at, &number, width);
		break;
	default:
		length = random_below(64) + 1;
		if (length <= size - at && length <= size - from)
			memmove(data + at, data + from, length);
	}
}

static uint8_t *read_all(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = NULL;
	long length;

	if (!file || fseek(file, 0, SEEK_END) || (length = ftell(file)) <= 0 ||
	    fseek(file, 0, SEEK_SET) || !(data = malloc((size_t)length)) ||
	    fread(data, 1, (size_t)length, file) != (size_t)length) {
		perror(path);
		exit(2);
	}
	fclose(file);
	*size = (size_t)length;
	return data;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long done = 0;

	for (int i = 2; i < argc; i++) {
		size_t size, cut;
		uint8_t *data = read_all(argv[i], &size);

		for (unsigned long k = 0; k < rounds; k++, done++) {
			/* A copy of its own, so that a read behind the end is seen. */
			cut = random_below(8) ? size : random_below(size) + 1;
			uint8_t *copy = malloc(cut);

			if (!copy)
				return 2;
			memcpy(copy, data, cut);
			for (uint64_t n = random_below(6); n; n--)
				change(copy, cut);
			LLVMFuzzerTestOneInput(copy, cut);
			free(copy);
		}
		free(data);
	}
	printf("%lu files checked\n", done);
	return done ? 0 : 2;
}
