/* SPDX-License-Identifier: MIT */
/* What the laboratory's own programs share. They run as root on a machine of their own. */
#ifndef NEARCPU_LAB_H
#define NEARCPU_LAB_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LAB_CPUS 1024
#define LAB_NODES 64

/* Ends the program: the test failed. */
#define LAB_FAIL(...)                                                                              \
	do {                                                                                       \
		fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                    \
		fprintf(stderr, __VA_ARGS__);                                                      \
		fputc('\n', stderr);                                                               \
		_exit(1);                                                                          \
	} while (0)

#define LAB_CHECK(holds)                                                                           \
	do {                                                                                       \
		if (!(holds))                                                                      \
			LAB_FAIL("%s is false", #holds);                                           \
	} while (0)

static inline bool lab_read(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, size - 1, f) : 0;

	if (f)
		fclose(f);
	text[n] = '\0';
	return f != NULL;
}

static inline bool lab_write(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");
	bool good = f && fputs(text, f) >= 0;

	return f && fclose(f) == 0 && good;
}

/* The numbers of a list of the kernel's, such as "0-3,8", in order. Returns how many. */
static inline unsigned lab_list(const char *path, unsigned *numbers, unsigned most)
{
	char text[4096], *at = text;
	unsigned n = 0;

	if (!lab_read(path, text, sizeof(text)))
		return 0;
	while (*at >= '0' && *at <= '9') {
		unsigned long first = strtoul(at, &at, 10), last = first;

		if (*at == '-')
			last = strtoul(at + 1, &at, 10);
		for (; first <= last && n < most; first++)
			numbers[n++] = (unsigned)first;
		at += *at == ',';
	}
	return n;
}

static inline unsigned lab_online(unsigned *cpus)
{
	return lab_list("/sys/devices/system/cpu/online", cpus, LAB_CPUS);
}

static inline bool lab_has(const unsigned *numbers, unsigned n, unsigned wanted)
{
	for (unsigned i = 0; i < n; i++)
		if (numbers[i] == wanted)
			return true;
	return false;
}

static inline bool lab_pin(unsigned cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return sched_setaffinity(0, sizeof(one), &one) == 0;
}

/* The node of a CPU, as sysfs has it. */
static inline unsigned lab_node_of(unsigned cpu)
{
	unsigned nodes[LAB_NODES], cpus[LAB_CPUS];
	unsigned n = lab_list("/sys/devices/system/node/online", nodes, LAB_NODES);
	char path[80];

	for (unsigned i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", nodes[i]);
		if (lab_has(cpus, lab_list(path, cpus, LAB_CPUS), cpu))
			return nodes[i];
	}
	return 0;
}

#endif
