/* SPDX-License-Identifier: MIT */
/* The allocator's keys of NEAR_CONF, and their defaults. */
#include "malloc/base/malloc_conf.h"

#define FIELD(f) offsetof(struct near__malloc_conf, f)

static const struct near__setting list[] = {
	{"malloc_check", "0", FIELD(check), 0},
	{"malloc_check", "1", FIELD(check), 1},
	{"malloc_mismatch", "0", FIELD(mismatch), 0},
	{"malloc_mismatch", "1", FIELD(mismatch), 1},
	{"malloc_background", "0", FIELD(background), NEAR__BACKGROUND_OFF},
	{"malloc_background", "1", FIELD(background), NEAR__BACKGROUND_ON},
	{"malloc_background", "auto", FIELD(background), NEAR__BACKGROUND_AUTO},
	{"malloc_age", NEAR__CONF_NUMBER, FIELD(decay_ms), 0},
	{"malloc_cache", NEAR__CONF_NUMBER, FIELD(cache), 0},
	{"malloc_stats", NEAR__CONF_TEXT, FIELD(stats), 0},
	{"malloc_region", NEAR__CONF_TEXT, FIELD(region), 0},
	{"heap_profile", NEAR__CONF_TEXT, FIELD(profile), 0},
	{"heap_sample", NEAR__CONF_NUMBER, FIELD(heap_sample), 0},
	{"heap_signal", NEAR__CONF_NUMBER, FIELD(heap_signal), 0},
	{"heap_interval", NEAR__CONF_NUMBER, FIELD(heap_interval), 0},
	{"heap_keep", NEAR__CONF_NUMBER, FIELD(heap_keep), 0},
};

static const struct near__settings settings = {
	.list = list,
	.count = sizeof(list) / sizeof(list[0]),
	.prefixes = near__conf_prefixes,
	.prefix_count = NEAR__CONF_MALLOC_PREFIXES,
	.own = 1,
};

struct near__malloc_conf near__malloc_conf = {
	.check = -1,
	.mismatch = 1,
	.background = NEAR__BACKGROUND_AUTO,
	.decay_ms = 1000,
	.cache = (uint64_t)64 << 20,
	.heap_sample = (uint64_t)512 << 10,
	.heap_keep = 100,
};

void near__malloc_conf_read(void)
{
	near__conf_read_part(&settings, &near__malloc_conf);
}
