/* SPDX-License-Identifier: MIT */
/* The machine as JSON: `nearcpu info --json`, and the head of each report. */
#include "common/machine.h"

#include <string.h>

static json_t *set_json(const struct machine_set *set)
{
	return json_pack("{s:i, s:s}", "count", (int)set->count, "list", set->list);
}

static json_t *membarrier_json(unsigned commands)
{
	json_t *array = json_array();
	const char *name;
	unsigned i = 0;

	while ((name = machine_membarrier(commands, &i)))
		json_array_append_new(array, json_string(name));
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
