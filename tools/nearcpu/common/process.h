/* SPDX-License-Identifier: MIT */
/* process: what a running process has of this library, read from outside, while the process runs:
 * for nearcpu info PID and nearcpu heap PID. */
#ifndef NEARCPU_PROCESS_H
#define NEARCPU_PROCESS_H

#include <elf.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernel/kernel.h"

/* The note of src/kernel/kernel_state.c, which each object with the library's core has. */
struct process_note {
	Elf64_Nhdr header;
	char name[8];
	int32_t state; /* less the address of this field */
	uint32_t version;
};

/* An object with a part of the library. */
struct process_object {
	char path[PATH_MAX];
	bool is_program, is_preloaded, is_atomic, has_core, has_malloc;
	bool is_closed; /* by its name a part: this command cannot read the file */
	struct process_note note;
	uint64_t note_at; /* its address in the process */
};

#define PROCESS_OBJECTS 16

struct process {
	const char *sub; /* the subcommand, for messages */
	int pid, threads;
	char name[64], program[PATH_MAX];
	const char *conf, *tunables, *preload; /* of its environment at its begin, or NULL */
	struct process_object objects[PROCESS_OBJECTS];
	unsigned count;
	const char *own_malloc; /* see own_malloc.h */
	char unread[256];       /* why its memory is not read; "": what follows is known */
	struct near__process state;
	char why[256], slot_why[256];
};

/* 0, or the exit status of a failure, after a message. */
int process_read(struct process *p, const char *sub, int pid);

/* info/process_print.c: as text, and as JSON: a new object, or NULL without memory. */
void process_print(const struct process *p);
json_t *process_json(const struct process *p);

#endif
