/* SPDX-License-Identifier: MIT */
/* near_idspace on several nodes: an id keeps its node, and other nodes get it last. The program is
 * linked with --wrap=near__topology_cpus, near__topology_nodes, near__topology_node_of, near_node
 * and near__is_one_thread. */
#include "histories.h"

#define NODES 3u
#define STEPS unit_scale(20000)

static unsigned node_now;

unsigned __wrap_near__topology_nodes(void);
int __wrap_near__topology_node_of(unsigned cpu, unsigned nodes);
unsigned __wrap_near_node(void);

unsigned __wrap_near__topology_nodes(void)
{
	return NODES;
}

int __wrap_near__topology_node_of(unsigned cpu, unsigned nodes)
{
	return (int)(cpu % NODES % nodes);
}

unsigned __wrap_near_node(void)
{
	return node_now;
}

void history_enter(unsigned place, unsigned node)
{
	node_now = slots_area.node_id = node;
	slots_enter(place);
}

#define HISTORY(name, ...)                                                                         \
	static void name(void **state)                                                             \
	{                                                                                          \
		history_run((struct history_kind){__VA_ARGS__, .nodes = NODES}, STEPS);            \
	}

HISTORY(a_worker_on_all_nodes, .ids = 5, .workers = 1, .places = 7, .single = true, .wandering = 50)
HISTORY(workers_that_stay, .ids = 100, .workers = 30, .places = 6, .wandering = 0)
HISTORY(workers_that_wander, .ids = 100, .workers = 30, .places = 20, .wandering = 100)
HISTORY(more_workers_than_ids, .ids = 7, .workers = 12, .places = 5, .wandering = 30)
HISTORY(many_slots, .ids = HISTORY_MOST, .workers = 120, .places = SLOTS_CPUS, .wandering = 10)

/* An id that is released on another node is not cached there. */
static void an_id_returns_to_its_node(void **state)
{
	struct near_worker w[2] = {0};
	struct near_idspace s;

	ids_single = false;
	ids_init(&s, 0, 0);
	history_enter(0, 0);
	assert_int_equal(ids_acquire(&s, &w[0]), 0);
	history_enter(1, 1);
	ids_release(&s, &w[0]);
	assert_int_equal(ids_stats(&s).cached, 0);
	assert_int_equal(ids_stats(&s).discards, 1);
	assert_int_equal(ids_acquire(&s, &w[0]), 1);
	history_enter(3, 0);
	assert_int_equal(ids_acquire(&s, &w[1]), 0);
	near_idspace_release(&s, &w[0]);
	near_idspace_release(&s, &w[1]);
	slots_leave();
	near_idspace_destroy(&s);
}

/* Node 1 has used all; node 0 gets one of its ids, but does not keep it. */
static void another_node_gets_it_last(void **state)
{
	struct near_worker w[4] = {0};
	struct near_idspace s;

	ids_single = false;
	ids_init(&s, 3, 0);
	history_enter(1, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ids_acquire(&s, &w[i]), i);
	for (int i = 0; i < 3; i++)
		near_idspace_release(&s, &w[i]);
	history_enter(0, 0);
	assert_int_equal(ids_acquire(&s, &w[0]), 0);
	assert_int_equal(ids_stats(&s).foreign, 1);
	assert_int_equal(near__idspace_block(&s, 0)->node, 1);
	near_idspace_release(&s, &w[0]);
	assert_int_equal(ids_stats(&s).cached, 0);
	history_enter(1, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ids_acquire(&s, &w[i]), i);
	assert_int_equal(ids_acquire(&s, &w[3]), -EAGAIN);
	assert_int_equal(ids_stats(&s).foreign, 1);
	for (int i = 0; i < 3; i++)
		near_idspace_release(&s, &w[i]);
	slots_leave();
	near_idspace_destroy(&s);
}

/* What is exchanged for a lower one is exchanged within the node. */
static void an_exchange_stays_on_the_node(void **state)
{
	struct near_worker w[4] = {0};
	struct near_idspace s;

	ids_single = false;
	ids_init(&s, 0, 0);
	for (unsigned i = 0; i < 4; i++) {
		history_enter(i < 2 ? 3 * i : 3 * i + 1, i >= 2);
		assert_int_equal(ids_acquire(&s, &w[i]), i);
	}
	near_idspace_release(&s, &w[3]); /* id 3 of node 1, cached at 10 */
	history_enter(0, 0);
	near_idspace_release(&s, &w[0]); /* id 0 of node 0 */
	history_enter(13, 1);
	near_idspace_release(&s, &w[2]); /* id 2 of node 1, cached at 13 */
	history_enter(10, 1);
	for (uint64_t i = 0; i < 3 * NEAR__IDS_TRIM; i++) {
		CHECK(near_idspace_acquire(&s, &w[3]) >= 2);
		near_idspace_release(&s, &w[3]);
	}
	assert_int_equal(ids_acquire(&s, &w[3]), 2);
	near_idspace_release(&s, &w[3]);
	near_idspace_release(&s, &w[1]);
	slots_leave();
	near_idspace_destroy(&s);
}

UNIT_MAIN(an_id_returns_to_its_node, another_node_gets_it_last, an_exchange_stays_on_the_node,
	  a_worker_on_all_nodes, workers_that_stay, workers_that_wander, more_workers_than_ids,
	  many_slots)
