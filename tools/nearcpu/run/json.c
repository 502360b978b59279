/* SPDX-License-Identifier: MIT */
/* What the JSON of --stats and of --compare have in common. */
#include "run/run.h"

json_t *run_argv_json(const struct run_options *o)
{
	json_t *argv = json_array();

	for (char *const *a = o->argv; *a; a++) {
		json_t *word = json_string(*a);

		json_array_append_new(argv, word ? word : json_null());
	}
	return argv;
}

json_t *run_parts_json(const struct run_options *o)
{
	json_t *parts = json_array();

	if (o->parts & LIBRARY_MALLOC)
		json_array_append_new(parts, json_string("malloc"));
	if (o->parts & LIBRARY_ATOMIC)
		json_array_append_new(parts, json_string("atomic"));
	return parts;
}
