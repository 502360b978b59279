/* SPDX-License-Identifier: MIT */
#include "machine.h"

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
	return json_pack("{s:b, s:s, s:i, s:s, s:i, s:i, s:{s:b, s:b, s:b}, s:o, s:s}", "live",
			 st->live, "why", st->why, "registered_bytes", (int)st->area_size,
			 "registered_by",
			 !st->live      ? "nobody"
			 : st->own_area ? "nearcpu"
					: "libc",
			 "feature_bytes", (int)st->feature_size, "alignment",
			 (int)st->feature_align, "features", "node", st->has_node, "cid",
			 st->has_cid, "slice_extension", st->has_slice, "membarrier",
			 membarrier_json(st->membarrier), "hint", st->hint);
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
	const struct near_rseq_status *st = &m->rseq;

	return json_pack("{s:s, s:{s:s, s:s, s:s}, s:s, s:s, s:I, s:{s:o, s:o, s:o}, s:o, s:o,"
			 " s:{s:i, s:s, s:s}, s:I, s:{s:s?, s:s?}, s:o, s:{s:b, s:b}}",
			 "nearcpu", NEARCPU_VERSION, "kernel", "name", m->kernel.sysname, "release",
			 m->kernel.release, "machine", m->kernel.machine, "libc", m->libc,
			 "processor", m->processor, "memory_bytes", (json_int_t)m->memory_bytes,
			 "cpus", "possible", set_json(&m->possible), "online", set_json(&m->online),
			 "allowed", set_json(&m->allowed), "nodes", set_json(&m->nodes), "rseq",
			 rseq_json(st), "slots", "count", (int)st->slots, "by",
			 machine_slot_kind(st->slot_kind), "why", st->slot_why, "reserved_bytes",
			 (json_int_t)st->reserved, "settings", "NEAR_CONF", m->conf,
			 "GLIBC_TUNABLES", m->tunables, "built_with", parts_json(), "found", "perf",
			 m->has_perf, "gnuplot", m->has_gnuplot);
}
