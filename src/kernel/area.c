/* SPDX-License-Identifier: MIT */
/* The areas of a thread, see area.h. */
#define _GNU_SOURCE
#include "area.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/* glibc 2.35 and later. Weak: older ones and musl do not have them. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

/* The area that this library registers if the C library did not. As large and as aligned as the
 * kernel may require (AT_RSEQ_FEATURE_SIZE, AT_RSEQ_ALIGN). Aligned by hand: objects whose storage
 * requires more than the C library's own does cannot be opened by dlopen(). */
#define OWN_SIZE 64
#define OWN_ALIGN 64
#define REGISTER 0
#define UNREGISTER 1
static __thread char own_space[OWN_SIZE + OWN_ALIGN] __attribute__((tls_model("initial-exec")));

/* Where a thread that is not live stores its rseq_cs, so that such threads share no cache line. */
static __thread struct near__area dead __attribute__((tls_model("initial-exec")));

long near__syscall_rseq(void *area, uint32_t size, int flags)
{
	int saved = errno;
	long r = syscall(NEAR__SYS_RSEQ, area, size, flags, NEAR__SIGNATURE);

	r = r < 0 ? -errno : r;
	errno = saved;
	return r;
}

__thread long near__area_refusal;

struct near__area *near__area_of_libc(void)
{
	struct near__area *area;
	int32_t cpu;

	if (!NEAR__HAS_SEQ || !&__rseq_size || !&__rseq_offset || __rseq_size == 0)
		return NULL;
	area = (struct near__area *)((char *)near__thread_pointer() + __rseq_offset);
	cpu = near__area_cpu(area);
	if (cpu >= 0)
		return area;
	/* The C library stores -2 if the kernel refuses. */
	near__area_refusal = cpu == -1 ? NEAR__AREA_TAKEN : -EPERM;
	return NULL;
}

struct near__area *near__area_own(void)
{
	uintptr_t end = (uintptr_t)own_space + OWN_ALIGN - 1;

	return (struct near__area *)(end & ~(uintptr_t)(OWN_ALIGN - 1));
}

uint32_t near__area_own_size(void)
{
	const struct near__process *p = &near__process;

	if (p->feature_size <= NEAR__LEGACY_SIZE || p->feature_size > OWN_SIZE ||
	    p->feature_align > OWN_ALIGN)
		return NEAR__LEGACY_SIZE;
	return p->feature_size;
}

/* A handler that interrupted the first call may have registered already: EBUSY is as good as 0. */
bool near__area_register(void)
{
	near__area_refusal = near__syscall_rseq(near__area_own(), near__area_own_size(), REGISTER);
	return near__area_refusal == 0 || near__area_refusal == -EBUSY;
}

/* The C library registers 32 bytes at least, whatever it makes known. */
uint32_t near__area_size_of_libc(void)
{
	return __rseq_size > NEAR__LEGACY_SIZE ? __rseq_size : NEAR__LEGACY_SIZE;
}

void near__enter_dead(void)
{
	struct near__thread *t = &near__self;

	dead.cpu_id = near__dead.cpu_id;
	dead.mm_cid = near__dead.mm_cid;
	*(volatile uint32_t *)&t->state = NEAR__DEAD;
	t->area = &dead;
}

/* A C library that frees a thread's storage while the thread still runs (musl, detached threads)
 * must not leave it to the kernel. Later destructors may call us again: the thread stays dead for
 * good. */
void near__at_thread_exit(void *unused)
{
	(void)unused;
	near__enter_dead();
	near__syscall_rseq(near__area_own(), near__area_own_size(), UNREGISTER);
}

int near__thread_exit_key(unsigned *key)
{
	pthread_key_t k;
	int r = pthread_key_create(&k, near__at_thread_exit);

	*key = (unsigned)k;
	return -r;
}
