/* SPDX-License-Identifier: MIT */
/* Read with plain system calls: this may run before stdio works and must not allocate. All by one
 * function of the C library, so that fewer pages of it are touched. */
#include "base/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
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
	char text[512];
	long n;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	do
		n = syscall(SYS_read, fd, text, sizeof(text) - 1);
	while (n < 0 && errno == EINTR);
	syscall(SYS_close, fd);
	if (n <= 0 || n == (long)sizeof(text) - 1)
		return -1;
	text[n] = '\0';
	return near__list_max(text);
}

/* Without /sys: the system call returns the size of the kernel's own mask, which covers every
 * possible CPU, rounded up to words. */
static unsigned cpus_from_mask(void)
{
	unsigned long mask[256];
	long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);

	return bytes > 0 ? (unsigned)bytes * 8 : 1024;
}

unsigned near__topology_cpus(void)
{
	static const char path[] = "/sys/devices/system/cpu/possible";
	int max = read_list_max(path);

	return max >= 0 ? (unsigned)max + 1 : cpus_from_mask();
}

unsigned near__topology_nodes(void)
{
	static const char path[] = "/sys/devices/system/node/possible";
	int max = read_list_max(path);

	return max >= 0 ? (unsigned)max + 1 : 1;
}

/* Appends a number; returns the end. */
static char *put_number(char *at, unsigned n)
{
	char digits[12], *d = digits + sizeof(digits);

	do
		*--d = (char)('0' + n % 10);
	while (n /= 10);
	memcpy(at, d, (size_t)(digits + sizeof(digits) - d));
	return at + (digits + sizeof(digits) - d);
}

/* The directory of a CPU has a link with the name of its node. */
int near__topology_node_of(unsigned cpu, unsigned nodes)
{
	static const char directory[] = "/sys/devices/system/cpu/cpu", link[] = "/node";
	char path[sizeof(directory) + sizeof(link) + 24], *at = path + sizeof(directory) - 1;
	int saved = errno, found = -1;

	memcpy(path, directory, sizeof(directory) - 1);
	at = put_number(at, cpu);
	memcpy(at, link, sizeof(link) - 1);
	at += sizeof(link) - 1;
	for (unsigned node = 0; node < nodes && found < 0; node++) {
		*put_number(at, node) = '\0';
		if (syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0)
			found = (int)node;
	}
	errno = saved;
	return found;
}

bool near__file_has(const char *path, const char *wanted)
{
	char text[2048];
	int saved = errno, fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	long n = fd < 0 ? 0 : syscall(SYS_read, fd, text, sizeof(text) - 1);

	if (fd >= 0)
		syscall(SYS_close, fd);
	errno = saved;
	text[n > 0 ? n : 0] = '\0';
	return strstr(text, wanted);
}

bool near__calls_are_filtered(void)
{
	static int known; /* 1: no, 2: yes. Relaxed: threads find the same */
	int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (answer)
		return answer == 2;
	answer = near__file_has("/proc/self/status", "\nSeccomp:\t0\n") ? 1 : 2;
	__atomic_store_n(&known, answer, __ATOMIC_RELAXED);
	return answer == 2;
}

/* Of the kernel's linux/mempolicy.h, which not every C library brings along. */
#define POLICY_DEFAULT 0
#define POLICY_PREFERRED 1
#define NODES 1024
#define WORD_BITS (8 * sizeof(unsigned long))

/* A thread with a policy of its own (numactl) knows better. Filters of containers fail the call,
 * and those of services (systemd's ~@resources) end the process: the pages then come from where the
 * thread is that touches them first. */
void near__topology_prefer(void *start, size_t size, unsigned node)
{
	unsigned long mask[NODES / WORD_BITS] = {0};
	int saved = errno, policy = -1;

	if (node < NODES && !near__calls_are_filtered() &&
	    syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) == 0 &&
	    policy == POLICY_DEFAULT) {
		mask[node / WORD_BITS] = 1ul << node % WORD_BITS;
		/* The kernel uses one bit less than the number it is given. */
		syscall(SYS_mbind, start, size, POLICY_PREFERRED, mask, NODES + 1, 0);
	}
	errno = saved;
}
