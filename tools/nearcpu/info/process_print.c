/* SPDX-License-Identifier: MIT */
/* What `nearcpu info PID` prints. */
#include "info/live.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/machine.h"
#include "common/text.h"

#define NAME "%-16s"

static const char *parts_of(const struct process_object *o)
{
	return o->is_closed    ? "not examined"
	       : !o->has_core  ? "libatomic"
	       : o->has_malloc ? "core and malloc"
			       : "core";
}

/* What shares its state; a patch version is in the name of the file. */
static struct word version_of(const struct process_object *o)
{
	const uint32_t n = o->note.version;

	return n >> 16 ? word("%u", n >> 16) : word("0.%u", n);
}

static const char *how(const struct process_object *o)
{
	return o->is_program ? "static" : o->is_preloaded ? "preloaded" : "linked or opened";
}

/* Why there are sequences, or none. */
static const char *why(const struct process *p)
{
	if (p->unread[0])
		return p->unread;
	if (!p->state.usable)
		return p->why;
	return p->state.libc_registers ? "threads are registered by the C library"
				       : "threads are registered by this library, on first use";
}

static void print_threads(const struct process *p)
{
	static const char *const kinds[] = {"run sequences", "could not be registered",
					    "are not registered", "are not known"};
	const char *before = "";
	struct threads t;

	if (!p->state.usable || !p->state.libc_registers || !threads_read(p, &t))
		return;
	printf(NAME, "threads");
	for (unsigned k = 0; k < THREAD_KINDS; k++)
		if (t.of[k] || k == THREAD_LIVE) {
			printf("%s%u %s", before, t.of[k], kinds[k]);
			before = ", ";
		}
	putchar('\n');
}

static void print_heap(const struct process *p)
{
	struct heap h;

	if (heap_read(p, &h))
		printf(NAME "%.1f MiB in use, %.1f mapped, %.1f dirty, %.0f s ago\n", "heap",
		       (double)h.in_use / (1 << 20), (double)h.mapped / (1 << 20),
		       (double)h.dirty / (1 << 20), difftime(time(NULL), (time_t)h.when));
}

static void print_state(const struct process *p)
{
	const struct near__process *st = &p->state;

	printf(NAME "%s: %s\n", "rseq",
	       p->unread[0] ? "unknown"
	       : st->usable ? "live"
			    : "not live",
	       why(p));
	if (p->unread[0])
		return;
	print_threads(p);
	printf(NAME "%u by %s: %s\n", "slots", st->slots, machine_slot_kind(st->slot_kind),
	       p->slot_why);
	printf(NAME "%.1f MiB of address space for per-CPU objects\n", "reserved",
	       (double)st->reserved / (1 << 20));
}

void process_print(const struct process *p)
{
	printf(NAME "%d (%s), %d thread%s\n", "process", p->pid, p->name, p->threads,
	       p->threads == 1 ? "" : "s");
	printf(NAME "%s\n", "program", p->program);
	for (unsigned i = 0; i < p->count; i++) {
		const struct process_object *o = &p->objects[i];

		printf(NAME "%s: %s%s%s, %s\n", i ? "" : "libraries",
		       o->is_program ? "in the program" : o->path, parts_of(o),
		       o->has_core ? ", version " : "", o->has_core ? version_of(o).text : "",
		       how(o));
	}
	print_state(p);
	print_heap(p);
	if (p->conf)
		printf(NAME "NEAR_CONF=%s\n", "settings", p->conf);
	if (p->tunables)
		printf(NAME "GLIBC_TUNABLES=%s\n", p->conf ? "" : "settings", p->tunables);
	if (p->own_malloc)
		printf(NAME "%s\n", "own malloc", p->own_malloc);
}

/* ---- JSON ---- */

static json_t *objects_json(const struct process *p)
{
	json_t *objects = json_array();

	for (unsigned i = 0; i < p->count; i++) {
		const struct process_object *o = &p->objects[i];

		json_array_append_new(objects,
				      json_pack("{s:s, s:s?, s:s, s:b, s:b, s:b}", "file", o->path,
						"version", o->has_core ? version_of(o).text : NULL,
						"how", how(o), "core", o->has_core, "malloc",
						o->has_malloc, "atomic", o->is_atomic));
	}
	return objects;
}

/* null: not known. */
static json_t *threads_json(const struct process *p)
{
	struct threads t;

	if (p->unread[0] || !p->state.usable || !p->state.libc_registers || !threads_read(p, &t))
		return json_null();
	return json_pack("{s:i, s:i, s:i, s:i}", "live", (int)t.of[THREAD_LIVE], "failed",
			 (int)t.of[THREAD_FAILED], "none", (int)t.of[THREAD_NONE], "unknown",
			 (int)t.of[THREAD_UNKNOWN]);
}

static json_t *heap_json(const struct process *p)
{
	struct heap h;

	if (!heap_read(p, &h))
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I}", "in_use_bytes", (json_int_t)h.in_use,
			 "mapped_bytes", (json_int_t)h.mapped, "dirty_bytes", (json_int_t)h.dirty,
			 "published_seconds", (json_int_t)h.when);
}

json_t *process_json(const struct process *p)
{
	const bool known = !p->unread[0];
	json_t *live = known ? json_boolean(p->state.usable) : json_null();
	json_t *slots = known ? json_pack("{s:i, s:s, s:s, s:I}", "count", (int)p->state.slots,
					  "by", machine_slot_kind(p->state.slot_kind), "why",
					  p->slot_why, "reserved_bytes",
					  (json_int_t)p->state.reserved)
			      : json_null();

	return json_pack(
		"{s:i, s:s, s:i, s:s, s:o, s:{s:o, s:s, s:o}, s:o, s:{s:s?, s:s?}, s:s?, s:o}",
		"pid", p->pid, "name", p->name, "threads", p->threads, "program", p->program,
		"libraries", objects_json(p), "rseq", "live", live, "why", why(p), "threads",
		threads_json(p), "slots", slots, "settings", "NEAR_CONF", p->conf, "GLIBC_TUNABLES",
		p->tunables, "own_malloc", p->own_malloc, "heap", heap_json(p));
}
