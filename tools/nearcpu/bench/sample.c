/* SPDX-License-Identifier: MIT */
/* Samples as JSON: from the processes that measure rows, and in the report. */
#include "bench/report.h"

/* The name that the processes use, the name in the report if that differs, and the kinds whose
 * report has it. BENCH_MEMORY has its own form. */
static const struct {
	const char *name, *shown;
	size_t at;
	unsigned kinds;
} members[] = {
#define ALL (1u << BENCH_TIME | 1u << BENCH_ALLOCATOR | 1u << BENCH_WAIT)
#define CALLS (1u << BENCH_ALLOCATOR | 1u << BENCH_WAIT)
#define AT(member) offsetof(struct bench_sample, member)
	{"ops", "ops", AT(ops), ALL},
	{"wall_ns", "wall_ns", AT(wall_ns), ALL},
	{"user_ns", "user_ns", AT(user_ns), ALL},
	{"system_ns", "system_ns", AT(system_ns), ALL},
	{"bytes", "peak_bytes", AT(bytes), 1u << BENCH_ALLOCATOR},
	{"least", "fewest", AT(least), 1u << BENCH_WAIT},
	{"most", "most", AT(most), 1u << BENCH_WAIT},
	{"p99_ns", "p99_ns", AT(p99_ns), CALLS},
	{"p999_ns", "p999_ns", AT(p999_ns), CALLS},
	{"longest_ns", "longest_ns", AT(longest_ns), 1u << BENCH_WAIT},
#undef ALL
#undef CALLS
#undef AT
};

#define MEMBERS (sizeof(members) / sizeof(members[0]))

bool sample_read(const json_t *json, struct bench_sample *s)
{
	if (!json_object_get(json, "ops") || !json_object_get(json, "wall_ns"))
		return false;
	for (size_t i = 0; i < MEMBERS; i++)
		*(uint64_t *)((char *)s + members[i].at) =
			(uint64_t)json_integer_value(json_object_get(json, members[i].name));
	return true;
}

json_t *sample_json(const struct table_result *t, const struct bench_sample *s)
{
	json_t *json = json_object();

	if (t->bench->kind == BENCH_MEMORY && !t->bench->pattern)
		json_object_set_new(json, "counters", json_integer((json_int_t)s->ops));
	if (t->bench->kind == BENCH_MEMORY)
		json_object_set_new(json, "bytes", json_integer((json_int_t)s->bytes));
	for (size_t i = 0; i < MEMBERS; i++)
		if (members[i].kinds >> t->bench->kind & 1)
			json_object_set_new(
				json, members[i].shown,
				json_integer((json_int_t) *
					     (const uint64_t *)((const char *)s + members[i].at)));
	return json;
}
