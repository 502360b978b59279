// SPDX-License-Identifier: MIT
// What works in a program that has its own malloc, calloc, realloc and free, which end the program
// if they get a block of another allocator.
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <new>

#define CHECK(holds)                                                                               \
	do {                                                                                       \
		if (!(holds)) {                                                                    \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds);                \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

// clang declares them only with -fsized-deallocation.
void operator delete(void *, std::size_t) noexcept;
void operator delete[](void *, std::size_t) noexcept;

// Ends the program if it gets another allocator's block.
extern "C" long blocks; // in use

// The names that the C library has, too, and the operators.
static void use_names()
{
	long before = blocks;
	char *p = static_cast<char *>(malloc(10)), *line = nullptr;
	size_t n = 0;
	FILE *f;

	strcpy(p, "abc");
	p = static_cast<char *>(reallocarray(p, 3, 300));
	CHECK(strcmp(p, "abc") == 0);
	CHECK(reallocarray(p, SIZE_MAX / 2, 3) == nullptr);
	free(p);
	free(reallocarray(nullptr, 3, 30));
	free(strdup("hello"));
	f = fopen("/proc/self/status", "r");
	CHECK(f && getline(&line, &n, f) > 0);
	free(line);
	fclose(f);
	CHECK(blocks == before);
}

struct alignas(128) wide {
	char data[128];
};

static void use_operators()
{
	long before = blocks;
	int *volatile one = new int(5);
	int *volatile many = new (std::nothrow) int[1000];
	wide *volatile w = new wide, *volatile more = new wide[3];

	CHECK(blocks >= before + 2);
	free(one);
	operator delete[](many, std::nothrow);
	CHECK(reinterpret_cast<size_t>(w) % 128 == 0 && reinterpret_cast<size_t>(more) % 128 == 0);
	memset(w, 1, sizeof(*w));
	delete w;
	delete[] more;
	operator delete(malloc(8));
	operator delete[](malloc(16), sizeof(int));
	operator delete(operator new(0), static_cast<size_t>(0));
	delete new long;
	delete[] new char[100000];
	CHECK(blocks == before);
}

// A wrapper's block may begin within one of ours, of any size.
static void use_all()
{
	for (size_t size = 1; size < 3000; size = size * 5 / 4 + 1)
		operator delete(operator new(size), size);
	for (int i = 0; i < 200; i++) { // of which some leave the caches
		use_names();
		use_operators();
	}
}
