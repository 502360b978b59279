/* SPDX-License-Identifier: MIT */
/* A directory for regions. */
#ifndef NEARCPU_TESTS_REGIONS_H
#define NEARCPU_TESTS_REGIONS_H

#include <dirent.h>

#include <nearcpu/shared.h>

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
		unlink(file);
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

static inline int open_region(struct near_shared *s, const char *name, size_t size)
{
	int r;

	memset(s, 0x5a, sizeof(*s));
	errno = UNIT_ERRNO;
	r = near_shared_open(s, name, size);
	CHECK(errno == UNIT_ERRNO);
	return r;
}

static inline void close_region(struct near_shared *s)
{
	errno = UNIT_ERRNO;
	near_shared_close(s);
	CHECK(errno == UNIT_ERRNO);
}

#endif
