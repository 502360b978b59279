/* SPDX-License-Identifier: MIT */
/* Files that appear whole, and standard output. */
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

#include "common/tool.h"

/* It exists and is not a regular file. */
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

/* Creates a file in the directory of `target`; `temp` receives its name. Returns the descriptor or
 * a negative errno. */
static int create_temporary(const char *target, char temp[PATH_MAX])
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
	/* Some file systems have no modes. */
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
	fd = create_temporary(target, temp);
	if (fd < 0)
		return fd;
	err = write_all(fd, data, size);
	/* With delayed allocation a full disk is reported here. */
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

static int check(const char *path)
{
	char target[PATH_MAX], temp[PATH_MAX];
	struct stat st;
	int fd, err;

	if (in_place(path)) {
		if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
			return -EISDIR;
		return access(path, W_OK) ? -errno : 0;
	}
	err = resolve(path, target);
	if (err)
		return err;
	fd = create_temporary(target, temp);
	if (fd < 0)
		return fd;
	close(fd);
	return unlink(temp) ? -errno : 0;
}

static int replace_atomically(const char *path, const char *data, size_t size)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	err = replace(path, data, size);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err;
}

static int report(const char *sub, const char *path, int err)
{
	return err ? failure(sub, "cannot write '%s': %s", path, strerror(-err)) : EXIT_DONE;
}

bool output_is_stdout(const char *path)
{
	return path && strcmp(path, "-") == 0;
}

int output_check(const char *sub, const char *path)
{
	return report(sub, path, path && !output_is_stdout(path) ? check(path) : 0);
}

int output_write(const char *sub, const char *path, const char *data, size_t size)
{
	int err = 0;

	if (!data)
		err = -ENOMEM;
	else if (output_is_stdout(path))
		write_stdout(data, size); /* finish_stdout reports its errors */
	else if (in_place(path))
		err = write_in_place(path, data, size);
	else
		err = replace_atomically(path, data, size);
	return report(sub, path, err);
}

int output_json(const char *sub, const char *path, json_t *json)
{
	char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
	size_t size = text ? strlen(text) : 0;
	int code;

	json_decref(json);
	if (text)
		text[size++] = '\n'; /* in place of the final zero */
	code = output_write(sub, path, text, size);
	free(text);
	return code;
}
