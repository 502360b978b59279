/* SPDX-License-Identifier: MIT */
/* Opens files that other users cannot have prepared. */
#define _GNU_SOURCE
#include "malloc/base/safe_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* O_NONBLOCK: opening a pipe that another user made there does not wait for its reader. */
#define FLAGS (O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* The system calls themselves: the C library's are cancellation points. */
static int open_file(const char *path, int flags)
{
	int saved = errno, fd = (int)syscall(SYS_openat, AT_FDCWD, path, FLAGS | flags, 0600);

	fd = fd < 0 ? -errno : fd;
	errno = saved;
	return fd;
}

int near__file_create(const char *path)
{
	return open_file(path, O_EXCL);
}

static int make_empty(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISCHR(st.st_mode) && (st.st_uid != geteuid() || st.st_nlink != 1))
		return -EPERM;
	fcntl(fd, F_SETFL, 0); /* writes wait */
	return S_ISREG(st.st_mode) && ftruncate(fd, 0) < 0 ? -errno : 0;
}

/* Not O_TRUNC: it would empty the file before its owner is checked. */
int near__file_replace(const char *path)
{
	int saved = errno, fd = open_file(path, 0), error;

	if (fd < 0)
		return fd;
	error = make_empty(fd);
	if (error)
		near__file_close(fd);
	errno = saved;
	return error ? error : fd;
}

int near__file_close(int fd)
{
	int saved = errno, error = syscall(SYS_close, fd) < 0 ? -errno : 0;

	errno = saved;
	return error;
}

const char *near__file_reason(int error)
{
	switch (-error) {
	case ELOOP:
		return ": it is a symbolic link";
	case EEXIST:
		return ": too many of these names are taken";
	case EPERM:
		return ": the file there is not this user's alone";
	case EACCES:
	case EROFS:
		return ": no permission";
	case ENOENT:
	case ENOTDIR:
		return ": no such directory";
	case EISDIR:
		return ": it is a directory";
	case ENXIO:
		return ": nothing reads that pipe";
	case ENAMETOOLONG:
		return ": the name is too long";
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return ": no space";
	case EMFILE:
	case ENFILE:
		return ": too many open files";
	default:
		return "";
	}
}
