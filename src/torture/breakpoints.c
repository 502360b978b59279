/* SPDX-License-Identifier: MIT */
/* Plants and removes breakpoints, and identifies the one that raised a SIGTRAP. */
#define _GNU_SOURCE
#include "torture/breakpoints.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct trap near__trap;

/* ThreadSanitizer keeps no shadow of text. */
#define TOUCHES_TEXT __attribute__((no_sanitize("thread")))

TOUCHES_TEXT static void write_text(uintptr_t at, const unsigned char *bytes)
{
	char *p = (char *)at;

	for (size_t i = 0; i < NEAR__BREAK_SIZE; i++)
		((volatile unsigned char *)p)[i] = bytes[i];
	__builtin___clear_cache(p, p + NEAR__BREAK_SIZE);
}

TOUCHES_TEXT void near__break_plant(unsigned i, uintptr_t at)
{
	static const unsigned char bytes[] = NEAR__BREAK_BYTES;
	struct breakpoint *b = &near__trap.breakpoints[i];

	b->at = at;
	b->planted = true;
	for (size_t k = 0; k < NEAR__BREAK_SIZE; k++)
		b->text[k] = ((const unsigned char *)at)[k];
	write_text(at, bytes);
}

void near__break_unplant(unsigned i)
{
	if (!near__trap.breakpoints[i].planted)
		return;
	near__trap.breakpoints[i].planted = false;
	write_text(near__trap.breakpoints[i].at, near__trap.breakpoints[i].text);
}

/* In reverse order: of two breakpoints at one address, the later one saved the earlier one's
 * bytes. */
void near__break_unplant_all(void)
{
	for (unsigned i = near__trap.count + 1; i-- > 0;)
		near__break_unplant(i);
}

void near__break_plant_starts(bool (*wanted)(unsigned i))
{
	for (unsigned i = 0; i < near__trap.count; i++)
		if (!near__trap.seqs[i].shares && wanted(i))
			near__break_plant(i, near__trap.seqs[i].start);
}

void near__break_plant_commits(void)
{
	for (unsigned i = 0; i < near__trap.count; i++) {
		const struct trap_seq *s = &near__trap.seqs[i];

		if (s->points > 1)
			near__break_plant(i, s->point[s->points - 2]);
	}
}

void near__break_die(const char *why)
{
	static const char prefix[] = "nearcpu: torture: ";

	if (write(2, prefix, sizeof(prefix) - 1) < 0 || write(2, why, strlen(why)) < 0)
		_exit(98);
	abort();
}

/* If the thread was not aborted, its instruction pointer is at the breakpoint, or behind it
 * (NEAR__BREAK_PASSED). */
unsigned near__break_hit(ucontext_t *c)
{
	uintptr_t ip = near__trap_ip(c) - NEAR__BREAK_PASSED;

	for (unsigned i = near__trap.count + 1; i-- > 0;)
		if (near__trap.breakpoints[i].planted && near__trap.breakpoints[i].at == ip) {
			near__trap_set_ip(c, ip);
			return i;
		}
	near__break_die("SIGTRAP from somewhere else\n");
	return 0;
}

unsigned near__break_aborted(const ucontext_t *c)
{
	uintptr_t ip = near__trap_ip(c);
	unsigned i = 0;

	while (i < near__trap.count && near__trap.seqs[i].abort != ip)
		i++;
	return i;
}
