/* SPDX-License-Identifier: MIT */
#include "run/run.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool run_map(struct run_file *f, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	f->at = MAP_FAILED;
	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && st.st_size > 0) {
		f->size = (size_t)st.st_size;
		f->at = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	return f->at != MAP_FAILED;
}

void run_unmap(const struct run_file *f)
{
	munmap((void *)f->at, f->size);
}
