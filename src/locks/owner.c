/* SPDX-License-Identifier: MIT */
/* The owner of a lock: ids of threads, what fork does to them, and whether a thread still
 * exists. */
#define _GNU_SOURCE
#include "locks/owner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/identity.h"
#include "kernel/kernel.h"
#include "locks/locks_state.h"
#include "parking/lot.h"

uint32_t near__owner_from_kernel(void)
{
	return (uint32_t)syscall(SYS_gettid) << NEAR__OWNER_SHIFT;
}

/* What the thread that forked still holds under that id it cannot unlock any more; an unlock
 * reports that another thread holds it. */
void near__owner_drop_former(uint32_t owner)
{
	for (uint32_t i = 0; i < near__locks.owner_formers; i++) {
		uint32_t *former = &near__locks.owner_former[i];

		if (__atomic_load_n(former, __ATOMIC_RELAXED) == owner)
			__atomic_store_n(former, 0, __ATOMIC_RELAXED);
	}
	/* Release: pairs with the acquire in is_former. No word contains the id as that of the new
	 * thread before the former one is dropped. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

/* The id of a thread whose locks and unlocks the library must see, or 0. */
static uint32_t owner_id_checked(void)
{
	return near__locks_thread_peek()->owner_checked;
}

/* Called by clone() in a thread that from now on shares its storage with a child: each of the two
 * needs its own id. */
static void forget_id(void)
{
	near__more.owner = NEAR__NO_OWNER;
	if (owner_id_checked())
		near__locks_thread_peek()->owner_checked = 0;
}

/* Nothing is stored in the child of a vfork or a clone, whose storage is its parent's, nor while
 * the process decides, when the settings are not known yet; nor without memory for it. */
static uint32_t owner_assign(void)
{
	uint32_t owner = near__owner_from_kernel();
	struct near__locks_thread *t;

	if (!near__process_init() || !near__storage_is_own())
		return owner;
	near__owner_drop_former(owner);
	/* Relaxed: clone() loads it in this thread, and all threads store the same. */
	__atomic_store_n(&near__process.storage_is_shared, forget_id, __ATOMIC_RELAXED);
	if (!near__process.conf.lock_check && !near__is_watched) {
		near__more.owner = owner;
		return owner;
	}
	t = near__locks_thread_own();
	if (t)
		t->owner_checked = owner;
	return owner;
}

uint32_t near__owner_now(void)
{
	if (near__more.owner != NEAR__NO_OWNER)
		return (uint32_t)near__more.owner;
	return owner_id_checked() ? owner_id_checked() : owner_assign();
}

void near__owner_uncheck(void)
{
	if (near__is_watched || !owner_id_checked())
		return;
	near__more.owner = owner_id_checked();
	near__locks_thread_peek()->owner_checked = 0;
}

/* In the child of a fork. */
static void owner_forked(void)
{
	uint32_t mine = owner_id_checked() ? owner_id_checked() : (uint32_t)near__more.owner;
	uint32_t *former = near__locks.owner_former, *n = &near__locks.owner_formers;

	near__locks.process = near__identity_fork_child();
	if (mine != near__locks.owner_here)
		*n = 0; /* fork did not copy the thread of the last fork */
	if (mine == NEAR__NO_OWNER)
		return;
	if (*n == NEAR__OWNER_FORMER)
		memmove(former, former + 1, --*n * sizeof(*former));
	former[(*n)++] = mine;
	near__locks.owner_here = near__owner_from_kernel();
	if (owner_id_checked())
		near__locks_thread_peek()->owner_checked = near__locks.owner_here;
	else
		near__more.owner = near__locks.owner_here;
}

__attribute__((constructor)) static void owner_watch_forks(void)
{
	if (!near__locks.owner_watches_forks)
		near__locks.process = near__identity_begin();
	near__fork_register(&near__locks.owner_watches_forks, NULL, NULL, owner_forked);
}

/* Whether `owner` is an id that the thread that forked had in a process before. Acquire: pairs with
 * the release in near__owner_drop_former. The caller has read the word before: if that names a
 * thread which got the id later, this load finds the former id dropped. */
static bool is_former(uint32_t owner)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < near__locks.owner_formers; i++)
		if (__atomic_load_n(&near__locks.owner_former[i], __ATOMIC_RELAXED) == owner)
			return true;
	return false;
}

bool near__owner_is_me(uint32_t owner)
{
	uint32_t me = near__owner_now();

	return owner == me || (me == near__locks.owner_here && is_former(owner));
}

/* tgkill(2) without a signal: 0 or a negative errno. errno is left alone. */
static int owner_find(uint32_t owner)
{
	uint32_t pid = near__identity_pid(near__locks.process);
	int saved = errno, r;

	if (is_former(owner))
		owner = near__locks.owner_here;
	r = syscall(SYS_tgkill, pid, owner >> NEAR__OWNER_SHIFT, 0) ? -errno : 0;
	errno = saved;
	return r;
}

bool near__owner_exists(uint32_t owner)
{
	return !near__lot.forks || owner_find(owner) != -ESRCH;
}

static uint32_t named_by(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED) & NEAR__MUTEX_OWNER;
}

/* Called after owner_find() failed: the thread may have unlocked and ended just before. The fence
 * orders this load after the kernel's load of its threads; the kernel orders what a thread stored
 * before the end of the thread. */
static bool still_names(const uint32_t *word, uint32_t owner)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return named_by(word) == owner;
}

bool near__owner_lost_at_fork(const uint32_t *word)
{
	uint32_t owner = named_by(word);

	return owner && !near__owner_exists(owner) && still_names(word, owner);
}

/* Words name threads of the process that the constructor or the fork handler recorded. False: this
 * is another one, the child of a vfork or of a bare clone(); or the constructor has not run yet; or
 * a filter of system calls answers ESRCH, as it then does for the calling thread as well. */
static bool can_decide(void)
{
	return near__identity_is(near__locks.process) && owner_find(near__owner_now()) == 0;
}

/* tkill(2) finds threads of all processes. A thread of another process can hold a lock of this one
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

	return owner && can_decide() && owner_find(owner) == -ESRCH && !is_elsewhere(owner) &&
	       still_names(word, owner);
}

void near__owner_check(const uint32_t *word, const char *whose)
{
	uint32_t owner = named_by(word);
	char line[200];

	if (!near__owner_has_ended(word))
		return;
	snprintf(line, sizeof(line),
		 "%s%" PRIu32 ", does not exist: it has ended, or the word was overwritten", whose,
		 owner >> NEAR__OWNER_SHIFT);
	near__die(line);
}
