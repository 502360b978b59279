/* SPDX-License-Identifier: MIT */
/* What the addresses of call stacks are, by the lines of /proc/PID/maps that the trace has
 * (NEAR__TRACE_OBJECT). Each address is searched for once. */
#include "trace/print.h"

#include <inttypes.h>
#include <jansson.h>

#include "common/symbols.h"
#include "common/text.h"

/* In the last object that was there. */
static bool find_object(const struct trace_file *f, uint64_t address)
{
	for (unsigned id = UINT16_MAX; id; id--) {
		const struct trace_point *p = f->points[id];

		if (p && p->is_object && symbols_find(p->place, address))
			return true;
	}
	return false;
}

const char *trace_address(const struct trace_field *f, uint64_t address)
{
	struct trace_file *file = f->point->file->owner;
	struct word key = word("0x%" PRIx64, address);
	json_t *text = json_object_get(file->symbols, key.text);

	if (text)
		return json_string_value(text);
	text = json_string(find_object(file, address)
				   ? symbols_name(file->session.begin.realtime_ns)
				   : key.text);
	if (!file->symbols)
		file->symbols = json_object();
	json_object_set_new(file->symbols, key.text, text);
	return json_string_value(text);
}
