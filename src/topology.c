/* SPDX-License-Identifier: MIT */
/* Read with plain system calls: this may run before stdio works and must not allocate. */
#include "topology.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

int near__list_max(const char *text)
{
	int max = -1, number = -1;

	for (; *text && *text != '\n'; text++) {
		if (*text >= '0' && *text <= '9') {
			number = (number < 0 ? 0 : number * 10) + (*text - '0');
			if (number > 1 << 20)
				return -1;
		} else if (*text == '-' || *text == ',') {
			if (number < 0)
				return -1;
			number = -1;
		} else {
			return -1;
		}
		if (number > max)
			max = number;
	}
	return number < 0 ? -1 : max;
}

static int read_list_max(const char *path)
{
	char text[4096];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	do
		n = read(fd, text, sizeof(text) - 1);
	while (n < 0 && errno == EINTR);
	close(fd);
	if (n <= 0 || n == (ssize_t)sizeof(text) - 1)
		return -1;
	text[n] = '\0';
	return near__list_max(text);
}

/* Without /sys: the system call returns the size of the kernel's own mask, which covers every
 * possible CPU, rounded up to words. */
static unsigned cpus_from_mask(void)
{
	unsigned long mask[1024];
	long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);

	return bytes > 0 ? (unsigned)bytes * 8 : 1024;
}

unsigned near__topology_cpus(void)
{
	int max = read_list_max("/sys/devices/system/cpu/possible");

	return max >= 0 ? (unsigned)max + 1 : cpus_from_mask();
}

unsigned near__topology_nodes(void)
{
	int max = read_list_max("/sys/devices/system/node/possible");

	return max >= 0 ? (unsigned)max + 1 : 1;
}
