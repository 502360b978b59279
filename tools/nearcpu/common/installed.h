/* SPDX-License-Identifier: MIT */
/* installed: where the libraries and the programs of this command are, in the build tree or
 * installed; and programs in PATH. */
#ifndef NEARCPU_INSTALLED_H
#define NEARCPU_INSTALLED_H

#include <limits.h>

/* The libraries that `nearcpu run` preloads, and that of `nearcpu locks`. */
enum library { LIBRARY_MALLOC = 1, LIBRARY_ATOMIC = 2, LIBRARY_BOTH = 3, LIBRARY_LOCKS = 4 };

/* Where it is installed, in LIBDIR/nearcpu: the name is the same in all versions. */
#define MALLOC_FILE "libnearcpu-malloc.so"
#define LOCKS_FILE "libnearcpu-locks.so"

/* The SONAME of GCC's: once it is loaded, the dynamic linker loads no other. */
#define ATOMIC_SONAME "libatomic.so.1"

/* The file of one library. -ENOENT: `path` receives the directory of this program. */
int find_library(enum library library, char path[PATH_MAX]);

/* A program that this command executes. 0 or -ENOENT. */
int find_program(const char *name, char path[PATH_MAX]);

/* Whether this process may execute the file: 0 or a negative errno. */
int file_can_run(const char *file);

/* As execvp: 0, -ENOENT, or -EACCES if all files of that name must not be executed. */
int find_in_path(const char *name, char path[PATH_MAX]);

#endif
