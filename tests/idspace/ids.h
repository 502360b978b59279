/* SPDX-License-Identifier: MIT */
/* What the tests of near_idspace share. */
#ifndef NEARCPU_TESTS_IDS_H
#define NEARCPU_TESTS_IDS_H

#include <nearcpu/idspace.h>

#include "idspace/idspace.h"
#include "base/fork.h"
#include "unit.h"

static inline struct near_idspace_stats ids_stats(struct near_idspace *s)
{
	struct near_idspace_stats st;

	memset(&st, 0x5a, sizeof(st));
	KEEPS_ERRNO(CHECK(near_idspace_stats(s, &st, sizeof(st)) == 0));
	return st;
}

static inline void ids_init(struct near_idspace *s, unsigned ids, size_t size)
{
	memset(s, 0x5a, sizeof(*s));
	KEEPS_ERRNO(CHECK(near_idspace_init(s, &(struct near_idspace_options){.ids = ids,
									      .size = size}) == 0));
}

static inline int ids_acquire(struct near_idspace *s, struct near_worker *w)
{
	int id;

	KEEPS_ERRNO(id = near_idspace_acquire(s, w));
	CHECK(near_worker_id(w) == (id < 0 ? -1 : id));
	CHECK(!near_worker_must_repair(w));
	return id;
}

static inline void ids_release(struct near_idspace *s, struct near_worker *w)
{
	KEEPS_ERRNO(near_idspace_release(s, w));
	CHECK(near_worker_id(w) == -1);
}

#endif
