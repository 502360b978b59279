/* SPDX-License-Identifier: MIT */
/* The paths of the libraries and programs of this command. NEARCPU_LIBDIR and NEARCPU_LIBEXECDIR
 * are the installed directories, relative to that of the installed command; NEARCPU_BINDIR is the
 * command's, relative to that of the programs it executes. */
#include "common/installed.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void own_directory(char dir[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", dir, PATH_MAX - 1);

	dir[n > 0 ? n : 0] = '\0';
	if (!strrchr(dir, '/'))
		strcpy(dir, "./");
	*strrchr(dir, '/') = '\0';
}

/* Resolves the directory and keeps the name: the malloc's is a link that no version changes. */
static bool find_from(const char *dir, const char *const *places, const char *name, int mode,
		      char path[PATH_MAX])
{
	char place[2 * PATH_MAX];

	for (; *places; places++) {
		const char *from = (*places)[0] == '/' ? "" : dir;
		size_t n;

		snprintf(place, sizeof(place), "%s%s%s", from, *from ? "/" : "", *places);
		if (!realpath(place, path))
			continue;
		n = strlen(path);
		if ((size_t)snprintf(path + n, PATH_MAX - n, "/%s", name) < PATH_MAX - n &&
		    access(path, mode) == 0)
			return true;
	}
	return false;
}

/* The first file of `places`, each relative to the command's directory, that allows `mode`. A
 * program in LIBEXECDIR/nearcpu knows where the command is from there. */
static int file_find(const char *const *places, const char *name, int mode, char path[PATH_MAX])
{
	char dir[PATH_MAX], command[PATH_MAX + sizeof(NEARCPU_BINDIR)];

	own_directory(dir);
	if (find_from(dir, places, name, mode, path))
		return 0;
	snprintf(command, sizeof(command), "%s/%s", dir, NEARCPU_BINDIR);
	if (strcmp(strrchr(dir, '/'), "/nearcpu") == 0 &&
	    find_from(command, places, name, mode, path))
		return 0;
	strcpy(path, dir);
	return -ENOENT;
}

int find_library(enum library library, char path[PATH_MAX])
{
	static const char *const malloc_places[] = {"../", NEARCPU_LIBDIR "/nearcpu/", "", NULL};
	/* Not the directory of this program: a libatomic there may be GCC's. */
	static const char *const atomic_places[] = {"../libatomic/", NEARCPU_LIBDIR "/nearcpu/",
						    NULL};

	if (library == LIBRARY_ATOMIC)
		return file_find(atomic_places, ATOMIC_SONAME, R_OK, path);
	return file_find(malloc_places, library == LIBRARY_LOCKS ? LOCKS_FILE : MALLOC_FILE, R_OK,
			 path);
}

int find_program(const char *name, char path[PATH_MAX])
{
	static const char *const places[] = {"", NEARCPU_LIBEXECDIR "/nearcpu/", NULL};

	return file_find(places, name, X_OK, path);
}

int file_can_run(const char *file)
{
	struct stat st;

	if (stat(file, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EACCES;
	return access(file, X_OK) ? -errno : 0;
}

int find_in_path(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH");
	int worst = -ENOENT;

	for (dirs = dirs ? dirs : "/bin:/usr/bin"; *dirs;) {
		size_t n = strcspn(dirs, ":");
		int err;

		if (snprintf(path, PATH_MAX, "%.*s%s%s", (int)n, dirs, n ? "/" : "", name) <
		    PATH_MAX) {
			err = file_can_run(path);
			if (!err)
				return 0;
			if (err == -EACCES)
				worst = err;
		}
		dirs += n + (dirs[n] == ':');
	}
	return worst;
}
