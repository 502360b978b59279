/* SPDX-License-Identifier: MIT */
/* What the kernel, the C library and the build offer this process. */
#include "common/cpu_list.h"
#include "common/machine.h"

#include <linux/membarrier.h>
#include <nearcpu/percpu.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/installed.h"
#include "common/memory.h"
#include "common/text.h"

/* More CPUs than any kernel is built for. */
#define SET_CPUS 8192

const struct machine_part machine_parts[] = {
	{"libelf", WITH_LIBELF},
	{"capstone", WITH_CAPSTONE},
	{NULL, false},
};

static void read_set(struct machine_set *set, const char *path)
{
	char text[4096];
	struct cpu_list list;

	read_text(path, text, sizeof(text));
	text[strcspn(text, "\n")] = 0;
	set->count = cpu_list_parse(text, CPU_LIST_ANY, &list) ? list.count : 0;
	if (snprintf(set->list, sizeof(set->list), "%s", text) >= (int)sizeof(set->list))
		memcpy(set->list + sizeof(set->list) - 5, " ...", 5);
}

static void read_allowed(struct machine_set *set)
{
	size_t size = CPU_ALLOC_SIZE(SET_CPUS);
	cpu_set_t *cpus = CPU_ALLOC(SET_CPUS);
	uint32_t *ids = allocate_zeros(SET_CPUS, sizeof(*ids));

	if (!cpus)
		out_of_memory();
	CPU_ZERO_S(size, cpus);
	if (sched_getaffinity(0, size, cpus))
		CPU_ZERO_S(size, cpus);
	for (uint32_t cpu = 0; cpu < SET_CPUS; cpu++)
		if (CPU_ISSET_S(cpu, size, cpus))
			ids[set->count++] = cpu;
	say_set(&(struct text){set->list, sizeof(set->list)}, ids, set->count,
		sizeof(set->list) - 16);
	free(ids);
	CPU_FREE(cpus);
}

/* Copies what follows `key` and a colon on one of the first lines of /proc/cpuinfo. */
static bool processor_line(const char *text, const char *key, char *out, size_t size)
{
	const char *line = strstr(text, key), *value;

	if (!line || !(value = strchr(line, ':')))
		return false;
	value += 1 + (value[1] == ' ');
	snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
	make_printable(out, "");
	return true;
}

static void read_processor(char *out, size_t size)
{
	char text[4096];

	read_text("/proc/cpuinfo", text, sizeof(text));
	if (processor_line(text, "model name", out, size) || /* x86 */
	    processor_line(text, "uarch", out, size) ||      /* riscv */
	    processor_line(text, "CPU part", out, size))     /* arm: a number */
		return;
	snprintf(out, size, "unknown");
}

/* The environment may hold any bytes; JSON and terminals take text. */
static const char *setting_of(const char *name)
{
	const char *value = getenv(name);
	char *text = value ? copy_text(value) : NULL;

	if (text)
		make_printable(text, "");
	return text;
}

/* The first object reserves address space, unless a limit forbids. */
static void try_to_reserve(struct machine *m)
{
	void *p;

	m->reserve_error = near_percpu_alloc(sizeof(uint64_t), sizeof(uint64_t), &p);
	if (!m->reserve_error)
		near_percpu_free(p);
}

void machine_read(struct machine *m)
{
	char path[PATH_MAX];

	memset(m, 0, sizeof(*m));
	/* First: the library comments out bad settings when it reads them. */
	m->conf = setting_of("NEAR_CONF");
	m->tunables = setting_of("GLIBC_TUNABLES");
	uname(&m->kernel);
	if (!confstr(_CS_GNU_LIBC_VERSION, m->libc, sizeof(m->libc)))
		snprintf(m->libc, sizeof(m->libc), "not glibc");
	read_processor(m->processor, sizeof(m->processor));
	read_set(&m->possible, "/sys/devices/system/cpu/possible");
	read_set(&m->online, "/sys/devices/system/cpu/online");
	read_set(&m->nodes, "/sys/devices/system/node/online");
	read_allowed(&m->allowed);
	m->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	try_to_reserve(m);
	near_rseq_status(&m->rseq, sizeof(m->rseq));
	if (find_library(LIBRARY_MALLOC, m->malloc_library))
		m->malloc_library[0] = 0;
	if (find_library(LIBRARY_ATOMIC, m->atomic_library))
		m->atomic_library[0] = 0;
	m->has_perf = find_in_path("perf", path) == 0;
	m->has_bench = find_program("nearcpu-bench", path) == 0;
}

const struct machine_command machine_commands[] = {
	{"global", MEMBARRIER_CMD_GLOBAL},
	{"global-expedited", MEMBARRIER_CMD_GLOBAL_EXPEDITED},
	{"private-expedited", MEMBARRIER_CMD_PRIVATE_EXPEDITED},
	{"sync-core", MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE},
	{"rseq", MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ},
	{NULL, 0},
};

const char *machine_slot_kind(enum near_slot_kind kind)
{
	switch (kind) {
	case NEAR_SLOT_CPU:
		return "cpu";
	case NEAR_SLOT_CID:
		return "cid";
	case NEAR_SLOT_NODE_CID:
		return "node and cid";
	}
	return "unknown";
}

/* ---- JSON: `nearcpu info --json`, and the head of each report ---- */

static json_t *set_json(const struct machine_set *set)
{
	return json_pack("{s:i, s:s}", "count", (int)set->count, "list", set->list);
}

static json_t *membarrier_json(unsigned commands)
{
	json_t *array = json_array();

	for (const struct machine_command *c = machine_commands; c->name; c++)
		if (commands & c->bit)
			json_array_append_new(array, json_string(c->name));
	return array;
}

static json_t *rseq_json(const struct near_rseq_status *st)
{
	return json_pack("{s:b, s:s, s:s, s:i, s:i, s:i, s:{s:b, s:b, s:b}, s:o, s:s}", "live",
			 st->live, "why", st->why, "registered_by",
			 !st->live      ? "nobody"
			 : st->own_area ? "nearcpu"
					: "libc",
			 "registered_bytes", (int)st->area_size, "feature_bytes",
			 (int)st->feature_size, "alignment", (int)st->feature_align, "features",
			 "node", st->has_node, "cid", st->has_cid, "slice_extension", st->has_slice,
			 "membarrier", membarrier_json(st->membarrier), "without_rseq", st->hint);
}

static json_t *slots_json(const struct machine *m)
{
	const char *error = m->reserve_error ? strerror(-m->reserve_error) : NULL;

	return json_pack("{s:i, s:s, s:s, s:I, s:s?}", "count", (int)m->rseq.slots, "by",
			 machine_slot_kind(m->rseq.slot_kind), "why", m->rseq.slot_why,
			 "reserved_bytes", (json_int_t)m->rseq.reserved, "reserve_error", error);
}

static json_t *parts_json(void)
{
	json_t *parts = json_object();

	for (const struct machine_part *p = machine_parts; p->name; p++)
		json_object_set_new(parts, p->name, json_boolean(p->built_in));
	return parts;
}

json_t *machine_json(const struct machine *m)
{
	return json_pack(
		"{s:s, s:{s:s, s:s, s:s}, s:s, s:s, s:I, s:{s:o, s:o, s:o}, s:o, s:o, s:o, "
		"s:{s:s?, s:s?}, s:o, s:s?, s:s?, s:{s:b, s:b}}",
		"nearcpu", NEARCPU_VERSION, "kernel", "name", m->kernel.sysname, "release",
		m->kernel.release, "machine", m->kernel.machine, "libc", m->libc, "processor",
		m->processor, "memory_bytes", (json_int_t)m->memory_bytes, "cpus", "possible",
		set_json(&m->possible), "online", set_json(&m->online), "allowed",
		set_json(&m->allowed), "nodes", set_json(&m->nodes), "rseq", rseq_json(&m->rseq),
		"slots", slots_json(m), "settings", "NEAR_CONF", m->conf, "GLIBC_TUNABLES",
		m->tunables, "built_with", parts_json(), "malloc_library",
		m->malloc_library[0] ? m->malloc_library : NULL, "atomic_library",
		m->atomic_library[0] ? m->atomic_library : NULL, "found", "perf", m->has_perf,
		"nearcpu-bench", m->has_bench);
}
