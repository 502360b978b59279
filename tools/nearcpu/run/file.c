/* SPDX-License-Identifier: MIT */
/* Files mapped into memory. */
#include "run/run.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool run_map_fd(struct run_file *f, int fd)
{
	struct stat st;

	*f = (struct run_file){"", 0};
	if (fstat(fd, &st))
		return false;
	if (st.st_size <= 0)
		return true;
	f->size = (size_t)st.st_size;
	f->at = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
	return f->at != MAP_FAILED;
}

bool run_map(struct run_file *f, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool mapped = fd >= 0 && run_map_fd(f, fd);

	if (fd >= 0)
		close(fd);
	return mapped;
}

void run_unmap(const struct run_file *f)
{
	if (f->size)
		munmap((void *)f->at, f->size);
}
