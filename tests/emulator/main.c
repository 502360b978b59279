/* SPDX-License-Identifier: MIT */
/* The program that the emulator runs: threads that wait to be called by it. Its C library starts
 * and registers them as it would anywhere; the kernel they talk to is kernel.py. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ops.h"

/* Numbers that no kernel uses: "this thread waits", "the call returned". */
#define EMU_PARK 0x7e00
#define EMU_RETURNED 0x7e01

#define THREADS 3
#define STACK_SIZE 65536
#define EMU_MAX_OPS 128

struct actor emu_actors[2];
const unsigned emu_actor_size = sizeof(struct actor);
char emu_text[512], emu_problem[128];

/* In place of glibc's allocator, which makes a heap for each thread that allocates. Nothing is used
 * again: a scenario allocates little, and the next one begins with the memory as it was. */
static char heap[1 << 20] __attribute__((aligned(16)));

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
	void *new = malloc(size);

	return p && new ? memmove(new, p, size) : new;
}

int posix_memalign(void **out, size_t align, size_t size)
{
	char *p = malloc(size + align);

	*out = p ? p + (align - (uintptr_t)p % align) : NULL;
	return p ? 0 : ENOMEM;
}

void free(void *p)
{
	(void)p;
}

/* The emulator makes each function that it calls return to here. */
__attribute__((used, noreturn)) void emu_return(void)
{
	for (;;)
		syscall(EMU_RETURNED);
}

__attribute__((used)) void emu_reset(enum ops_setup setup, enum ops_object object)
{
	ops_actor(&emu_actors[0], 0);
	ops_actor(&emu_actors[1], 1);
	ops_reset(setup, object);
}

__attribute__((used)) void emu_op(struct actor *me, unsigned op)
{
	ops[op].run(me);
}

/* The op as the child of a vfork: on its parent's memory, thread-local storage included. */
__attribute__((used)) void emu_op_in_vfork(struct actor *me, unsigned op)
{
	if (vfork() == 0) {
		ops[op].run(me);
		_exit(0);
	}
}

/* What is wrong, or "", and, if wanted, what can be observed. */
__attribute__((used)) void emu_observe(bool describe)
{
	const char *problem = ops_conserved(&emu_actors[0], &emu_actors[1]);

	if (describe)
		ops_describe(emu_text, sizeof(emu_text), &emu_actors[0], &emu_actors[1]);
	strcpy(emu_problem, problem ? problem : "");
}

/* The answers of ops.h about the table, one row per setup. */
unsigned char emu_one_step[OPS_SETUPS][EMU_MAX_OPS];
unsigned char emu_valid[OPS_SETUPS][EMU_MAX_OPS][EMU_MAX_OPS];

static void fill_answers(void)
{
	if (ops_count > EMU_MAX_OPS)
		abort();
	for (unsigned setup = 0; setup < OPS_SETUPS; setup++)
		for (unsigned a = 0; a < ops_count; a++) {
			emu_one_step[setup][a] = ops_is_one_step(setup, &ops[a]);
			for (unsigned b = 0; b < ops_count; b++)
				emu_valid[setup][a][b] = ops_pair_is_valid(setup, &ops[a], &ops[b]);
		}
}

static void *wait_for_calls(void *unused)
{
	(void)unused;
	for (;;)
		syscall(EMU_PARK);
	return NULL;
}

int main(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	fill_answers();
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, &attr, wait_for_calls, NULL))
			abort();
	wait_for_calls(NULL);
}
