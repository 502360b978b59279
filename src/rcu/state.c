/* SPDX-License-Identifier: MIT */
/* near_rcu: the state of a process and of a thread, and how a thread sleeps. */
#include "rcu.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ground/futex.h"
#include "ground/unique.h"
#include "ground/valgrind.h"

#define RCU_SIZE 256
_Static_assert(sizeof(struct near__rcu) == RCU_SIZE, "near__rcu");
NEAR__UNIQUE(near__rcu, RCU_SIZE);

NEAR__BEFORE_PROGRAM static void ignore_races(void)
{
	near__valgrind_ignore(&near__rcu, sizeof(near__rcu));
}

void near__rcu_sleep(uint32_t *low, uint32_t seen, int64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
	int saved = errno;

	syscall(SYS_futex, low, NEAR__FUTEX_WAIT_PRIVATE, seen, ns == NEAR__FOREVER ? NULL : &t,
		NULL, 0);
	errno = saved;
}

void near__rcu_wake_all(uint32_t *low)
{
	int saved = errno;

	syscall(SYS_futex, low, NEAR__FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
	errno = saved;
}
