/* SPDX-License-Identifier: MIT */
/* The frame of the sequences here: OPERATIONS is what each file puts into it. */
#include <nearcpu/percpu.h>

#define SEQUENCE(name, operations)                                                                 \
	bool name(uint64_t *p, uint64_t n);                                                        \
	bool name(uint64_t *p, uint64_t n)                                                         \
	{                                                                                          \
		uint64_t at, v, tmp;                                                               \
                                                                                                   \
		__asm__ volatile goto(NEAR_SEQ_BEGIN operations                                    \
				      : NEAR_SEQ_OUT(tmp), [at] "=&r"(at), [v] "=&r"(v)            \
				      : NEAR_SEQ_IN, NEAR_SEQ_OBJECT(p, p), [n] "r"(n)             \
				      : NEAR_SEQ_CLOBBER                                           \
				      : near_failed);                                              \
		NEAR_SEQ_EDGE;                                                                     \
		return true;                                                                       \
near_failed:                                                                                       \
		NEAR_SEQ_EDGE;                                                                     \
		return false;                                                                      \
	}

#define GOOD NEAR_SLOT(at, p) NEAR_LOAD8(v, at, 0) NEAR_ADD(v, n) NEAR_COMMIT8(v, at, 0)
