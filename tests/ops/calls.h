/* SPDX-License-Identifier: MIT */
/* calls: each inline function of the library once, out of line, so each sequence is in the program
 * once, and every operation that reaches it counts. Private to this folder. */
#ifndef NEARCPU_TESTS_CALLS_H
#define NEARCPU_TESTS_CALLS_H

#include "objects.h"

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
void call_unlock(void);
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

#endif
