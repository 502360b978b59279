/* SPDX-License-Identifier: MIT */
/* The areas of a thread, see area.h. */
#define _GNU_SOURCE
#include "kernel/area.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/kernel.h"

/* glibc 2.35 and later. Weak: older ones and musl do not have them. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

/* The area that this library registers if the C library did not. As large and as aligned as the
 * kernel may require (AT_RSEQ_FEATURE_SIZE, AT_RSEQ_ALIGN). In the thread's block, which no other
 * thread takes before this one has ended: so it need not be unregistered, whatever the C library
 * does with the thread's storage, and destructors of thread-specific data may still use it. */
#define OWN_SIZE 64
#define OWN_ALIGN 64
#define REGISTER 0
struct own {
	char area[OWN_SIZE] __attribute__((aligned(OWN_ALIGN)));
};
NEAR__BLOCK_PART(own, struct own, own_area);

/* Where a thread that is not live stores its rseq_cs, so that such threads share no cache line;
 * near__dead without a block. */
NEAR__BLOCK_PART(dead, struct near__area, dead_area);

long near__syscall_rseq(void *area, uint32_t size, int flags)
{
	int saved = errno;
	long r = syscall(NEAR__SYS_RSEQ, area, size, flags, NEAR__SIGNATURE);

	r = r < 0 ? -errno : r;
	errno = saved;
	return r;
}

void near__area_refuse(int32_t why)
{
	struct near__kernel_thread *t = near__kernel_thread_own();

	if (t)
		t->refusal = why;
}

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
	near__area_refuse(cpu == -1 ? NEAR__AREA_TAKEN : -EPERM);
	return NULL;
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
struct near__area *near__area_register(void)
{
	struct near__kernel_thread *t = near__kernel_thread_own();
	void *area = own_own();

	if (!t || !area)
		return NULL;
	t->refusal = (int32_t)near__syscall_rseq(area, near__area_own_size(), REGISTER);
	return t->refusal == 0 || t->refusal == -EBUSY ? area : NULL;
}

/* The C library registers 32 bytes at least, whatever it makes known. */
uint32_t near__area_size_of_libc(void)
{
	return __rseq_size > NEAR__LEGACY_SIZE ? __rseq_size : NEAR__LEGACY_SIZE;
}

void near__enter_dead(void)
{
	struct near__thread *t = &near__self;
	struct near__area *area = dead_own();

	if (area) {
		area->cpu_id = near__dead.cpu_id;
		area->mm_cid = near__dead.mm_cid;
	}
	*(volatile uint32_t *)&t->state = NEAR__DEAD;
	t->area = area ? area : &near__dead;
}
