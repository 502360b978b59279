/* SPDX-License-Identifier: MIT */
/* file: the files that the library writes by itself: heap profiles, statistics. They contain
 * addresses of the process, and other users may create names in their directory. They are therefore
 * for their owner alone (mode 0600), and the last part of a path is never a symbolic link. All
 * functions may be called in signal handlers, are no cancellation points, and leave errno alone. */
#ifndef NEARCPU_MALLOC_SAFE_FILE_H
#define NEARCPU_MALLOC_SAFE_FILE_H

/* A new file, open for writing. -EEXIST: the name is taken. */
int near__file_create(const char *path);

/* The same, or an empty file instead of what is there: a file that belongs to this user and has one
 * name, or a character device, which only the system's owner can make. Neither: -EPERM. */
int near__file_replace(const char *path);

/* 0 or a negative errno. */
int near__file_close(int fd);

/* Of a negative errno: ": " and what was wrong, or "" where there is nothing to add. */
const char *near__file_reason(int error);

#endif
