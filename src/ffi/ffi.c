/* SPDX-License-Identifier: MIT */
/* libnearcpu-ffi: the inline functions of the public headers as functions, for callers that cannot
 * include C headers: other languages, dlsym. near_abi(7) has the rest of what they need.
 * tests/ffi/exports_test.py compares what is here with the headers.
 */
#define NEAR_INLINE NEAR_API
#include <nearcpu/barrier.h>
#include <nearcpu/cancel.h>
#include <nearcpu/cond.h>
#include <nearcpu/counter.h>
#include <nearcpu/fifo.h>
#include <nearcpu/gauge.h>
#include <nearcpu/histogram.h>
#include <nearcpu/idspace.h>
#include <nearcpu/lock.h>
#include <nearcpu/metrics.h>
#include <nearcpu/mutex.h>
#include <nearcpu/once.h>
#include <nearcpu/park.h>
#include <nearcpu/percpu.h>
#include <nearcpu/pool.h>
#include <nearcpu/queue.h>
#include <nearcpu/rcu.h>
#include <nearcpu/rcu_list.h>
#include <nearcpu/rcu_map.h>
#include <nearcpu/rcu_map64.h>
#include <nearcpu/recursive_mutex.h>
#include <nearcpu/refcount.h>
#include <nearcpu/region.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/sem.h>
#include <nearcpu/shared_counters.h>
#include <nearcpu/shared_ids.h>
#include <nearcpu/stack.h>
#include <nearcpu/thrsleep.h>
#include <nearcpu/trace.h>
#include <nearcpu/watch.h>
#include <string.h>

/* clang-format off */
#define TYPE(name) { #name, sizeof(struct near_##name) }
/* clang-format on */

static const struct {
	const char *name;
	size_t size;
} types[] = {
	TYPE(barrier),
	TYPE(cancel),
	TYPE(cond),
	TYPE(counter),
	TYPE(family),
	TYPE(fifo),
	TYPE(gauge),
	TYPE(histogram),
	TYPE(histogram_exemplar),
	TYPE(histogram_options),
	TYPE(histogram_range),
	TYPE(histogram_share),
	TYPE(histogram_snapshot),
	TYPE(idspace),
	TYPE(idspace_options),
	TYPE(idspace_stats),
	TYPE(lock),
	TYPE(metric),
	TYPE(metrics),
	TYPE(mutex),
	TYPE(once),
	TYPE(park),
	TYPE(pool),
	TYPE(pool_options),
	TYPE(pool_stats),
	TYPE(queue),
	TYPE(rate),
	TYPE(rcu),
	TYPE(rcu_head),
	TYPE(rcu_list),
	TYPE(rcu_list_node),
	TYPE(rcu_map),
	TYPE(rcu_map64),
	TYPE(rcu_map64_options),
	TYPE(rcu_map_entry),
	TYPE(rcu_map_iterator),
	TYPE(rcu_map_options),
	TYPE(rcu_map_stats),
	TYPE(rcu_options),
	TYPE(rcu_stats),
	TYPE(rcu_token),
	TYPE(recursive_mutex),
	TYPE(refcount),
	TYPE(region),
	TYPE(region_object),
	TYPE(region_options),
	TYPE(region_stats),
	TYPE(rseq_status),
	TYPE(rwlock),
	TYPE(rwlock_options),
	TYPE(sem),
	TYPE(shared_counters),
	TYPE(shared_counters_options),
	TYPE(shared_ids),
	TYPE(shared_ids_options),
	TYPE(shared_ids_stats),
	TYPE(stack),
	TYPE(stack_node),
	TYPE(thr_region),
	TYPE(trace_options),
	TYPE(trace_point),
	TYPE(trace_stats),
	TYPE(unpark),
	TYPE(unparked),
	TYPE(watch),
	TYPE(worker),
};

/* Bytes of `struct near_<type>`, for callers that allocate it, aligned to 8 bytes; 0: there is no
 * such type. */
NEAR_API size_t near_ffi_size(const char *type);

size_t near_ffi_size(const char *type)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(types[i].name, type) == 0)
			return types[i].size;
	return 0;
}
