/* SPDX-License-Identifier: MIT */
/* A program for content_test.py, with two operations, a and b. -DCHANGE=name changes one of the
 * things that they can depend on. Compiled with and without -DSECOND, it is two objects. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ops.h"

enum changes {
	nothing,
	table,          /* that a reads */
	inlined,        /* into a */
	zeros,          /* how many of them an array has that a reads */
	by_table,       /* a function that a calls by a pointer in a table */
	by_variable,    /* the same, by a pointer that a constructor has stored */
	by_libc,        /* a function that the C library keeps from the start on */
	alias,          /* a function that a calls by another name */
	initial,        /* the value of a variable that a reads */
	chain,          /* what is behind a pointer behind a pointer */
	section,        /* an entry of a section that a reads from its start to its end */
	of_each_thread, /* that of a thread's variable, which the C library copies */
	written,        /* the text to which a sets a pointer */
	other_object,   /* a function in the other object, which replaces a weak one */
	weak,           /* the one that is replaced */
	entry,          /* the table's row of a */
	entry_of_b,     /* and of b */
	kind,           /* how a's object is made */
	constructor,    /* what runs at the start */
	every,          /* how every operation is called */
	allocator,      /* what the C library calls in place of its own */
	unused,         /* a function that nothing reaches */
	moved,          /* nothing, but everything is elsewhere */
};
#define IS(name) (CHANGE == (name))
#define USED __attribute__((used, noinline))

unsigned in_other_object(void);

#ifdef SECOND
unsigned in_other_object(void)
{
	return 1 + IS(other_object);
}
#else

__attribute__((weak)) unsigned in_other_object(void)
{
	return 7 + IS(weak);
}

typedef unsigned function(void);
#define FUNCTION(name)                                                                             \
	USED static unsigned of_##name(void)                                                       \
	{                                                                                          \
		return 1 + IS(name);                                                               \
	}
/* The first section of this object. */
USED static int before_others(int n)
{
	return IS(moved) ? n * n * n / 3 + n * n / 7 + n / 11 : n;
}
FUNCTION(by_table)
FUNCTION(by_variable)
FUNCTION(unused)
USED unsigned of_alias(void)
{
	return 1 + IS(alias);
}
unsigned other_name(void) __attribute__((alias("of_alias")));

static const unsigned values[4] = {1, 2, 3 + IS(table), 4};
static function *const functions[] = {of_by_table, of_by_table};
static function *registered;
static volatile unsigned counts[64 + IS(zeros)];
static volatile unsigned first = 1 + IS(initial);
static const unsigned last_link = 1 + IS(chain);
static const unsigned *const middle_link = &last_link;
static const unsigned *const *volatile links = &middle_link;
static __thread volatile unsigned of_thread = 1 + IS(of_each_thread);
static const char *volatile text;
static volatile int started;

struct entry_of_section {
	unsigned value;
};
#define IN_SECTION __attribute__((section("content_entries"), used))
IN_SECTION static const struct entry_of_section one_entry = {1}, other_entry = {1 + IS(section)};
extern const struct entry_of_section __start_content_entries[], __stop_content_entries[];

static inline unsigned of_inlined(unsigned n)
{
	return n * (3 + IS(inlined));
}

static void op_a(struct actor *me)
{
	unsigned n = values[me->n] + of_inlined(me->n) + functions[me->n]() + registered() +
		     counts[me->n] + other_name() + first + **links + of_thread + in_other_object();

	for (const struct entry_of_section *e = __start_content_entries; e < __stop_content_entries;
	     e++)
		n += e->value;
	text = IS(written) ? "this" : "that";
	me->n = n;
}

static void op_b(struct actor *me)
{
	me->n++;
}

struct kind {
	unsigned (*create)(void);
};
FUNCTION(kind)
USED static unsigned create_b(void)
{
	return 1;
}
static const struct kind kind_a = {of_kind}, kind_b = {create_b};
const struct kind *const ops_kinds[OPS_OBJECTS] = {&kind_a, &kind_b};

const struct op ops[] = {
	{"a", op_a, (enum ops_object)0, OPS_SIGNAL_SAFE << IS(entry)},
	{"b", op_b, (enum ops_object)1, OPS_SIGNAL_SAFE << IS(entry_of_b)},
};
const unsigned ops_count = 2;

static void in_child(void)
{
	text = IS(by_libc) ? "child" : "a child";
}

__attribute__((constructor)) static void start(void)
{
	registered = of_by_variable;
	pthread_atfork(NULL, NULL, in_child);
	started = 1 + IS(constructor);
}

/* In place of the C library's, which calls them. */
static char heap[1 << 16] __attribute__((aligned(16)));
void *malloc(size_t size)
{
	static size_t used;
	size_t at = __atomic_fetch_add(&used, (size + 15) & ~(size_t)15, __ATOMIC_RELAXED);

	return at + size <= sizeof(heap) ? heap + at : NULL;
}
void *calloc(size_t n, size_t size)
{
	return malloc(n * size);
}
void *realloc(void *p, size_t size)
{
	return p ? NULL : malloc(size);
}
int posix_memalign(void **out, size_t align, size_t size)
{
	*out = align <= 16 ? malloc(size) : NULL;
	return !*out;
}
void free(void *p)
{
	text = IS(allocator) ? p : NULL;
}

/* What the emulator calls. */
#define CALLED __attribute__((used)) void
CALLED emu_return(void)
{
}
CALLED emu_reset(unsigned object)
{
	ops_kinds[object]->create();
}
CALLED emu_op(struct actor *me, unsigned op)
{
	ops[op].run(me + IS(every));
}
CALLED emu_op_in_vfork(void)
{
}
CALLED emu_observe(void)
{
}
void ops_enter(void)
{
}

int main(void)
{
	for (;;)
		syscall(0x7e00);
}
#endif
