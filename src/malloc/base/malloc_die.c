/* SPDX-License-Identifier: MIT */
/* The line that a program is stopped with. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "malloc/base/heap.h"
#include "malloc/base/out.h"

/* One thread's handler of SIGABRT may take long, and not expect a second SIGABRT: another thread
 * waits before it reports what it found, which is often the same. Not for ever: the handler may
 * return to the program by siglongjmp. A system call, as nanosleep() is a cancellation point. */
#define WAIT_MS 10000
#define POLL_MS 10

static void wait_for_other(void)
{
	static uint64_t reporter; /* the process, whose child has the word, too; and the thread */
	const struct timespec step = {0, POLL_MS * 1000000L};
	uint64_t pid = (uint64_t)getpid() << 32, own = pid | (uint32_t)syscall(SYS_gettid);
	uint64_t seen = __atomic_load_n(&reporter, __ATOMIC_RELAXED); /* it orders nothing */

	for (int ms = 0; ms < WAIT_MS && seen != own; ms += POLL_MS) {
		if (seen >> 32 != pid >> 32) {
			if (__atomic_compare_exchange_n(&reporter, &seen, own, false,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED))
				return;
			continue;
		}
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &step, NULL);
	}
}

__attribute__((noreturn)) static void line_end(struct near__out *line, const char *text)
{
	near__out_print(line, "%s\n", text);
	near__out_end(line); /* there is no other place to report its error */
	abort();
}

void near__heap_die(const char *what, uint64_t offset)
{
	struct near__out line;

	wait_for_other();
	near__out_begin_fd(&line, 2);
	near__out_print(&line, "nearcpu-malloc: %s: %#lx", what,
			(uintptr_t)(near__heap.base + offset));
	line_end(&line, "");
}

void near__heap_die_block(const char *what, const void *p, const struct near__origin *block)
{
	struct near__out line;

	wait_for_other();
	near__out_begin_fd(&line, 2);
	near__out_print(&line, "nearcpu-malloc: %s: %#lx (%lu bytes, allocated by %#lx", what,
			(uintptr_t)p, block->size, (uintptr_t)block->allocated);
	if (block->freed)
		near__out_print(&line, ", freed by %#lx", (uintptr_t)block->freed);
	line_end(&line, ")");
}

/* ---- with a lock ---- */

static __thread struct near__deferred *deferred __attribute__((tls_model("initial-exec")));

void near__defer_begin(struct near__deferred *d)
{
	d->what = NULL;
	d->outer = deferred;
	deferred = d;
}

void near__heap_misuse(const char *what, const void *p)
{
	__atomic_store_n(&near__heap.damaged, true, __ATOMIC_RELAXED);
	if (!deferred)
		near__heap_die(what, near__offset_of(p));
	if (deferred->what)
		return;
	deferred->what = what;
	deferred->p = p;
}

void near__defer_end(const struct near__deferred *d)
{
	deferred = d->outer;
	if (NEAR__UNLIKELY(d->what != NULL))
		near__heap_misuse(d->what, d->p);
}
