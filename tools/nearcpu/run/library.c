/* SPDX-License-Identifier: MIT */
/* The libraries that are preloaded: where they are. */
#include "run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/tool.h"

#define MALLOC "libnearcpu-malloc.so.0"

/* Its SONAME is that of GCC's: when it is there, the dynamic linker looks for no other. */
#define ATOMIC "libatomic.so.1"

/* From the directory of this program. NEARCPU_LIBDIR is how the installed libraries stand to the
 * installed programs. */
static const char *const malloc_places[] = {"../" MALLOC, NEARCPU_LIBDIR "/" MALLOC, MALLOC, NULL};

/* Not beside this program: what stands there may be GCC's. */
static const char *const atomic_places[] = {"../libatomic/" ATOMIC,
					    NEARCPU_LIBDIR "/nearcpu/" ATOMIC, NULL};

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

int run_find_library(enum run_part part, char path[PATH_MAX])
{
	const char *const *place = part == RUN_ATOMIC ? atomic_places : malloc_places;
	char dir[PATH_MAX], file[2 * PATH_MAX];

	if (!own_directory(dir))
		strcpy(dir, ".");
	for (; *place; place++) {
		const char *from = (*place)[0] == '/' ? "" : dir;

		snprintf(file, sizeof(file), "%s%s%s", from, *from ? "/" : "", *place);
		if (access(file, R_OK) == 0 && realpath(file, path))
			return 0;
	}
	snprintf(path, PATH_MAX, "%.*s", PATH_MAX - 1, dir);
	return -ENOENT;
}

/* ---- for LD_PRELOAD ---- */

static int not_found(enum run_part part, const char *dir)
{
	if (part == RUN_ATOMIC)
		return failure("run",
			       ATOMIC
			       " of nearcpu was found neither in '%s/../libatomic' nor where "
			       "this program's libraries are installed, in nearcpu/: build it "
			       "(NEAR_SHARED=ON), or name it with --library",
			       dir);
	return failure("run",
		       MALLOC " was found neither beside '%s' nor where this program's libraries "
			      "are installed: build it (NEAR_SHARED=ON), or name it with --library",
		       dir);
}

/* Appends it to LD_PRELOAD. */
static int add(struct run_options *o, const char *library)
{
	size_t used = strlen(o->preload);
	int n = snprintf(o->preload + used, sizeof(o->preload) - used, "%s%s", used ? ":" : "",
			 library);

	if (n < 0 || (size_t)n >= sizeof(o->preload) - used)
		return failure("run", "LD_PRELOAD is too long");
	return 0;
}

static int add_part(struct run_options *o, enum run_part part, char path[PATH_MAX])
{
	if (o->library && !realpath(o->library, path))
		return failure("run", "cannot use '%s': %s", o->library, strerror(errno));
	if (!o->library && run_find_library(part, path))
		return not_found(part, path);
	if (strpbrk(path, ": \t\n"))
		return failure("run",
			       "LD_PRELOAD cannot name '%s': it has a colon or a space; copy it "
			       "elsewhere, and name it with --library",
			       path);
	return add(o, path);
}

/* Ours first, so that its symbols are found before those of others. */
int run_set_libraries(struct run_options *o)
{
	const char *had = getenv("LD_PRELOAD");
	int code = o->parts & RUN_MALLOC ? add_part(o, RUN_MALLOC, o->malloc) : 0;

	if (!code && o->parts & RUN_ATOMIC)
		code = add_part(o, RUN_ATOMIC, o->atomic);
	return code || !had || !*had ? code : add(o, had);
}
