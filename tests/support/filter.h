/* SPDX-License-Identifier: MIT */
/* Takes system calls away from this process, for good: what old kernels and filters of containers
 * do. */
#ifndef NEARCPU_TESTS_FILTER_H
#define NEARCPU_TESTS_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Where long has 32 bits the C library maps memory by this call. */
#ifdef SYS_mmap2
#define FILTER_MMAP SYS_mmap2
#else
#define FILTER_MMAP SYS_mmap
#endif

#if __has_include(<linux/filter.h>) && __has_include(<linux/seccomp.h>)
#include <linux/filter.h>
#include <linux/seccomp.h>

/* From now on system call `number` fails with `error`. False: the kernel cannot do that. */
static inline bool filter_out(long number, int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}
#else
static inline bool filter_out(long number, int error)
{
	return false;
}
#endif

#endif
