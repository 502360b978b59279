/* SPDX-License-Identifier: MIT */
/* Blocks with checked content. */
#include "blocks.h"

#include "use.h"

#define WHOLE (16 * KB) /* larger ones are written and checked at their ends and once a page */
#define PAGE (4 * KB)

/* As CHECK, without stdio: that locks, and a forked child finds the lock held. */
#define SURE(holds, b)                                                                             \
	do {                                                                                       \
		if (!(holds))                                                                      \
			wrong(__LINE__, #holds, b);                                                \
	} while (0)

__attribute__((noreturn, cold)) static void wrong(int line, const char *what, const struct block *b)
{
	char text[256];
	int n = snprintf(text, sizeof(text), "blocks.c:%d: %s is false: %p, %zu bytes, pid %d\n",
			 line, what, (void *)b->p, b->size, (int)getpid());

	if (write(2, text, (size_t)n) < 0)
		_exit(2);
	_exit(1);
}

static unsigned char text_at(uint64_t seed, size_t i)
{
	return (unsigned char)((seed >> i % 7 * 8) + i * 37 + 1);
}

static size_t next_place(size_t i, size_t size)
{
	if (size <= WHOLE || i < 64 || i >= size - 64)
		return i + 1;
	return i + PAGE < size - 64 ? i + PAGE : size - 64;
}

static void fill(const struct block *b, size_t from)
{
	for (size_t i = from; i < b->size; i = next_place(i, b->size))
		b->p[i] = text_at(b->seed, i);
}

static void blocks_check(const struct block *b)
{
	for (size_t i = 0; i < b->size; i = next_place(i, b->size))
		SURE(b->p[i] == text_at(b->seed, i), b);
}

bool blocks_slow;

/* A size as in programs: mostly small, sometimes up to 2 MiB, rarely 16 MiB. */
static size_t blocks_size(uint64_t *random)
{
	uint32_t tag = unit_random(random) % 1000, r = unit_random(random);

	if (blocks_slow && tag >= 950)
		return r % (tag < 990 ? 64 * KB : 512 * KB);
	if (tag < 500)
		return r % 129;
	if (tag < 800)
		return r % (1 * KB + 1);
	if (tag < 950)
		return r % (32 * KB + 2);
	if (tag < 990)
		return r % (256 * KB);
	return tag < 999 ? r % (2 * MB) : r % (16 * MB);
}

static void *zeroed(size_t size, const struct block *b)
{
	unsigned char *p = calloc(1, size);

	for (size_t i = 0; p && i < size; i = next_place(i, size))
		SURE(p[i] == 0, b);
	return p;
}

static void *aligned(uint64_t *random, size_t size, const struct block *b)
{
	size_t align = (size_t)8 << unit_random(random) % 12;
	void *p = NULL;

	if (unit_random(random) % 2)
		p = memalign(align, size);
	else
		SURE(posix_memalign(&p, align, size) == 0, b);
	SURE((uintptr_t)p % align == 0, b);
	return p;
}

/* By any of the functions that allocate. */
static struct block blocks_alloc(uint64_t *random)
{
	size_t size = blocks_size(random);
	struct block b = {NULL, size, unit_random(random) | (uint64_t)unit_random(random) << 32};

	switch (unit_random(random) % 8) {
	case 0:
		b.p = zeroed(size, &b);
		break;
	case 1:
		b.p = aligned(random, size, &b);
		break;
	case 2:
		b.p = realloc(NULL, size);
		break;
	default:
		b.p = malloc(size);
	}
	SURE(b.p, &b);
	SURE((uintptr_t)b.p % (size > 8 ? 16 : 8) == 0, &b);
	SURE(malloc_usable_size(b.p) >= size, &b);
	fill(&b, 0);
	return b;
}

void blocks_free(struct block *b)
{
	int saved = errno;

	if (!b->p)
		return;
	blocks_check(b);
	errno = UNIT_ERRNO;
	free(b->p);
	SURE(errno == UNIT_ERRNO, b);
	errno = saved;
	b->p = NULL;
}

/* Checks the content that moved, then writes the text for the new size. */
static void blocks_resize(struct block *b, uint64_t *random)
{
	struct block now = *b;
	size_t size = blocks_size(random);

	if (!b->p)
		return;
	blocks_check(b);
	/* Half of the time as vectors grow. */
	now.size = unit_random(random) % 2 && b->size < 512 * KB ? b->size * 2 + 1 : size + 1;
	now.p = realloc(b->p, now.size);
	SURE(now.p, &now);
	for (size_t i = 0; i < b->size && i < now.size; i = next_place(i, b->size))
		SURE(now.p[i] == text_at(b->seed, i), &now);
	fill(&now, 0);
	*b = now;
}

bool shelf_exchange(struct shelf *s, struct block *b)
{
	struct block mine = *b;

	/* Pairs with the release below. */
	if (__atomic_exchange_n(&s->busy, 1, __ATOMIC_ACQUIRE))
		return false;
	*b = s->block;
	s->block = mine;
	__atomic_store_n(&s->busy, 0, __ATOMIC_RELEASE);
	return true;
}

void holder_let_go(struct holder *h)
{
	for (unsigned i = 0; i < h->n; i++)
		blocks_free(&h->blocks[i]);
}

void holder_step(struct holder *h)
{
	struct block *b = &h->blocks[unit_random(&h->random) % h->n];
	unsigned what = unit_random(&h->random) % 1024;

	if (what < 700 && b->p) {
		blocks_free(b);
	} else if (what < 700) {
		*b = blocks_alloc(&h->random);
	} else if (what < 800) {
		blocks_resize(b, &h->random);
	} else if (what < 1023) {
		shelf_exchange(&h->shelves[unit_random(&h->random) % h->n_shelves], b);
	} else {
		holder_let_go(h);
	}
}
