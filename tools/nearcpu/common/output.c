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

#include "common/child.h"
#include "common/tool.h"
#include "base/signals.h"

/* It exists and is not a regular file. */
static bool in_place(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
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

static int output_report(const char *sub, const char *path, int err)
{
	return err ? failure(sub, "cannot write '%s': %s", path, strerror(-err)) : EXIT_DONE;
}

bool output_is_stdout(const char *path)
{
	return path && strcmp(path, "-") == 0;
}

static int open_file(struct output *o)
{
	int fd, err = 0;

	if (in_place(o->path))
		fd = open(o->path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
	else if ((err = resolve(o->path, o->target)) == 0)
		fd = create_temporary(o->target, o->temp);
	if (err || fd < 0)
		return err ? err : in_place(o->path) ? -errno : fd;
	o->file = fdopen(fd, "w");
	if (!o->file)
		return -errno;
	setvbuf(o->file, NULL, _IOFBF, 1 << 16);
	return 0;
}

int output_open(struct output *o, const char *sub, const char *path)
{
	*o = (struct output){.sub = sub, .path = path};
	if (output_is_stdout(path)) {
		o->file = stdout;
		return EXIT_DONE;
	}
	return output_report(sub, path, open_file(o));
}

int output_close(struct output *o, int code)
{
	int err = o->err;

	if (!o->file || o->file == stdout)
		return code;
	errno = 0;
	if ((fflush(o->file) || ferror(o->file)) && !err)
		err = errno ? -errno : -EIO;
	/* With delayed allocation a full disk is reported here. */
	if (!err && *o->temp && fsync(fileno(o->file)) && errno != EINVAL)
		err = -errno;
	if (fclose(o->file) && !err)
		err = -errno;
	if (!code)
		code = output_report(o->sub, o->path, err);
	if (!code && *o->temp && rename(o->temp, o->target))
		code = output_report(o->sub, o->path, -errno);
	if (code && *o->temp)
		unlink(o->temp);
	return code;
}

int output_check(const char *sub, const char *path)
{
	struct output o = {.path = path};
	struct stat st;
	int err = 0;

	if (!path || output_is_stdout(path))
		return EXIT_DONE;
	if (!in_place(path))
		err = open_file(&o);
	else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		err = -EISDIR;
	else if (access(path, W_OK))
		err = -errno;
	if (o.file) {
		fclose(o.file);
		unlink(o.temp);
	}
	return output_report(sub, path, err);
}

int output_write(const char *sub, const char *path, const char *data, size_t size)
{
	bool is_blocked = !output_is_stdout(path) && !in_place(path);
	struct output o;
	sigset_t before;
	int code;

	if (!data)
		return output_report(sub, path, -ENOMEM);
	if (is_blocked)
		near__signals_block(&before);
	code = output_open(&o, sub, path);
	if (o.file == stdout)
		write_stdout(data, size); /* finish_stdout reports its errors */
	else if (!code && fwrite(data, 1, size, o.file) != size)
		o.err = -errno;
	code = output_close(&o, code);
	if (is_blocked)
		near__signals_restore(&before);
	return code;
}

int write_at(int fd, const void *data, size_t size, uint64_t at)
{
	const char *from = data;

	while (size) {
		ssize_t n = at == AT_END ? write(fd, from, size)
					 : pwrite(fd, from, size, (off_t)at);

		if (n < 0 && (errno != EINTR || child_interrupted()))
			return -errno;
		n = n > 0 ? n : 0;
		from += n;
		at += at == AT_END ? 0 : (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
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
