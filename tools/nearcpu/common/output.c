/* SPDX-License-Identifier: MIT */
#include "common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where a file is written in place: it exists and is not a regular one. */
static bool in_place(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

/* The file behind a symbolic link is replaced, not the link. */
static int resolve(const char *path, char target[PATH_MAX])
{
	struct stat st;

	if (realpath(path, target))
		return 0;
	if (errno != ENOENT)
		return -errno;
	if (lstat(path, &st) == 0)
		return -ENOENT; /* a link to nowhere */
	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(target, path, strlen(path) + 1);
	return 0;
}

/* Creates a file beside `target`; `temp` receives its name. Returns the descriptor or negative
 * errno. */
static int create_beside(const char *target, char temp[PATH_MAX])
{
	struct stat st;
	mode_t mask, mode = 0666;
	int fd;

	if (stat(target, &st) == 0) {
		if (access(target, W_OK))
			return -errno;
		mode = st.st_mode & 07777;
	} else {
		mask = umask(0);
		umask(mask);
		mode &= ~mask;
	}
	if (snprintf(temp, PATH_MAX, "%s.XXXXXX", target) >= PATH_MAX)
		return -ENAMETOOLONG;
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Some file systems have no modes; the file is good all the same. */
	if (fchmod(fd, mode) && errno != EPERM && errno != ENOTSUP) {
		int err = -errno;

		close(fd);
		unlink(temp);
		return err;
	}
	return fd;
}

static int replace(const char *path, const char *data, size_t size)
{
	char target[PATH_MAX], temp[PATH_MAX];
	int fd, err = resolve(path, target);

	if (err)
		return err;
	fd = create_beside(target, temp);
	if (fd < 0)
		return fd;
	err = write_all(fd, data, size);
	/* A disk that allocates late says here that it is full. */
	if (!err && fsync(fd) && errno != EINVAL)
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(temp, target))
		err = -errno;
	if (err)
		unlink(temp);
	return err;
}

static int write_in_place(const char *path, const char *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY), err;

	if (fd < 0)
		return -errno;
	err = write_all(fd, data, size);
	if (close(fd) && !err)
		err = -errno;
	return err;
}

int output_check(const char *path)
{
	char target[PATH_MAX], temp[PATH_MAX];
	int fd, err;

	if (in_place(path)) {
		struct stat st;

		if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
			return -EISDIR;
		return access(path, W_OK) ? -errno : 0;
	}
	err = resolve(path, target);
	if (err)
		return err;
	fd = create_beside(target, temp);
	if (fd < 0)
		return fd;
	close(fd);
	return unlink(temp) ? -errno : 0;
}

int output_write(const char *path, const char *data, size_t size)
{
	sigset_t all, before;
	int err;

	if (in_place(path))
		return write_in_place(path, data, size);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	err = replace(path, data, size);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err;
}
