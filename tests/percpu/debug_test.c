/* SPDX-License-Identifier: MIT */
/* Objects that are used before their init, by code that was compiled with NEAR_DEBUG. */
#define NEAR_DEBUG
#include "unit.h"

#include <nearcpu/counter.h>
#include <nearcpu/histogram.h>
#include <nearcpu/idspace.h>
#include <nearcpu/pool.h>
#include <nearcpu/queue.h>
#include <nearcpu/rcu_map.h>
#include <nearcpu/rcu_map64.h>
#include <nearcpu/refcount.h>
#include <nearcpu/shared_counters.h>
#include <nearcpu/shared_ids.h>
#include <nearcpu/stack.h>

static struct near_stack_node node;

#define NOT_INITIALISED(type, function, ...)                                                       \
	static void function##_reports_it(void **state)                                            \
	{                                                                                          \
		static struct type o;                                                              \
		char line[128];                                                                    \
                                                                                                   \
		snprintf(line, sizeof(line), #function ": the object at %p was not initialised",   \
			 (void *)&o);                                                              \
		DIES(line)                                                                         \
			(void)(function)(__VA_ARGS__);                                             \
	}
NOT_INITIALISED(near_counter, near_counter_add, &o, 1)
NOT_INITIALISED(near_stack, near_stack_push, &o, &node)
NOT_INITIALISED(near_stack, near_stack_push_chain, &o, &node, &node)
NOT_INITIALISED(near_stack, near_stack_pop, &o)
NOT_INITIALISED(near_refcount, near_refcount_get, &o)
NOT_INITIALISED(near_refcount, near_refcount_try_get, &o)
NOT_INITIALISED(near_refcount, near_refcount_try_get_live, &o)
NOT_INITIALISED(near_refcount, near_refcount_put, &o)
NOT_INITIALISED(near_histogram, near_histogram_record_n, &o, 1, 1)
NOT_INITIALISED(near_pool, near_pool_get, &o)
NOT_INITIALISED(near_pool, near_pool_try_get, &o)
NOT_INITIALISED(near_pool, near_pool_put, &o, &node)
NOT_INITIALISED(near_queue, near_queue_try_put, &o, &node)
NOT_INITIALISED(near_idspace, near_idspace_acquire, &o, &(struct near_worker){0})
NOT_INITIALISED(near_shared_ids, near_shared_ids_acquire, &o, &(struct near_worker){0})
NOT_INITIALISED(near_shared_counters, near_shared_counters_add, &o, 0, 1)
NOT_INITIALISED(near_rcu, near_rcu_enter, &o)
NOT_INITIALISED(near_rcu_map, near_rcu_map_lookup, &o, &node)
NOT_INITIALISED(near_rcu_map64, near_rcu_map64_find, &o, 1)

static void initialised_objects_work(void **state)
{
	struct near_counter c;

	assert_int_equal(near_counter_init(&c), 0);
	near_counter_add(&c, 2);
	assert_int_equal(near_counter_read(&c), 2);
	near_counter_destroy(&c);
}

UNIT_MAIN(near_counter_add_reports_it, near_stack_push_reports_it, near_stack_push_chain_reports_it,
	  near_stack_pop_reports_it, near_refcount_get_reports_it, near_refcount_try_get_reports_it,
	  near_refcount_try_get_live_reports_it, near_refcount_put_reports_it,
	  near_histogram_record_n_reports_it, near_pool_get_reports_it,
	  near_pool_try_get_reports_it, near_pool_put_reports_it, near_queue_try_put_reports_it,
	  near_idspace_acquire_reports_it, near_shared_ids_acquire_reports_it,
	  near_shared_counters_add_reports_it, near_rcu_enter_reports_it,
	  near_rcu_map_lookup_reports_it, near_rcu_map64_find_reports_it, initialised_objects_work)
