/* SPDX-License-Identifier: MIT */
/* Faults for the test to find, one each: -include mutants.h -DMUTANT=name changes what the parts of
 * seq.h are made of, in the library and everywhere else. */
#ifndef NEARCPU_TESTS_EMULATOR_MUTANTS_H
#define NEARCPU_TESTS_EMULATOR_MUTANTS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <nearcpu/seq.h>

#include "percpu/percpu.h"

#define two_stores 1
#define commit_not_last 2
#define index_outside 3
#define no_live_check 4
#define no_state_check 5
#define no_gate_check 6
#define no_first_fence 7
#define no_second_fence 8
#define passes_closed_gate 9
#define forgotten 10
#define no_registration_check 11

/* What was stored stays when the sequence is aborted before its commit. */
#if MUTANT == two_stores
#undef NEAR_COMMIT8
#define NEAR_COMMIT8(src, base, off)                                                               \
	NEAR_STORE8(src, base, off) NEAR_STORE8(src, base, off) NEAR__SEQ_END
#undef NEAR_COMMIT8_RELEASE
#define NEAR_COMMIT8_RELEASE(src, base)                                                            \
	NEAR_STORE8(src, base, 0) NEAR__STORE8_RELEASE(src, base) NEAR__SEQ_END

/* Aborted behind the store, the sequence is run again. */
#elif MUTANT == commit_not_last
#undef NEAR__SEQ_END
#define NEAR__SEQ_END                                                                              \
	NEAR_MOVE(near_tmp, near_area)                                                             \
	"72:\n\t"                                                                                  \
	".set .Lnear_indexed, 2\n\t" NEAR__SEQ_HANDLER

/* The thread may have moved since C code loaded its CPU. */
#elif MUTANT == index_outside
#undef NEAR__SEQ_IN_AREA
#define NEAR__SEQ_IN_AREA                                                                          \
	[near_area] "r"(near__self.area), [outside] "r"((uint64_t)near__index_now())
#undef NEAR__SEQ_IN
#define NEAR__SEQ_IN NEAR__SEQ_IN_AREA, [near_index_mode] "r"((uint64_t)near__self.index_mode)
#undef NEAR_INDEX
#define NEAR_INDEX(dst) NEAR__MARK_INDEX NEAR_MOVE(dst, outside)
#undef NEAR_INDEX_CPU
#define NEAR_INDEX_CPU(dst) NEAR_INDEX(dst)

/* The child of a vfork goes on as its parent, unprotected. */
#elif MUTANT == no_live_check
#undef NEAR__VFORK_ASM

/* A thread whose registration was taken away goes on in the slot that cid 0 has. */
#elif MUTANT == no_registration_check
#undef NEAR_INDEX
#define NEAR_INDEX(dst) NEAR__MARK_INDEX NEAR_LOAD4(dst, near_area, 24)
#undef NEAR_INDEX_CID
#define NEAR_INDEX_CID(dst) NEAR_INDEX(dst)

#elif MUTANT == no_state_check
#undef NEAR__BRANCH_MEM4X_NE
#define NEAR__BRANCH_MEM4X_NE(base, index, n, label)

#elif MUTANT == no_gate_check
#undef NEAR_BRANCH_MEM4_NE
#define NEAR_BRANCH_MEM4_NE(base, off, n, label)

#elif MUTANT == passes_closed_gate
#undef NEAR_BRANCH_MEM4_NE
#define NEAR_BRANCH_MEM4_NE(base, off, n, label)                                                   \
	NEAR_LOAD4(near_tmp, base, off) NEAR_BRANCH_ZERO(near_tmp, label)
#endif

#endif
