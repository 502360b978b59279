/* SPDX-License-Identifier: MIT */
/* registry: every benchmark, in the order in which they run and are shown. */
#include "bench.h"

/* clang-format off */
#define FIRST(X)                                                                                  \
	X(hitcounter) X(list) X(refcount) X(histogram) X(pool) X(pool_passed) X(pool_flow)         \
	X(pool_server) X(pool_server_p99) X(idspace) X(idspace_shared) X(idspace_passed)           \
	X(cpuid) X(counter) X(counter_turn) X(calls) X(across) X(memory) X(memory_histogram)       \
	X(memory_pool) X(memory_queue) X(memory_rcu) X(sched_processes) X(sched_threads)           \
	X(sched_two) X(sched_ten) X(sched_pipe) X(locks_empty) X(locks_1) X(locks_10) X(locks_100) \
	X(sem) X(barrier_free) X(barrier_pinned) X(broadcast_free) X(broadcast_pinned)             \
	X(signal_locked) X(signal_unlocked) X(park_0) X(park_256) X(park_1024) X(rwlock_0)         \
	X(rwlock_1) X(rwlock_10) X(rwlock_100) X(queue_try) X(queue_wait) X(rcu_read)              \
	X(rcu_sync_0) X(rcu_sync_busy) X(rcu_sync_100) X(rcu_sync_2000) X(rcu_call) X(rcu_memory)
#define LATER(X)                                                                                  \
	X(malloc_table) X(malloc_startup) X(malloc_freed) X(malloc_freed_threads)                  \
	X(malloc_waiting) X(malloc_ended)

#define DECLARED(name) extern const struct bench bench_##name;
FIRST(DECLARED) LATER(DECLARED)
DECLARED(trace_latency)

#define ADDRESS(name) &bench_##name,
#define TWO(b, i) &(b)[i], &(b)[(i) + 1]
#define SIX(b, i) TWO(b, i), TWO(b, (i) + 2), TWO(b, (i) + 4)
#define CASES(i) SIX(bench_atomic, i), SIX(bench_atomic, (i) + 6)

const struct bench *const bench_registry[] = {
	FIRST(ADDRESS)
	SIX(bench_map, 0),
	SIX(bench_trace, 0), &bench_trace[6], &bench_trace_latency,
	CASES(0), CASES(12), CASES(24), CASES(36), CASES(48), CASES(60), CASES(72),
	LATER(ADDRESS)
	SIX(bench_malloc, 0), SIX(bench_malloc, 6), SIX(bench_malloc, 12),
	TWO(bench_malloc, 18), TWO(bench_malloc, 20),
	NULL,
};
/* clang-format on */

_Static_assert(BENCH_MALLOC_PATTERNS == 22, "each pattern is named above");
_Static_assert(BENCH_MAP_PARTS == 6 && BENCH_TRACE_PARTS == 7, "each part is");
_Static_assert(BENCH_ATOMIC_CASES == 84, "so is each case");
