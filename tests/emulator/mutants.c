/* SPDX-License-Identifier: MIT */
/* The faults that are not in a macro. Linked with --wrap=near__fence. */
#include "mutants.h"

void __real_near__fence(void);
void __wrap_near__fence(void);

/* There are two fences: before the change, and before the gates open again. */
void __wrap_near__fence(void)
{
	static unsigned calls;
	unsigned call = calls++ % 2;

	if ((MUTANT == no_first_fence && call == 0) || (MUTANT == no_second_fence && call == 1))
		return;
	__real_near__fence();
}

/* A sequence that is in the program, and that no operation of the table runs. */
#if MUTANT == forgotten
bool mutants_forgotten(uint64_t *p);
bool mutants_forgotten(uint64_t *p)
{
	uint64_t at;

	return NEAR_SEQ(NEAR_SLOT(at, p) NEAR_COMMIT8(at, at, 0), NEAR_OUT(at),
			NEAR_IN(NEAR_OBJECT(p)));
}
#endif
