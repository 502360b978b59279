/* SPDX-License-Identifier: MIT */
/* The statistics as JSON. */
#include <stddef.h>
#include <string.h>

#include "malloc/diagnostics/malloc_stats.h"

/* Has no pointer, which the dynamic linker would have to relocate in each process. */
struct field {
	char name[18];
	uint16_t offset;
};

/* clang-format off */
#define ALL(f) {#f, offsetof(struct near_malloc_stats, f)}
#define CLASS(f) {#f, offsetof(struct near_malloc_class_stats, f)}

static const struct field all_fields[] = {
	ALL(misses), ALL(slotless), ALL(large_allocations), ALL(refills), ALL(spills),
	ALL(central_refills), ALL(central_spills), ALL(drains), ALL(fences), ALL(given_back),
	 ALL(give_backs), ALL(classes), ALL(slots), ALL(threads), ALL(large_blocks),
	ALL(reserved), ALL(committed), ALL(resident), ALL(in_use), ALL(large), ALL(cached),
	ALL(central), ALL(free_dirty), ALL(free_clean), ALL(metadata),
};

static const struct field class_fields[] = {
	CLASS(size), CLASS(misses), CLASS(refills), CLASS(spills),
	CLASS(central_refills), CLASS(central_spills), CLASS(in_use), CLASS(cached),
	CLASS(central), CLASS(spans), CLASS(span_bytes),
};
/* clang-format on */

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
_Static_assert(COUNT(all_fields) * 8 == sizeof(struct near_malloc_stats), "a field is missing");
_Static_assert(COUNT(class_fields) * 8 == sizeof(struct near_malloc_class_stats),
	       "a field is missing");

/* Fields before `until` are counts, which begin at those of `base`, unless it is NULL. */
static void put_fields(struct near__out *o, const struct field *fields, size_t count,
		       const void *from, const void *base, size_t until, const char *between)
{
	for (size_t i = 0; i < count; i++) {
		size_t offset = fields[i].offset;
		uint64_t n, before = 0;

		memcpy(&n, (const char *)from + offset, sizeof(n));
		if (base && offset < until)
			memcpy(&before, (const char *)base + offset, sizeof(before));
		near__out_print(o, "%s\"%s\": %lu", i ? between : "", fields[i].name,
				n > before ? n - before : 0);
	}
}

void near__stats_take_base(struct near__stats_base *base)
{
	near__stats_read(base);
	for (unsigned n = 0; n < NEAR__SIZES; n++)
		base->classes[n].size = 0; /* the size is no count */
}

int near__stats_json_since(const struct near__stats_base *base, struct near__out *o)
{
	struct near_malloc_class_stats class;
	struct near_malloc_stats all;

	near_malloc_stats(&all, sizeof(all));
	near__out_print(o, "{\n  ");
	put_fields(o, all_fields, COUNT(all_fields), &all, base ? &base->all : NULL,
		   offsetof(struct near_malloc_stats, classes), ",\n  ");
	near__out_print(o, ",\n  \"by_class\": [");
	for (unsigned n = 0; near_malloc_class_stats(n, &class, sizeof(class)) == 0; n++) {
		near__out_print(o, "%s\n    {", n ? "," : "");
		put_fields(o, class_fields, COUNT(class_fields), &class,
			   base ? &base->classes[n] : NULL,
			   offsetof(struct near_malloc_class_stats, in_use), ", ");
		near__out_print(o, "}");
	}
	near__out_print(o, "\n  ]\n}\n");
	return near__out_end(o);
}

int near_malloc_stats_json(int (*write)(void *arg, const char *text, size_t size), void *arg)
{
	struct near__out o;

	near__out_begin(&o, write, arg);
	return near__stats_json_since(NULL, &o);
}
