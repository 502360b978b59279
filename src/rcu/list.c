/* SPDX-License-Identifier: MIT */
/* near_rcu_list: what its inline functions call. */
#include <nearcpu/rcu_list.h>

#include "base/die.h"

void near__rcu_list_misused(void)
{
	near__die("near_rcu_list: the node was removed or replaced before");
}
