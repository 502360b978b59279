/* SPDX-License-Identifier: MIT */
/* The state of this layer, and its lock over a fork. */
#include "base/fork.h"
#include "base/unique.h"
#include "region/region.h"

NEAR__LAYER_STATE(near__regions, 64);

static struct near__fork_turn turn;

/* The thread that holds it takes no other lock of the library: the handlers of the layers may run
 * in any order. */
static void visit_locks(near__fork_step *step)
{
	step(&near__regions.directory);
}

NEAR__FORK_HANDLERS(region, &turn, visit_locks, visit_locks, near__fork_nothing)

__attribute__((constructor)) static void watch_forks(void)
{
	NEAR__FORK_REGISTER(region, &near__regions.watches_forks);
}
