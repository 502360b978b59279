/* SPDX-License-Identifier: MIT */
/* near_rcu: the state of a process. */
#include "rcu/rcu.h"

#include "base/unique.h"

NEAR__LAYER_STATE(near__rcu, 256);
