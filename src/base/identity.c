/* SPDX-License-Identifier: MIT */
/* Whether this process is the one that a part of the library knows, see identity.h. */
#define _GNU_SOURCE
#include "base/identity.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/page.h"
#include "base/unique.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct words {
	uint32_t pid; /* 0: not known yet, or this is a copy */
	uint32_t number;
};

/* Zero is valid. */
struct near__identity {
	struct words *words; /* in the page; NULL: there is none yet */
	struct words here;   /* if the kernel has no such pages */
	uint32_t numbers;    /* that were given out */
};
extern NEAR__DATA struct near__identity near__identity NEAR__STATE(near__identity);

#define IDENTITY_SIZE 64
_Static_assert(sizeof(struct near__identity) <= IDENTITY_SIZE, "near__identity");
NEAR__UNIQUE(near__identity, IDENTITY_SIZE);

/* Acquire: pairs with the release in get_words. */
static struct words *words_of_process(void)
{
	return __atomic_load_n(&near__identity.words, __ATOMIC_ACQUIRE);
}

static struct words *get_words(void)
{
	struct words *w = words_of_process(), *mapped;
	size_t size = near__page_size();
	int saved = errno;

	if (w)
		return w;
	mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapped != MAP_FAILED && madvise(mapped, size, MADV_WIPEONFORK)) {
		munmap(mapped, size);
		mapped = MAP_FAILED;
	}
	errno = saved;
	if (mapped == MAP_FAILED)
		mapped = &near__identity.here;
	/* Another thread may have stored one. */
	if (__atomic_compare_exchange_n(&near__identity.words, &w, mapped, false, __ATOMIC_RELEASE,
					__ATOMIC_ACQUIRE))
		return mapped;
	if (mapped != &near__identity.here)
		munmap(mapped, size);
	return w;
}

/* Release: pairs with the acquire in near__identity_pid and near__identity_begin. The numbers are
 * to differ, no more: relaxed. Two threads, in a copy without handlers in which parts begin, may
 * both store: what the first one recorded is then not known any more. */
static uint32_t words_set(struct words *w, uint32_t pid)
{
	uint32_t number = __atomic_add_fetch(&near__identity.numbers, 1, __ATOMIC_RELAXED);

	__atomic_store_n(&w->number, number, __ATOMIC_RELAXED);
	__atomic_store_n(&w->pid, pid, __ATOMIC_RELEASE);
	return number;
}

static uint32_t this_process(void)
{
	return (uint32_t)syscall(SYS_getpid);
}

uint32_t near__identity_begin(void)
{
	struct words *w = get_words();

	return __atomic_load_n(&w->pid, __ATOMIC_ACQUIRE)
		       ? __atomic_load_n(&w->number, __ATOMIC_RELAXED)
		       : words_set(w, this_process());
}

uint32_t near__identity_fork_child(void)
{
	struct words *w = get_words();
	uint32_t pid = this_process();

	return w->pid == pid ? w->number : words_set(w, pid);
}

uint32_t near__identity_pid(uint32_t number)
{
	const struct words *w = words_of_process();
	uint32_t pid = w ? __atomic_load_n(&w->pid, __ATOMIC_ACQUIRE) : 0;

	return number && pid && __atomic_load_n(&w->number, __ATOMIC_RELAXED) == number ? pid : 0;
}

bool near__identity_is(uint32_t number)
{
	uint32_t pid = near__identity_pid(number);

	return pid && pid == this_process();
}
