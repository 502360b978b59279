/* SPDX-License-Identifier: MIT */
/* A directory for regions. */
#ifndef NEARCPU_TESTS_REGIONS_H
#define NEARCPU_TESTS_REGIONS_H

#include <dirent.h>

#include <nearcpu/shared_counters.h>

#include "counters.h"
#include "percpu/percpu.h"
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

/* Counters in a region of their own. */
static inline int create_region(struct near_shared_counters *s, size_t count)
{
	int r;

	KEEPS_ERRNO(r = counters_open(s, count));
	return r;
}

/* The first object of a region that has been opened, which may have failed. */
static inline int use_counters(struct near_shared_counters *s, struct near_region *r, int err)
{
	struct near_region_object o;

	if (err)
		return err;
	err = near_region_object(r, 0, &o) ?: near_shared_counters_open_object(s, r, &o);
	if (err)
		near_region_close(r);
	return err;
}

static inline int open_region_fd(struct near_shared_counters *s, int fd)
{
	struct near_region r;
	int err;

	KEEPS_ERRNO(err = use_counters(s, &r, near_region_open_fd(&r, fd)));
	return err;
}

/* Count 0: of a region that exists, with whatever it has. */
static inline int open_region(struct near_shared_counters *s, const char *name, size_t count)
{
	struct near_region r;
	int err;

	memset(s, 0x5a, sizeof(*s));
	if (count)
		KEEPS_ERRNO(err = counters_make(s, name, count));
	else
		KEEPS_ERRNO(err = use_counters(s, &r, near_region_open(&r, name, NULL)));
	return err;
}

static inline void close_region(struct near_shared_counters *s)
{
	KEEPS_ERRNO(counters_close(s));
}

/* A region with this name can be opened; it stays open. */
static inline struct near_shared_counters opened(const char *name, size_t count)
{
	struct near_shared_counters s;

	CHECK(open_region(&s, name, count) == 0);
	return s;
}

static inline void open_and_close(const char *name, size_t count)
{
	struct near_shared_counters s = opened(name, count);

	close_region(&s);
}

static inline struct near_region_object counter_named(const char *name, const char *labels)
{
	return (struct near_region_object){
		.name = name, .labels = labels, .kind = NEAR_REGION_COUNTERS, .size = 8};
}

static inline struct near_region opened_region(const struct near_region_options *options)
{
	struct near_region_options create = options ? *options : (struct near_region_options){0};
	struct near_region r;
	int err;

	create.flags = NEAR_CREATE;
	memset(&r, 0x5a, sizeof(r));
	KEEPS_ERRNO(err = near_region_open(&r, path, options ? &create : NULL));
	if (err)
		fprintf(stderr, "%d %s\n", err, near_region_error(&r));
	CHECK(!err);
	return r;
}

static inline int define(struct near_region *r, struct near_region_object *o)
{
	int err;

	KEEPS_ERRNO(err = near_region_open_object(r, o));
	CHECK(!err || near_region_error(r));
	return err;
}

static const struct near_region_options defaults = {.flags = NEAR_CREATE};

#define REGION_MAIN(...)                                                                           \
	int main(void)                                                                             \
	{                                                                                          \
		return UNIT_GROUP(set_up, remove_files, tear_down, __VA_ARGS__);                   \
	}

#endif
