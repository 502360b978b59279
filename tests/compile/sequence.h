/* SPDX-License-Identifier: MIT */
/* The function around the sequences here: OPERATIONS is what each file puts into it. */
#include <nearcpu/percpu.h>

#define SEQUENCE(name, operations)                                                                 \
	bool name(uint64_t *p, uint64_t n);                                                        \
	bool name(uint64_t *p, uint64_t n)                                                         \
	{                                                                                          \
		uint64_t at, v;                                                                    \
                                                                                                   \
		return NEAR_SEQ(operations, NEAR_OUT(at, v), NEAR_IN(NEAR_OBJECT(p), n));          \
	}

#define GOOD NEAR_SLOT(at, p) NEAR_LOAD8(v, at, 0) NEAR_ADD(v, n) NEAR_COMMIT8(v, at, 0)
