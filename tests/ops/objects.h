/* SPDX-License-Identifier: MIT */
/* The objects of the operations. Private to this folder. */
#ifndef NEARCPU_TESTS_OBJECTS_H
#define NEARCPU_TESTS_OBJECTS_H

#include <nearcpu/counter.h>
#include <nearcpu/mutex.h>
#include <nearcpu/refcount.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/shared.h>
#include <nearcpu/stack.h>

#include "ops.h"

#define OPS_FIRST_COUNT 100
#define OPS_SHARED_OFFSET 8
#define OPS_FIRST_NODES 3
#define OPS_OWN_REFS 2
#define OPS_FIRST_REFS (1 + 2 * OPS_OWN_REFS) /* the owner's, and each actor's own */
#define OPS_OWN_NODES 4
#define OPS_NODES (OPS_FIRST_NODES + 2 * OPS_OWN_NODES)

struct ops_objects {
	struct near_counter counter;
	struct near_stack stack;
	struct near_refcount refcount;
	struct near_shared shared, untouched; /* the second is what the first is made from */
	uint64_t *peak;                       /* of the example */
	struct near_rwlock rwlock;
	volatile int64_t guarded[2]; /* by it: equal, but inside of a writer */
	bool torn;                   /* a reader found them different */
	struct near_stack_node nodes[OPS_NODES];
	int64_t sections; /* guarded by ops_mutex */
	int64_t bias;     /* what refcount.exact holds besides the count */
	unsigned released;
	enum ops_setup setup;
	bool made;
};
extern struct ops_objects ops_objects;
extern struct near_mutex ops_mutex; /* by this name the emulator knows it */

#endif
