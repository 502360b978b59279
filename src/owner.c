/* SPDX-License-Identifier: MIT */
/* Who holds a mutex, see owner.h. */
#define _GNU_SOURCE
#include "owner.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lot.h"

static uint32_t ask(void)
{
	return (uint32_t)syscall(SYS_gettid) << NEAR__OWNER_SHIFT;
}

uint32_t near__owner_now(void)
{
	if (near__owner == NEAR__NO_OWNER)
		near__owner = ask();
	return near__owner;
}

void near__owner_forked(void)
{
	if (near__owner == NEAR__NO_OWNER)
		return;
	near__lot.owner_before = near__owner;
	near__owner = ask();
	near__lot.owner_after = near__owner;
}

bool near__owner_is_me(uint32_t owner)
{
	uint32_t me = near__owner_now();

	return owner == me || (owner == near__lot.owner_before && me == near__lot.owner_after);
}

bool near__owner_exists(uint32_t owner)
{
	int saved = errno;
	bool exists = true;

	if (owner == near__lot.owner_before)
		owner = near__lot.owner_after;
	if (near__lot.forks)
		exists = syscall(SYS_tgkill, getpid(), owner >> NEAR__OWNER_SHIFT, 0) == 0 ||
			 errno != ESRCH;
	errno = saved;
	return exists;
}
