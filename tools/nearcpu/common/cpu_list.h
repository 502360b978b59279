/* SPDX-License-Identifier: MIT */
/* cpu_list: sets of CPUs as the kernel writes them, "0-3,8". */
#ifndef NEARCPU_TOOL_CPU_LIST_H
#define NEARCPU_TOOL_CPU_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/bits.h"

#define CPU_LIST_CPUS 16384 /* more than any kernel is built for; larger numbers count as this */
#define CPU_LIST_ANY (CPU_LIST_CPUS + 1)

struct cpu_list {
	unsigned count;
	uint64_t bits[CPU_LIST_CPUS / 64 + 1];
};

/* A number, which must begin with a digit. */
static inline bool cpu_list_number(const char **text, unsigned long *n)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	*n = strtoul(*text, &end, 10);
	*n = *n < CPU_LIST_CPUS ? *n : CPU_LIST_CPUS;
	*text = end;
	return true;
}

/* False if it is no such list, or has a CPU that is not below `limit`, CPU_LIST_ANY at most. */
static inline bool cpu_list_parse(const char *text, unsigned limit, struct cpu_list *out)
{
	*out = (struct cpu_list){.count = 0};
	for (;; text++) {
		unsigned long from, to;

		if (!cpu_list_number(&text, &from))
			return false;
		to = from;
		if (*text == '-' && (text++, !cpu_list_number(&text, &to)))
			return false;
		if (from > to || to >= limit || (*text && *text != ','))
			return false;
		for (; from <= to; from++) {
			out->count += !near__bit(out->bits, from);
			near__bit_set(out->bits, from);
		}
		if (!*text)
			return true;
	}
}

static inline bool cpu_list_has(const struct cpu_list *list, unsigned cpu)
{
	return cpu < CPU_LIST_CPUS && near__bit(list->bits, cpu);
}

#endif
