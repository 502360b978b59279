/* SPDX-License-Identifier: MIT */
/* Files that nearcpu trace writes, and how it stops. */
#include "trace/print.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/child.h"
#include "common/output.h"
#include "common/tool.h"

static int cannot_write(const char *path, int err)
{
	return failure("trace", "cannot write '%s': %s", path, strerror(err));
}

/* What is no regular file, such as a pipe, is written in place. */
int trace_output_open(struct trace_output *o, const char *path)
{
	struct stat st;
	mode_t mask;
	int fd;

	*o = (struct trace_output){.path = path};
	if (output_is_stdout(path)) {
		o->file = stdout;
		return EXIT_DONE;
	}
	if (output_check("trace", path))
		return EXIT_FAILED;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		o->file = fopen(path, "we");
		return o->file ? EXIT_DONE : cannot_write(path, errno);
	}
	if (asprintf(&o->temporary, "%s.XXXXXX", path) < 0)
		return failure("trace", "not enough memory");
	fd = mkostemp(o->temporary, O_CLOEXEC);
	o->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!o->file)
		return cannot_write(path, errno);
	setvbuf(o->file, NULL, _IOFBF, 1 << 16);
	mask = umask(0);
	umask(mask);
	fchmod(fd, 0666 & ~mask);
	return EXIT_DONE;
}

int trace_output_close(struct trace_output *o, int code)
{
	bool failed;

	if (!o->file || o->file == stdout)
		return code;
	errno = 0;
	failed = ferror(o->file);
	failed |= fclose(o->file) != 0;
	if (!code && failed)
		code = cannot_write(o->path, errno ? errno : EIO);
	if (!code && o->temporary && rename(o->temporary, o->path))
		code = cannot_write(o->path, errno);
	if (code && o->temporary)
		unlink(o->temporary);
	free(o->temporary);
	return code;
}

bool trace_must_stop(FILE *file)
{
	return child_interrupted() || ferror(file);
}

int trace_interrupted(void)
{
	if (!child_interrupted())
		return EXIT_DONE;
	failure("trace", "interrupted");
	return 128 + child_interrupted();
}
