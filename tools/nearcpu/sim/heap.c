/* SPDX-License-Identifier: MIT */
/* A heap: see heap.h. Each entry has four children, which are on one or two cache lines. */
#include "common/memory.h"
#include "sim/heap.h"

#define CHILDREN 4

static bool before(const struct heap_entry *a, const struct heap_entry *b)
{
	return a->key < b->key || (a->key == b->key && a->number < b->number);
}

static void place(struct heap *h, struct heap_entry entry, unsigned at)
{
	h->entries[at] = entry;
	entry.node->position = at + 1;
}

/* Puts the entry where it belongs, from the hole `at`. */
static void settle(struct heap *h, struct heap_entry entry, unsigned at)
{
	while (at && before(&entry, &h->entries[(at - 1) / CHILDREN])) {
		place(h, h->entries[(at - 1) / CHILDREN], at);
		at = (at - 1) / CHILDREN;
	}
	for (;;) {
		unsigned least = CHILDREN * at + 1, end = least + CHILDREN;

		if (least >= h->count)
			break;
		for (unsigned i = least + 1; i < end && i < h->count; i++)
			if (before(&h->entries[i], &h->entries[least]))
				least = i;
		if (!before(&h->entries[least], &entry))
			break;
		place(h, h->entries[least], at);
		at = least;
	}
	place(h, entry, at);
}

void heap_push(struct heap *h, struct heap_node *node, uint64_t key)
{
	grow(&h->entries, h->count, sizeof(*h->entries));
	node->key = key;
	h->count++;
	settle(h, (struct heap_entry){key, node, node->number}, h->count - 1);
}

void heap_remove(struct heap *h, struct heap_node *node)
{
	unsigned at = node->position - 1;
	struct heap_entry last = h->entries[--h->count];

	node->position = 0;
	if (last.node != node)
		settle(h, last, at);
}

void heap_free(struct heap *h)
{
	free(h->entries);
	*h = (struct heap){0};
}
