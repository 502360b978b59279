/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME "libnearcpu-malloc.so.0"

/* From the directory of this program. NEARCPU_LIBDIR is how the installed libraries stand to the
 * installed programs. */
static const char *const places[] = {"../" NAME, NEARCPU_LIBDIR "/" NAME, NAME};

#define PLACES (sizeof(places) / sizeof(places[0]))

static bool own_directory(char dir[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", dir, PATH_MAX - 1);
	char *slash;

	if (n <= 0)
		return false;
	dir[n] = '\0';
	slash = strrchr(dir, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

int run_find_library(char path[PATH_MAX])
{
	char dir[PATH_MAX], file[2 * PATH_MAX];

	if (!own_directory(dir))
		strcpy(dir, ".");
	for (size_t i = 0; i < PLACES; i++) {
		const char *from = places[i][0] == '/' ? "" : dir;

		snprintf(file, sizeof(file), "%s%s%s", from, *from ? "/" : "", places[i]);
		if (access(file, R_OK) == 0 && realpath(file, path))
			return 0;
	}
	snprintf(path, PATH_MAX, "%.*s", PATH_MAX - 1, dir);
	return -ENOENT;
}
