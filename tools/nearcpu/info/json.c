/* SPDX-License-Identifier: MIT */
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
	const char *by = !st->live ? "nobody" : st->own_area ? "nearcpu" : "libc";
	json_t *json =
		json_pack("{s:b, s:s, s:s}", "live", st->live, "why", st->why, "registered_by", by);

	json_object_set_new(json, "registered_bytes", json_integer(st->area_size));
	json_object_set_new(json, "feature_bytes", json_integer(st->feature_size));
	json_object_set_new(json, "alignment", json_integer(st->feature_align));
	json_object_set_new(json, "features",
			    json_pack("{s:b, s:b, s:b}", "node", st->has_node, "cid", st->has_cid,
				      "slice_extension", st->has_slice));
	json_object_set_new(json, "membarrier", membarrier_json(st->membarrier));
	json_object_set_new(json, "without_rseq", json_string(st->hint));
	return json;
}

static json_t *slots_json(const struct machine *m)
{
	const char *error = m->reserve_error ? strerror(-m->reserve_error) : NULL;

	return json_pack("{s:i, s:s, s:s, s:I, s:s?}", "count", (int)m->rseq.slots, "by",
			 machine_slot_kind(m->rseq.slot_kind), "why", m->rseq.slot_why,
			 "reserved_bytes", (json_int_t)m->rseq.reserved, "reserve_error", error);
}

static json_t *cpus_json(const struct machine *m)
{
	return json_pack("{s:o, s:o, s:o}", "possible", set_json(&m->possible), "online",
			 set_json(&m->online), "allowed", set_json(&m->allowed));
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
	json_t *json = json_pack("{s:s, s:{s:s, s:s, s:s}, s:s, s:s, s:I}", "nearcpu",
				 NEARCPU_VERSION, "kernel", "name", m->kernel.sysname, "release",
				 m->kernel.release, "machine", m->kernel.machine, "libc", m->libc,
				 "processor", m->processor, "memory_bytes",
				 (json_int_t)m->memory_bytes);

	json_object_set_new(json, "cpus", cpus_json(m));
	json_object_set_new(json, "nodes", set_json(&m->nodes));
	json_object_set_new(json, "rseq", rseq_json(&m->rseq));
	json_object_set_new(json, "slots", slots_json(m));
	json_object_set_new(json, "settings",
			    json_pack("{s:s?, s:s?}", "NEAR_CONF", m->conf, "GLIBC_TUNABLES",
				      m->tunables));
	json_object_set_new(json, "built_with", parts_json());
	json_object_set_new(json, "malloc_library",
			    json_pack("s?", m->malloc_library[0] ? m->malloc_library : NULL));
	json_object_set_new(json, "atomic_library",
			    json_pack("s?", m->atomic_library[0] ? m->atomic_library : NULL));
	json_object_set_new(json, "found",
			    json_pack("{s:b, s:b}", "perf", m->has_perf, "gnuplot",
				      m->has_gnuplot));
	return json;
}
