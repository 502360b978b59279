/* SPDX-License-Identifier: MIT */
/* Tests of near_shared_ids in one region, with workers: both new in each test. */
#ifndef NEARCPU_TESTS_FEW_IDS_H
#define NEARCPU_TESTS_FEW_IDS_H

#include "one_node.h"
#include "shared.h"

static const struct near_shared_ids_options few = {.ids = 4, .seats = 2};

static struct near_region region;
static struct near_shared_ids ids;
static struct near_worker w[8];

static inline int make_region(void **state)
{
	memset(w, 0, sizeof(w));
	region = opened_region(&(struct near_region_options){.common_size = 4 << 20});
	return 0;
}

static inline int remove_region(void **state)
{
	near_region_close(&region);
	return remove_files(state);
}

#endif
