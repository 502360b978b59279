/* SPDX-License-Identifier: MIT */
/* near_idspace: random histories on one node. The program is linked with
 * --wrap=near__topology_cpus, near__topology_nodes and near__is_one_thread. */
#include "histories.h"

#include "one_node.h"

#define STEPS unit_scale(20000)

void history_enter(unsigned place, unsigned node)
{
	slots_enter(place);
}

#define HISTORY(name, ...)                                                                         \
	static void name(void **state)                                                             \
	{                                                                                          \
		history_run((struct history_kind){__VA_ARGS__, .nodes = 1}, STEPS);                \
	}

HISTORY(one_worker, .ids = 5, .workers = 1, .places = 7, .single = true, .wandering = 50)
HISTORY(workers_of_one_thread, .ids = 100, .workers = 9, .places = 7, .single = true,
	.wandering = 50)
HISTORY(workers_that_stay, .ids = 100, .workers = 30, .places = 6, .wandering = 0)
HISTORY(workers_that_wander, .ids = 100, .workers = 30, .places = 20, .wandering = 100)
HISTORY(more_workers_than_ids, .ids = 7, .workers = 12, .places = 5, .wandering = 30)
HISTORY(many_slots, .ids = HISTORY_MOST, .workers = 120, .places = SLOTS_CPUS, .wandering = 10)
HISTORY(one_id, .ids = 1, .workers = 3, .places = 3, .wandering = 30)

static void peaks(void **state)
{
	history_waves((struct history_kind){.ids = HISTORY_MOST,
					    .workers = 150,
					    .places = 90,
					    .nodes = 1,
					    .wandering = 20},
		      unit_scale(60));
}

UNIT_MAIN(one_worker, workers_of_one_thread, workers_that_stay, workers_that_wander,
	  more_workers_than_ids, many_slots, one_id, peaks)
