/* SPDX-License-Identifier: MIT */
/* The state of this layer, and its locks over a fork. */
#include "base/fork.h"
#include "base/unique.h"
#include "percpu/percpu.h"

NEAR__LAYER_STATE(near__percpu, 8192);

static struct near__fork_turn turn;

/* No thread takes the lock of the process's decision while it holds one of these, nor the reverse:
 * the handlers of the two layers may run in any order. */
static void percpu_visit_locks(near__fork_step *step)
{
	step(&near__percpu.closers);
	for (int i = 0; i < NEAR__POP_LOCKS; i++)
		step(&near__percpu.pops[i].lock);
	for (int i = 0; i < NEAR__POOL_LOCKS; i++)
		step(&near__percpu.pools[i].lock);
	for (int i = 0; i < NEAR__CLASSES; i++)
		step(&near__percpu.classes[i].lock);
}

/* No other thread's lock is held here, and no gate is closed: prepare took `closers`, or there was
 * no other thread. */
NEAR__FORK_HANDLERS(percpu, &turn, percpu_visit_locks, percpu_visit_locks, near__fork_nothing)

__attribute__((constructor)) static void percpu_watch_forks(void)
{
	NEAR__FORK_REGISTER(percpu, &near__percpu.watches_forks);
}
