/* SPDX-License-Identifier: MIT */
/* What cost.py counts of liburcu's memb flavour: the read side, inlined. */
#define _LGPL_SOURCE
#include <stdlib.h>
#include <urcu/urcu-memb.h>

struct version {
	unsigned long key;
};

static struct version first;
static struct version *current = &first;
static unsigned long read_key;

__attribute__((used)) void cost_liburcu_make(void)
{
	urcu_memb_register_thread();
}

__attribute__((used, noinline)) void cost_liburcu_section(void)
{
	urcu_memb_read_lock();
	read_key = rcu_dereference(current)->key;
	urcu_memb_read_unlock();
}

/* It was compiled with a later C library, whose strtol() has another name. */
long __isoc23_strtol(const char *text, char **end, int base)
{
	return strtol(text, end, base);
}

unsigned long __isoc23_strtoul(const char *text, char **end, int base)
{
	return strtoul(text, end, base);
}
