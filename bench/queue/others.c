/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-queues that third-party libraries have, or why they are missing. ck and
 * liburcu are inline functions in C; those in C++ are in a module, which is not installed. */
#include "queue/rows.h"

#ifdef HAVE_CK_RING
#include <ck_ring.h>

static ck_ring_t ring;
static ck_ring_buffer_t ring_cells[2 * CAPACITY];

static void ck_begin(struct window *w)
{
	(void)w;
	ck_ring_init(&ring, CAPACITY);
}

static bool ck_put(uint64_t e)
{
	return ck_ring_enqueue_mpmc(&ring, ring_cells, (void *)(uintptr_t)e);
}

static uint64_t ck_get(void)
{
	void *e;

	return ck_ring_dequeue_mpmc(&ring, ring_cells, &e) ? (uintptr_t)e : 0;
}

TRY_ROW(row_ck, "ck", ck)
#else
MISSING_ROW(row_ck, "ck", "built without ck (package libck-dev)")
#endif

#ifdef HAVE_URCU
#define _LGPL_SOURCE
#include <pthread.h>
#include <urcu/wfcqueue.h>

/* It has no bound and takes nodes that the caller allocates: here each thread that puts has as many
 * as its share of the capacity, and waits for the oldest one. */
struct node {
	struct cds_wfcq_node link;
	uint64_t element;
	uint32_t in_use;
};
#define NODES 8192 /* of all threads */
static struct node nodes[NODES];
static uint32_t node_sets, nodes_of_each;
static __thread struct node *own;
static __thread uint32_t next;
static __thread uint64_t seen_window;
static uint64_t windows;
static struct cds_wfcq_tail tail;
static struct cds_wfcq_head head;

static void urcu_begin(struct window *w)
{
	uint32_t putters = w->threads / 2;

	cds_wfcq_init(&head, &tail);
	nodes_of_each = (putters > CAPACITY / 4 ? NODES : CAPACITY) / putters;
	node_sets = 0;
	windows++;
	for (uint32_t i = 0; i < NODES; i++)
		nodes[i].in_use = 0;
}

static bool urcu_put(uint64_t e)
{
	struct node *n;

	if (seen_window != windows) {
		seen_window = windows;
		own = &nodes[nodes_of_each * __atomic_fetch_add(&node_sets, 1, __ATOMIC_RELAXED)];
		next = 0;
	}
	n = &own[next];
	if (__atomic_load_n(&n->in_use, __ATOMIC_ACQUIRE))
		return false;
	next = next + 1 < nodes_of_each ? next + 1 : 0;
	n->in_use = 1;
	n->element = e;
	cds_wfcq_node_init(&n->link);
	cds_wfcq_enqueue(&head, &tail, &n->link);
	return true;
}

static uint64_t urcu_get(void)
{
	struct cds_wfcq_node *link = cds_wfcq_dequeue_blocking(&head, &tail);
	struct node *n;
	uint64_t e;

	if (!link)
		return 0;
	n = caa_container_of(link, struct node, link);
	e = n->element;
	__atomic_store_n(&n->in_use, 0, __ATOMIC_RELEASE);
	return e;
}

TRY_ROW(row_urcu, "urcu", urcu)
#else
MISSING_ROW(row_urcu, "urcu", "built without liburcu (package liburcu-dev)")
#endif

/* ---- C++ ---- */

#define CXX_ROW(row, label)                                                                        \
	MODULE_ROW(row, label, "nearcpu-queues-cxx.so", "cxx_" #row,                               \
		   "not installed: ./dev bench has it (packages libboost-dev, "                    \
		   "libconcurrentqueue-dev)")

#ifdef HAVE_BOOST
CXX_ROW(row_boost, "boost")
#else
MISSING_ROW(row_boost, "boost", "built without boost (package libboost-dev, and a C++ compiler)")
#endif

#ifdef HAVE_MOODYCAMEL
CXX_ROW(row_moodycamel, "moodycamel")
CXX_ROW(row_moodycamel_wait, "moodycamel-wait")
#else
#define NO_MOODYCAMEL                                                                              \
	"built without moodycamel (package libconcurrentqueue-dev, and a C++ compiler)"
MISSING_ROW(row_moodycamel, "moodycamel", NO_MOODYCAMEL)
MISSING_ROW(row_moodycamel_wait, "moodycamel-wait", NO_MOODYCAMEL)
#endif

#define ROWS(...) const struct window_row *const window_rows[] = {__VA_ARGS__, 0}
ROWS(&row_ck, &row_boost, &row_moodycamel, &row_urcu, &row_near, &row_near_fifo, &row_pthread_wait,
     &row_moodycamel_wait, &row_near_wait, &row_near_fifo_wait);
