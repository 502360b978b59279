/* SPDX-License-Identifier: MIT */
/* The objects of the operations, and calls: each inline function of the library once, out of line,
 * so each sequence is in the program once, and every operation that reaches it counts. */
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
	int64_t sections; /* guarded by ops_mutex[0] */
	int64_t bias;     /* what refcount.exact holds besides the count */
	unsigned released;
	enum ops_setup setup;
	bool made;
};
extern struct ops_objects ops_objects;
/* One for both actors, and one of each. By this name the emulator knows them. */
extern struct near_mutex ops_mutex[3];

#define OBJ ops_objects

void call_add(int64_t n);
void call_add_shared(int64_t n);
void call_push(struct near_stack_node *node);
void call_push_chain(struct near_stack_node *first, struct near_stack_node *last);
struct near_stack_node *call_pop(void);
void call_get(void);
void call_put(void);
bool call_try_get(void);
bool call_try_get_live(void);
void call_lock(struct near_mutex *m);
void call_unlock(struct near_mutex *m);
void call_raise_to(struct actor *me, uint64_t n);
bool call_try_read_lock(void);
void call_read_unlock(void);

/* Adds a result to the actor's. */
void result(struct actor *me, const void *value);
void number(struct actor *me, int64_t value);

/* Runs an operation as a thread that is not live, by the words that vfork's assembly sets. */
void not_live(void (*run)(struct actor *me), struct actor *me);

/* The operations of locks.c. */
void rwlock_read(struct actor *me);
void rwlock_read_nested(struct actor *me);
void rwlock_read_slow(struct actor *me);
void rwlock_write(struct actor *me);
void rwlock_downgrade(struct actor *me);
void rwlock_write_read(struct actor *me);
void mutex_use(struct actor *me);
void mutex_try(struct actor *me);
void mutex_alone(struct actor *me);

#endif
