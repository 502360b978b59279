// SPDX-License-Identifier: MIT
// A program that counts its blocks by a malloc around the drop-in's, with 16 bytes in front.
#include <dlfcn.h>

#include "replaced.h"

#define MARK 0x6d61726b6d61726bul

static void *(*next_malloc)(size_t), *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);
static char early[4096]; // of dlsym
static size_t early_used;
long blocks;

static void find()
{
	static bool finding;

	if (next_free || finding)
		return;
	finding = true;
	next_realloc = reinterpret_cast<void *(*)(void *, size_t)>(dlsym(RTLD_NEXT, "realloc"));
	next_free = reinterpret_cast<void (*)(void *)>(dlsym(RTLD_NEXT, "free"));
	next_malloc = reinterpret_cast<void *(*)(size_t)>(dlsym(RTLD_NEXT, "malloc"));
}

static void *begin(char *p)
{
	unsigned long mark = MARK;

	if (!p)
		return nullptr;
	memcpy(p, &mark, sizeof(mark));
	return p + 16;
}

static char *end(void *p)
{
	char *raw = static_cast<char *>(p) - 16;
	unsigned long mark;

	memcpy(&mark, raw, sizeof(mark));
	CHECK(mark == MARK);
	memset(raw, 0, sizeof(mark));
	return raw;
}

extern "C" void *malloc(size_t n)
{
	find();
	if (!next_malloc) {
		early_used += (n + 15) & ~size_t(15);
		return early + early_used - ((n + 15) & ~size_t(15));
	}
	blocks++;
	return begin(static_cast<char *>(next_malloc(n + 16)));
}

extern "C" void free(void *p)
{
	if (!p || (p >= early && p < early + sizeof(early)))
		return;
	find();
	blocks--;
	next_free(end(p));
}

extern "C" void *calloc(size_t n, size_t size)
{
	void *p = malloc(n * size);

	return p ? memset(p, 0, n * size) : nullptr;
}

extern "C" void *realloc(void *p, size_t n)
{
	if (!p)
		return malloc(n);
	if (n > SIZE_MAX / 4)
		return nullptr;
	return begin(static_cast<char *>(next_realloc(end(p), n + 16)));
}

int main()
{
	const char *conf = getenv("NEAR_CONF");

	use_all();
	if (!conf || !strstr(conf, "malloc_check")) // reports a pointer into a block
		CHECK(malloc_usable_size(malloc(16)) == 0);
	return 0;
}
