/* SPDX-License-Identifier: MIT */
/* Who holds a mutex, see owner.h. */
#define _GNU_SOURCE
#include "owner.h"

#include <errno.h>
#include <string.h>
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
		return __atomic_load_n(&near__order_self->owner, __ATOMIC_RELAXED);
	/* Nothing is kept in a vfork child, nor inside of the decision of what the process does. */
	return near__owner == NEAR__NO_OWNER ? near__owner_ask() : (uint32_t)near__owner;
}

void near__owner_forked(void)
{
	uint32_t mine = near__order_self ? near__order_self->owner : (uint32_t)near__owner;
	uint32_t *before = near__lot.owner_before, *n = &near__lot.owner_names;

	near__lot.process = (uint32_t)getpid();
	if (mine != near__lot.owner_here)
		*n = 0; /* the one of the last fork did not come along */
	if (mine == NEAR__NO_OWNER)
		return;
	if (*n == NEAR__OWNER_NAMES)
		memmove(before, before + 1, --*n * sizeof(*before));
	before[(*n)++] = mine;
	near__lot.owner_here = near__owner_ask();
	if (near__order_self)
		near__order_self->owner = near__lot.owner_here;
	else
		near__owner = near__lot.owner_here;
}

/* Acquire: pairs with the fence in near__owner_given. A word in which a thread stands that was
 * given the number later was read before. */
bool near__owner_came_along(uint32_t owner)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < near__lot.owner_names; i++)
		if (__atomic_load_n(&near__lot.owner_before[i], __ATOMIC_RELAXED) == owner)
			return true;
	return false;
}

/* What it still holds under that name it cannot let go of any more: it is told so. */
void near__owner_given(uint32_t owner)
{
	for (uint32_t i = 0; i < near__lot.owner_names; i++) {
		uint32_t *name = &near__lot.owner_before[i];

		if (__atomic_load_n(name, __ATOMIC_RELAXED) == owner)
			__atomic_store_n(name, 0, __ATOMIC_RELAXED);
	}
	/* Release: no word has the number in the new thread's name before the old one is gone. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

bool near__owner_is_me(uint32_t owner)
{
	uint32_t me = near__owner_now();

	return owner == me || (me == near__lot.owner_here && near__owner_came_along(owner));
}

bool near__owner_exists(uint32_t owner)
{
	int saved = errno;
	bool exists = true;

	if (near__owner_came_along(owner))
		owner = near__lot.owner_here;
	if (near__lot.forks)
		exists = !syscall(SYS_tgkill, near__lot.process, owner >> NEAR__OWNER_SHIFT, 0) ||
			 errno != ESRCH;
	errno = saved;
	return exists;
}
