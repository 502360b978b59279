/* SPDX-License-Identifier: MIT */
/* Who holds a mutex, see owner.h. */
#define _GNU_SOURCE
#include "owner.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lot.h"
#include "order.h"

uint32_t near__owner_ask(void)
{
	return (uint32_t)syscall(SYS_gettid) << NEAR__OWNER_SHIFT;
}

uint32_t near__owner_now(void)
{
	if (near__order_is_on())
		return near__order_self->owner;
	/* Inside of the decision of what this process does nothing is kept. */
	return near__owner == NEAR__NO_OWNER ? near__owner_ask() : near__owner;
}

void near__owner_forked(void)
{
	uint32_t *mine = near__order_self ? &near__order_self->owner : &near__owner;

	if (*mine == NEAR__NO_OWNER)
		return;
	near__lot.owner_before = *mine;
	*mine = near__owner_ask();
	near__lot.owner_after = *mine;
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
