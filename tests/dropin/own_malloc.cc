// SPDX-License-Identifier: MIT
// A program with a malloc of its own, and the drop-in preloaded.
#include "replaced.h"

static char pool[64 << 20] __attribute__((aligned(64)));
static size_t used;
long blocks;

static bool is_ours(const void *p)
{
	return p >= pool && p < pool + sizeof(pool);
}

extern "C" void *malloc(size_t n)
{
	char *p = pool + used;

	n = (n + 31) & ~size_t(15);
	if (n > sizeof(pool) - used)
		return nullptr;
	used += n;
	memcpy(p, &n, sizeof(n));
	blocks++;
	return p + 16;
}

extern "C" void free(void *p)
{
	CHECK(!p || is_ours(p));
	blocks -= p != nullptr;
}

extern "C" void *calloc(size_t n, size_t size)
{
	return malloc(n * size); // the pool is 0
}

extern "C" void *realloc(void *p, size_t n)
{
	void *q = n < sizeof(pool) ? malloc(n) : nullptr;
	size_t had = 0;

	CHECK(!p || is_ours(p));
	if (q && p) {
		memcpy(&had, static_cast<char *>(p) - 16, sizeof(had));
		memcpy(q, p, had - 16 < n ? had - 16 : n);
		free(p);
	}
	return q;
}

int main()
{
	use_all();
	CHECK(malloc_usable_size(malloc(10)) == 0);
	CHECK(malloc_usable_size(nullptr) == 0);
	return 0;
}
