/* SPDX-License-Identifier: MIT */
/* Any other CPU: no sequences, so that every operation takes the portable path. There are no
 * operations either: NEAR_SEQ drops their names unexpanded. */
#ifndef NEARCPU_ARCH_GENERIC_H
#define NEARCPU_ARCH_GENERIC_H

#define NEAR__HAS_SEQ 0
#define NEAR__ARCH "generic"
#define NEAR__ADDRESS_ORDER __ATOMIC_CONSUME
#define NEAR__ARCH_OS <nearcpu/detail/arch/generic_os.h>
#define NEAR__ARCH_TRAP <nearcpu/detail/arch/generic_trap.h>
#define NEAR__ARCH_ATOMIC <nearcpu/detail/arch/generic_atomic.h>
#define NEAR__SIGNATURE 0u
#define NEAR__SYS_RSEQ (-1)
#define NEAR__SYS_MEMBARRIER (-1)

NEAR__INLINE uint64_t near__clock(void)
{
	return 0;
}

NEAR__INLINE void *near__thread_pointer(void)
{
	return (void *)0;
}

NEAR__INLINE void near__pauses(unsigned n)
{
	(void)n;
}

/* The frame, {the caller's, the return address}, of a frame pointer: not known. */
#define NEAR__FRAME(at) ((void)(at), (const uintptr_t *)NULL)

#endif
