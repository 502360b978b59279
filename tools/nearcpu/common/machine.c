/* SPDX-License-Identifier: MIT */
/* What the kernel, the C library and the build offer this process. */
#include "common/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <linux/membarrier.h>
#include <nearcpu/percpu.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/installed.h"

/* More CPUs than any kernel is built for. */
#define SET_CPUS 8192

const struct machine_part machine_parts[] = {
	{"nsync", WITH_NSYNC},   {"ck", WITH_CK},
	{"absl", WITH_ABSL},     {"Rust's locks", WITH_RUST},
	{"libelf", WITH_LIBELF}, {"capstone", WITH_CAPSTONE},
	{NULL, false},
};

void machine_ascii(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

static ssize_t read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return n;
}

/* How many numbers a list names, "0-3,8": 5. */
static unsigned count_list(const char *list)
{
	unsigned count = 0;

	while (*list) {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (end == list)
			break;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		count += (unsigned)(last - first) + 1;
		list = *end == ',' ? end + 1 : end;
	}
	return count;
}

static void read_set(struct machine_set *set, const char *path)
{
	char text[4096];

	if (read_file(path, text, sizeof(text)) < 0)
		return;
	text[strcspn(text, "\n")] = 0;
	set->count = count_list(text);
	if (snprintf(set->list, sizeof(set->list), "%s", text) >= (int)sizeof(set->list))
		memcpy(set->list + sizeof(set->list) - 5, " ...", 5);
}

static void append_range(struct machine_set *set, unsigned first, unsigned last)
{
	size_t used = strlen(set->list);

	snprintf(set->list + used, sizeof(set->list) - used, first == last ? "%s%u" : "%s%u-%u",
		 used ? "," : "", first, last);
}

static void read_allowed(struct machine_set *set)
{
	size_t size = CPU_ALLOC_SIZE(SET_CPUS);
	cpu_set_t *cpus = CPU_ALLOC(SET_CPUS);
	unsigned cpu, first;

	if (!cpus)
		return;
	CPU_ZERO_S(size, cpus);
	if (sched_getaffinity(0, size, cpus) == 0)
		set->count = (unsigned)CPU_COUNT_S(size, cpus);
	for (cpu = 0; cpu < SET_CPUS; cpu++) {
		if (!CPU_ISSET_S(cpu, size, cpus))
			continue;
		for (first = cpu; cpu + 1 < SET_CPUS && CPU_ISSET_S(cpu + 1, size, cpus);)
			cpu++;
		append_range(set, first, cpu);
	}
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
	machine_ascii(out);
	return true;
}

static void read_processor(char *out, size_t size)
{
	char text[4096];

	read_file("/proc/cpuinfo", text, sizeof(text));
	if (processor_line(text, "model name", out, size) || /* x86 */
	    processor_line(text, "uarch", out, size) ||      /* riscv */
	    processor_line(text, "CPU part", out, size))     /* arm: a number */
		return;
	snprintf(out, size, "unknown");
}

/* The environment may hold any bytes; JSON and terminals take text. */
static const char *printable(char *out, size_t size, const char *name)
{
	const char *text = getenv(name);

	if (!text)
		return NULL;
	snprintf(out, size, "%s", text);
	machine_ascii(out);
	return out;
}

/* The first object reserves address space, unless a limit forbids. */
static void try_to_reserve(struct machine *m)
{
	void *p;

	m->reserve_error = near_percpu_alloc(&p, sizeof(uint64_t), sizeof(uint64_t));
	if (!m->reserve_error)
		near_percpu_free(p);
}

void machine_read(struct machine *m)
{
	char path[PATH_MAX];

	memset(m, 0, sizeof(*m));
	/* First: the library comments out bad settings when it reads them. */
	m->conf = printable(m->conf_text, sizeof(m->conf_text), "NEAR_CONF");
	m->tunables = printable(m->tunables_text, sizeof(m->tunables_text), "GLIBC_TUNABLES");
	uname(&m->kernel);
	snprintf(m->libc, sizeof(m->libc), "glibc %s", gnu_get_libc_version());
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
	m->has_gnuplot = find_in_path("gnuplot", path) == 0;
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
		"gnuplot", m->has_gnuplot);
}
