/* SPDX-License-Identifier: MIT */
/* What each object that contains the library offers to the test of instances. */
#ifndef NEARCPU_TESTS_PLUGIN_H
#define NEARCPU_TESTS_PLUGIN_H

#include <nearcpu/counter.h>
#include <nearcpu/mutex.h>
#include <nearcpu/park.h>
#include <nearcpu/refcount.h>
#include <nearcpu/stack.h>

/* What a process has once; the first and the last one are a thread's. */
enum plugin_part { SELF, DEAD, PROCESS, LOT, MORE, NO_BLOCK, PLUGIN_PARTS };

struct plugin {
	void *(*address)(enum plugin_part part);
	unsigned (*registration)(void); /* bit 0: live, bit 1: by the library */
	const char *(*why)(void);       /* near_rseq_status's */
	int (*open_all)(struct near_counter *c, struct near_refcount *r, struct near_stack *s);
	void (*add)(struct near_counter *c, int64_t n);
	int64_t (*read)(struct near_counter *c);
	void (*get)(struct near_refcount *r);
	void (*put)(struct near_refcount *r);
	void (*kill)(struct near_refcount *r);
	void (*push)(struct near_stack *s, struct near_stack_node *node);
	struct near_stack_node *(*pop)(struct near_stack *s);
	int (*park)(const void *address, struct near_park *how);
	size_t (*unpark)(const void *address, size_t n, uintptr_t token);
	void (*lock)(struct near_mutex *m);
	void (*unlock)(struct near_mutex *m);
};

#endif
