/* SPDX-License-Identifier: MIT */
/* machine: what this process runs on, for `nearcpu info` and for the head of a report. */
#ifndef NEARCPU_MACHINE_H
#define NEARCPU_MACHINE_H

#include <jansson.h>
#include <nearcpu/rseq.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/utsname.h>

/* A set of CPUs or nodes as the kernel writes it: "0-3,8". */
struct machine_set {
	char list[200];
	unsigned count;
};

struct machine {
	struct utsname kernel;
	char libc[40];
	char processor[100];
	struct machine_set possible, online, allowed, nodes;
	uint64_t memory_bytes;
	struct near_rseq_status rseq;
	int reserve_error; /* of the first per-CPU allocation: 0 or negative errno */
	bool has_perf, has_bench;
	/* The libraries that `nearcpu run` preloads; "": not found. */
	char malloc_library[4096], atomic_library[4096];
	const char *conf;     /* NEAR_CONF, or NULL */
	const char *tunables; /* GLIBC_TUNABLES, or NULL */
};

/* A part that the command was built with, or without. */
struct machine_part {
	const char *name;
	bool built_in;
};

void machine_read(struct machine *m);

/* Ends with a NULL name. */
extern const struct machine_part machine_parts[];

/* The commands of membarrier; ends with a NULL name. */
extern const struct machine_command {
	const char *name;
	unsigned bit;
} machine_commands[];

const char *machine_slot_kind(enum near_slot_kind kind);

/* A new object, or NULL without memory. */
json_t *machine_json(const struct machine *m);

#endif
