/* SPDX-License-Identifier: MIT */
/* heap: a heap of nodes that know their position, so that any of them can be removed. */
#ifndef NEARCPU_SIM_HEAP_H
#define NEARCPU_SIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct heap_node {
	uint64_t key;
	unsigned number;   /* nodes with the same key are ordered by it */
	unsigned position; /* index + 1; 0: in no heap */
};

struct heap {
	/* With copies of the key and the number, so that comparing visits no node. */
	struct heap_entry {
		uint64_t key;
		struct heap_node *node;
		unsigned number;
	} * entries;
	unsigned count;
};

void heap_push(struct heap *h, struct heap_node *node, uint64_t key);
/* The node is in the heap. */
void heap_remove(struct heap *h, struct heap_node *node);
void heap_free(struct heap *h);

static inline struct heap_node *heap_first(const struct heap *h)
{
	return h->count ? h->entries[0].node : 0;
}

#endif
