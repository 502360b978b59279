/* SPDX-License-Identifier: MIT */
/* Objects of values, and the owners of their places.
 *
 * An owner is one word: the process id (22 bits, which is the most that Linux gives), when it began
 * (the last 20 bits of the clock ticks in /proc/PID/stat; 0: unknown) and the pid namespace (the
 * last 22 bits of its inode; 0: unknown). So one compare-and-swap takes a place whole, and a
 * process that continues as another program by execve(2) finds its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "region/region.h"

#define PID_SHIFT 42
#define BEGIN_SHIFT 22
#define BEGIN_MASK ((UINT64_C(1) << (PID_SHIFT - BEGIN_SHIFT)) - 1)
#define SPACE_MASK ((UINT64_C(1) << BEGIN_SHIFT) - 1)
#define BEGIN_FIELD 20 /* of stat, behind the state */

/* When it began; 0: unknown. By system calls that are no cancellation points. */
static uint64_t begin_of(uint64_t pid)
{
	char text[1024], *at;
	long n;
	int fd;

	snprintf(text, sizeof(text), "/proc/%u/stat", (unsigned)pid);
	fd = (int)syscall(SYS_openat, AT_FDCWD, text, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	text[n > 0 ? n : 0] = 0;
	at = strrchr(text, ')');
	for (unsigned i = 0; at && i < BEGIN_FIELD; i++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) & BEGIN_MASK : 0;
}

/* Of this process; 0: unknown. */
static uint64_t own_space(void)
{
	char text[64];
	long n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/pid", text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	return n > 5 ? strtoull(text + 5, NULL, 10) & SPACE_MASK : 0; /* behind "pid:[" */
}

uint64_t near__owner_self(void)
{
	int saved = errno;
	uint64_t pid = (uint64_t)syscall(SYS_getpid);
	uint64_t word = pid << PID_SHIFT | begin_of(pid) << BEGIN_SHIFT | own_space();

	errno = saved;
	return word;
}

uint64_t near__owner_pid(uint64_t word)
{
	return word >> PID_SHIFT;
}

enum near__owner near__owner_state(uint64_t word, uint64_t self)
{
	uint64_t pid = near__owner_pid(word), began = word >> BEGIN_SHIFT & BEGIN_MASK, now;
	int saved = errno;
	bool ended;

	if (!pid || (word & SPACE_MASK) != (self & SPACE_MASK))
		return pid ? NEAR__OWNER_UNKNOWN : NEAR__OWNER_ENDED;
	ended = kill((pid_t)pid, 0) && errno == ESRCH;
	now = !ended && began ? begin_of(pid) : 0;
	errno = saved;
	return ended || (now && now != began) ? NEAR__OWNER_ENDED : NEAR__OWNER_LIVES;
}

/* ---- reading ---- */

/* The owners' words, if they are within the area; else NULL. */
static const uint64_t *owners_of(const struct near_region *r, const struct near_region_object *o)
{
	uint64_t at = o->about[NEAR_REGION_ABOUT_OWNERS] - 1;

	if (at % 8 || at > r->header->common_size || o->size > r->header->common_size - at)
		return NULL;
	return (const uint64_t *)near_region_common(r, at);
}

static uint64_t load_word(const struct near_region *r, uint64_t offset)
{
	return __atomic_load_n((uint64_t *)near_region_common(r, offset), __ATOMIC_ACQUIRE);
}

/* The owner is loaded twice: where it changes in between, the value is of neither. A value that
 * only grows outlives the owner. */
bool near__region_value(const struct near_region *r, const struct near_region_object *o, size_t i,
			uint64_t self, struct near__value *out)
{
	const uint64_t *owners = o->about[NEAR_REGION_ABOUT_OWNERS] ? owners_of(r, o) : NULL;
	uint64_t owner = owners ? __atomic_load_n(&owners[i], __ATOMIC_ACQUIRE) : 0;

	out->value = (int64_t)load_word(r, o->offset + i * sizeof(int64_t));
	out->pid = 0;
	if (!owners)
		return true;
	if (!o->about[NEAR_REGION_ABOUT_GAUGE])
		return out->value != 0;
	if (__atomic_load_n(&owners[i], __ATOMIC_RELAXED) != owner ||
	    near__owner_state(owner, self) == NEAR__OWNER_ENDED)
		return false;
	out->pid = near__owner_pid(owner);
	return true;
}
