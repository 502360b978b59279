/* SPDX-License-Identifier: MIT */
/* The slow paths and the reads of near_shared_counters. */
#define _GNU_SOURCE
#include <nearcpu/shared_counters.h>

#include <errno.h>
#include <string.h>

#include "base/reserved.h"
#include "region/region.h"

#define MOST (NEAR_REGION_MAX_SIZE / sizeof(int64_t))

int near_shared_counters_open_object(struct near_shared_counters *s, const struct near_region *r,
				     const struct near_region_object *o)
{
	memset(s, 0, sizeof(*s));
	if (o->kind != NEAR_REGION_COUNTERS || o->flags)
		return near__reason_set(r, -EINVAL, "the object is no counters");
	s->bases = (int64_t *)(r->base + o->offset);
	s->count = o->size / sizeof(int64_t);
	s->region = *r;
	return 0;
}

int near_shared_counters_open(struct near_shared_counters *s, const struct near_region *r,
			      const char *name, const char *labels,
			      const struct near_shared_counters_options *options)
{
	size_t count = options && options->count ? options->count : 1;
	struct near_region_object o = {.name = name,
				       .labels = labels,
				       .kind = NEAR_REGION_COUNTERS,
				       .size = count * sizeof(int64_t)};
	int err;

	memset(s, 0, sizeof(*s));
	if (options && !NEAR__RESERVED_ARE_ZERO(options))
		return near__reason_set(r, -EINVAL, "a reserved word of the options is not 0");
	if (count > MOST)
		return near__reason_set(r, -E2BIG, "a region has room for 33,554,432 counters");
	err = near_region_open_object(r, &o);
	return err ? err : near_shared_counters_open_object(s, r, &o);
}

void near_shared_counters_close(struct near_shared_counters *s)
{
	memset(s, 0, sizeof(*s));
}

/* Baseline first, as in near_counter_read. */
int64_t near_shared_counters_read(const struct near_shared_counters *s, size_t index)
{
	const int64_t *at = s->bases + index;
	uint64_t base = (uint64_t)__atomic_load_n(at, __ATOMIC_ACQUIRE);

	return (int64_t)(near__region_sum(&s->region, at) - base);
}

int64_t near_shared_counters_reset(struct near_shared_counters *s, size_t index)
{
	int64_t *at = s->bases + index;
	int64_t base = __atomic_load_n(at, __ATOMIC_ACQUIRE), now;

	do
		now = (int64_t)near__region_sum(&s->region, at);
	while (!__atomic_compare_exchange_n(at, &base, now, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE));
	return (int64_t)((uint64_t)now - (uint64_t)base);
}
