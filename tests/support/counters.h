/* SPDX-License-Identifier: MIT */
/* Shared counters in a region of their own without a name, as small as it can be. Their copy of the
 * region is the only one. */
#ifndef NEARCPU_TESTS_COUNTERS_H
#define NEARCPU_TESTS_COUNTERS_H

#include <nearcpu/shared_counters.h>

/* `path` may be NULL. The region is made with the counters in it, all at once. */
static inline int counters_make(struct near_shared_counters *s, const char *path, size_t count)
{
	struct near_region_object o = {
		.name = "counters", .kind = NEAR_REGION_COUNTERS, .size = count * sizeof(int64_t)};
	const struct near_region_options small = {.flags = NEAR_CREATE,
						  .size = count * sizeof(int64_t),
						  .common_size = 8,
						  .max_objects = 1,
						  .initial = &o};
	const struct near_shared_counters_options options = {.count = count};
	struct near_region r;
	int err = near_region_open(&r, path, &small);

	if (err)
		return err;
	err = near_shared_counters_open(s, &r, o.name, NULL, &options);
	if (err)
		near_region_close(&r);
	return err;
}

static inline int counters_open(struct near_shared_counters *s, size_t count)
{
	return counters_make(s, NULL, count);
}

static inline void counters_close(struct near_shared_counters *s)
{
	struct near_region r = s->region;

	near_shared_counters_close(s);
	near_region_close(&r);
}

#endif
