/* SPDX-License-Identifier: MIT */
/* Who holds a mutex, see owner.h. */
#define _GNU_SOURCE
#include "owner.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "parking/lot.h"
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

	near__lot.process = (uint32_t)syscall(SYS_getpid);
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

/* tgkill(2) without a signal: 0 or a negative errno. errno is left alone. */
static int find(uint32_t owner)
{
	int saved = errno, r;

	if (near__owner_came_along(owner))
		owner = near__lot.owner_here;
	r = syscall(SYS_tgkill, near__lot.process, owner >> NEAR__OWNER_SHIFT, 0) ? -errno : 0;
	errno = saved;
	return r;
}

bool near__owner_exists(uint32_t owner)
{
	return !near__lot.forks || find(owner) != -ESRCH;
}

static uint32_t named_by(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED) & NEAR__MUTEX_OWNER;
}

/* After `owner` was not found: it may have unlocked and ended just before. The fence orders this
 * load behind the kernel's of its threads, as the kernel orders what a thread stored before the
 * thread ends. */
static bool still_names(const uint32_t *word, uint32_t owner)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return named_by(word) == owner;
}

bool near__owner_was_left_behind(const uint32_t *word)
{
	uint32_t owner = named_by(word);

	return owner && !near__owner_exists(owner) && still_names(word, owner);
}

/* The threads that words name are those of the process that was noted at its start or by fork's
 * handler. In the child of a vfork or of a bare clone() getpid() is another; so may it be where the
 * note was not yet made. A filter that answers ESRCH does so for the calling thread, too. */
static bool can_tell(void)
{
	return syscall(SYS_getpid) == (long)near__lot.process && find(near__owner_now()) == 0;
}

/* tkill(2) knows the threads of all processes. One of another process can hold a lock of this one
 * if it runs in this memory: the child of a vfork, or of clone() with CLONE_VM. */
static bool is_elsewhere(uint32_t owner)
{
	int saved = errno;
	bool is = syscall(SYS_tkill, owner >> NEAR__OWNER_SHIFT, 0) == 0 || errno != ESRCH;

	errno = saved;
	return is;
}

bool near__owner_has_ended(const uint32_t *word)
{
	uint32_t owner = named_by(word);

	return owner && can_tell() && find(owner) == -ESRCH && !is_elsewhere(owner) &&
	       still_names(word, owner);
}

/* The number in decimal, in the last bytes of `room`. */
static const char *in_decimal(uint32_t n, char room[12])
{
	char *at = room + 11;

	*at = '\0';
	do
		*--at = (char)('0' + n % 10);
	while (n /= 10);
	return at;
}

void near__owner_check(const uint32_t *word, const char *whose)
{
	char line[200] = "", room[12];
	uint32_t owner = named_by(word);

	if (!near__owner_has_ended(word))
		return;
	strcat(line, whose);
	strcat(line, in_decimal(owner >> NEAR__OWNER_SHIFT, room));
	strcat(line, ", does not exist: it has ended, or the word was overwritten");
	near__die(line);
}
