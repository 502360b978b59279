/* SPDX-License-Identifier: MIT */
/* The slow paths and the reads of near_shared. */
#define _GNU_SOURCE
#include <nearcpu/shared.h>

#include <errno.h>
#include <string.h>

#include "percpu/region.h"

#define NAME "near_shared" /* of the object in a region of its own */

static void use(struct near_shared *s, const struct near_region *r,
		const struct near_region_object *o)
{
	s->bases = (int64_t *)(r->common + o->offset);
	s->region = *r;
	s->size = o->size;
	s->fd = r->fd;
}

/* The region, which may be another one's, has been opened. */
static int use_own(struct near_shared *s, size_t size, int err)
{
	struct near_region_object o;

	if (err)
		return err;
	if (s->region.read_only)
		err = -EACCES;
	else if (near_region_object(&s->region, 0, &o) || o.kind != NEAR_REGION_COUNTERS ||
		 o.flags || strcmp(o.name, NAME) != 0)
		err = -EBADMSG;
	else if (size && size != o.size)
		err = -EINVAL;
	if (err)
		near_region_close(&s->region);
	else
		use(s, &s->region, &o);
	s->is_own = !err;
	return err;
}

static int check_size(size_t size)
{
	if (size == 0 || size % sizeof(int64_t))
		return -EINVAL;
	return size > NEAR_SHARED_MAX_SIZE ? -E2BIG : 0;
}

#define OBJECT(bytes)                                                                              \
	{                                                                                          \
		.name = NAME, .labels = "", .kind = NEAR_REGION_COUNTERS, .size = (bytes)          \
	}

/* As small as it can be. */
#define OPTIONS(bytes, object)                                                                     \
	{                                                                                          \
		.size = (bytes), .once = sizeof(int64_t), .objects = 1, .first = (object)          \
	}

/* A region that exists is opened first, whatever the size: what it is not, its error says. */
int near_shared_open(struct near_shared *s, const char *path, size_t size)
{
	struct near_region_object o = OBJECT(size);
	struct near_region_options options = OPTIONS(size, &o);
	int err;

	memset(s, 0, sizeof(*s));
	err = near_region_open(&s->region, path, NULL);
	if (err == -ENOENT && size)
		err = check_size(size);
	if (err == 0 && !s->region.header)
		err = near_region_open(&s->region, path, &options);
	return use_own(s, size, err);
}

int near_shared_create(struct near_shared *s, size_t size)
{
	struct near_region_object o = OBJECT(size);
	struct near_region_options options = OPTIONS(size, &o);
	int err = check_size(size);

	memset(s, 0, sizeof(*s));
	return err ? err : use_own(s, size, near_region_create(&s->region, &options));
}

int near_shared_attach(struct near_shared *s, int fd)
{
	memset(s, 0, sizeof(*s));
	return use_own(s, 0, near_region_attach(&s->region, fd));
}

int near_shared_use(struct near_shared *s, const struct near_region *r,
		    const struct near_region_object *o)
{
	memset(s, 0, sizeof(*s));
	if (o->kind != NEAR_REGION_COUNTERS || o->flags)
		return -EINVAL;
	use(s, r, o);
	return 0;
}

int near_shared_define(struct near_shared *s, struct near_region *r, const char *name,
		       const char *labels, size_t size)
{
	struct near_region_object o = {
		.name = name, .labels = labels, .kind = NEAR_REGION_COUNTERS, .size = size};
	int err = near_region_define(r, &o);

	memset(s, 0, sizeof(*s));
	return err ? err : near_shared_use(s, r, &o);
}

void near_shared_close(struct near_shared *s)
{
	if (s->is_own)
		near_region_close(&s->region);
	memset(s, 0, sizeof(*s));
}

/* Baseline first, as in near_counter_read. */
int64_t near_shared_read(const struct near_shared *s, size_t offset)
{
	const int64_t *at = s->bases + offset / sizeof(int64_t);
	uint64_t base = (uint64_t)__atomic_load_n(at, __ATOMIC_ACQUIRE);

	return (int64_t)(near__region_sum(&s->region, at) - base);
}

int64_t near_shared_reset(struct near_shared *s, size_t offset)
{
	int64_t *at = s->bases + offset / sizeof(int64_t);
	int64_t base = __atomic_load_n(at, __ATOMIC_ACQUIRE), now;

	do
		now = (int64_t)near__region_sum(&s->region, at);
	while (!__atomic_compare_exchange_n(at, &base, now, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE));
	return (int64_t)((uint64_t)now - (uint64_t)base);
}
