/* SPDX-License-Identifier: MIT */
/* Step 3 of the tutorial: proves slow_append. */
#include "slow_torture.h"

int main(void)
{
	return slow_torture(slow_append);
}
