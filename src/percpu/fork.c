/* SPDX-License-Identifier: MIT */
/* The state of this layer, and its locks over a fork. */
#include "ground/fork.h"
#include "ground/unique.h"
#include "ground/valgrind.h"
#include "internal.h"

#define PERCPU_SIZE 8192
_Static_assert(sizeof(struct near__percpu) <= PERCPU_SIZE, "near__percpu");
NEAR__UNIQUE(near__percpu, PERCPU_SIZE);

static struct near__fork_turn turn;

/* No thread takes the lock of the process's decision while it holds one of these, nor the reverse:
 * the handlers of the two layers may run in any order. */
static void visit_locks(near__fork_step *step)
{
	step(&near__percpu.directory);
	step(&near__percpu.closers);
	for (int i = 0; i < NEAR__POP_LOCKS; i++)
		step(&near__percpu.pops[i].lock);
	for (int i = 0; i < NEAR__POOL_LOCKS; i++)
		step(&near__percpu.pools[i].lock);
	for (int i = 0; i < NEAR__CLASSES; i++)
		step(&near__percpu.classes[i].lock);
}

static void fork_prepare(void)
{
	near__fork_prepare(&turn, visit_locks);
}

static void fork_parent(void)
{
	near__fork_in_parent(&turn, visit_locks);
}

/* No other thread's lock is held here, and no gate is closed: prepare took `closers`, or there was
 * no other thread. */
static void fork_child(void)
{
	near__fork_in_child(&turn, visit_locks);
}

__attribute__((constructor)) static void watch_forks(void)
{
	near__fork_register(&near__percpu.watches_forks, fork_prepare, fork_parent, fork_child);
}

NEAR__BEFORE_PROGRAM static void ignore_races(void)
{
	near__valgrind_ignore(&near__percpu, sizeof(near__percpu));
}
