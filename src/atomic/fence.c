/* SPDX-License-Identifier: MIT */
/* The barrier by which a waiter spares unlockers an atomic instruction: membarrier(2), an interrupt
 * to each CPU that runs a thread of this process. A thread executes it only when it is about to
 * sleep. NEAR_CONF=fence:off forbids it; kernels before 4.14 do not have it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atomic/table.h"
#include "base/conf.h"

#define MEMBARRIER_EXPEDITED (1 << 3)
#define MEMBARRIER_REGISTER_EXPEDITED (1 << 4)

static bool fence_membarrier(int command)
{
	return syscall(NEAR__SYS_MEMBARRIER, command, 0, 0) == 0;
}

/* As in near__fence, the kernel may have forgotten the registration. */
bool near__atomic_fence(void)
{
	if (fence_membarrier(MEMBARRIER_EXPEDITED))
		return true;
	return errno == EPERM && fence_membarrier(MEMBARRIER_REGISTER_EXPEDITED) &&
	       fence_membarrier(MEMBARRIER_EXPEDITED);
}

struct conf {
	int fence_off, few_calls;
};

static const struct near__setting list[] = {
	{"fence", "on", offsetof(struct conf, fence_off), 0},
	{"fence", "off", offsetof(struct conf, fence_off), 1},
	{"calls", "all", offsetof(struct conf, few_calls), 0},
	{"calls", "few", offsetof(struct conf, few_calls), 1},
};

static const char *const prefixes[] = {"fence", "calls"};

static const struct near__settings settings = {
	.list = list,
	.count = sizeof(list) / sizeof(list[0]),
	.prefixes = prefixes,
	.prefix_count = sizeof(prefixes) / sizeof(prefixes[0]),
	.own = 1,
};

__attribute__((constructor)) static void fence_begin(void)
{
	struct conf conf = {0};
	int saved_errno = errno;

	near__conf_read_part(&settings, &conf);
	/* After the registration. Pairs with the load in near__waiters_fence. */
	if (!conf.fence_off && !conf.few_calls && fence_membarrier(MEMBARRIER_REGISTER_EXPEDITED) &&
	    near__atomic_fence())
		__atomic_store_n(&near__atomic_locks.waiters_fence, 1, __ATOMIC_SEQ_CST);
	errno = saved_errno;
}
