/* SPDX-License-Identifier: MIT */
/* A directory for regions. */
#ifndef NEARCPU_TESTS_REGIONS_H
#define NEARCPU_TESTS_REGIONS_H

#include <dirent.h>

#include <nearcpu/shared.h>

#include "percpu/internal.h"
#include "unit.h"

static char directory[] = "/tmp/nearcpu-shared-XXXXXX";
static char path[64];

static inline int set_up(void **state)
{
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/region", directory);
	return 0;
}

static inline int remove_files(void **state)
{
	DIR *d = opendir(directory);
	struct dirent *e;
	char file[512];

	while (d && (e = readdir(d))) {
		snprintf(file, sizeof(file), "%s/%s", directory, e->d_name);
		remove(file);
	}
	if (d)
		closedir(d);
	return 0;
}

static inline int tear_down(void **state)
{
	remove_files(state);
	return rmdir(directory);
}

/* Nothing half-made is left. */
static inline unsigned files(const char *where)
{
	DIR *d = opendir(where);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

static inline int create_region(struct near_shared *s, size_t size)
{
	int r;

	KEEPS_ERRNO(r = near_shared_create(s, size));
	return r;
}

static inline int open_region(struct near_shared *s, const char *name, size_t size)
{
	int r;

	memset(s, 0x5a, sizeof(*s));
	KEEPS_ERRNO(r = near_shared_open(s, name, size));
	return r;
}

static inline void close_region(struct near_shared *s)
{
	KEEPS_ERRNO(near_shared_close(s));
}

/* A region with this name can be opened; it stays open. */
static inline struct near_shared opened(const char *name, size_t size)
{
	struct near_shared s;

	CHECK(open_region(&s, name, size) == 0);
	return s;
}

static inline void open_and_close(const char *name, size_t size)
{
	struct near_shared s = opened(name, size);

	close_region(&s);
}

static inline struct near_region_object counter_named(const char *name, const char *labels)
{
	return (struct near_region_object){
		.name = name, .labels = labels, .kind = NEAR_REGION_COUNTERS, .size = 8};
}

static inline struct near_region opened_region(const struct near_region_options *options)
{
	struct near_region r;

	memset(&r, 0x5a, sizeof(r));
	int err;

	KEEPS_ERRNO(err = near_region_open(&r, path, options));
	if (err)
		fprintf(stderr, "%d %s\n", err, r.why);
	CHECK(!err);
	CHECK(!r.why);
	return r;
}

static inline int define(struct near_region *r, struct near_region_object *o)
{
	int err;

	KEEPS_ERRNO(err = near_region_define(r, o));
	CHECK(!err == !r->why);
	return err;
}

static const struct near_region_options defaults = {0};

#define REGION_MAIN(...)                                                                           \
	int main(void)                                                                             \
	{                                                                                          \
		return UNIT_GROUP(set_up, remove_files, tear_down, __VA_ARGS__);                   \
	}

#endif
