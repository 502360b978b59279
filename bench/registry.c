/* SPDX-License-Identifier: MIT */
/* registry: every benchmark, in the order in which they run and are shown. */
#include "bench.h"

extern const struct bench bench_hitcounter;
extern const struct bench bench_list;
extern const struct bench bench_refcount;
extern const struct bench bench_histogram;
extern const struct bench bench_pool;
extern const struct bench bench_pool_passed;
extern const struct bench bench_pool_flow;
extern const struct bench bench_pool_server;
extern const struct bench bench_pool_server_p99;
extern const struct bench bench_idspace;
extern const struct bench bench_idspace_shared;
extern const struct bench bench_idspace_passed;
extern const struct bench bench_cpuid;
extern const struct bench bench_counter;
extern const struct bench bench_counter_turn;
extern const struct bench bench_calls;
extern const struct bench bench_across;
extern const struct bench bench_memory;
extern const struct bench bench_memory_histogram;
extern const struct bench bench_memory_pool;
extern const struct bench bench_sched_processes;
extern const struct bench bench_sched_threads;
extern const struct bench bench_sched_two;
extern const struct bench bench_sched_ten;
extern const struct bench bench_sched_pipe;
extern const struct bench bench_locks_empty;
extern const struct bench bench_locks_1;
extern const struct bench bench_locks_10;
extern const struct bench bench_locks_100;
extern const struct bench bench_sem;
extern const struct bench bench_barrier_free;
extern const struct bench bench_barrier_pinned;
extern const struct bench bench_broadcast_free;
extern const struct bench bench_broadcast_pinned;
extern const struct bench bench_signal_locked;
extern const struct bench bench_signal_unlocked;
extern const struct bench bench_park_0;
extern const struct bench bench_park_256;
extern const struct bench bench_park_1024;
extern const struct bench bench_rwlock_0;
extern const struct bench bench_rwlock_1;
extern const struct bench bench_rwlock_10;
extern const struct bench bench_rwlock_100;
extern const struct bench bench_rcu_read;
extern const struct bench bench_rcu_sync_0;
extern const struct bench bench_rcu_sync_busy;
extern const struct bench bench_rcu_sync_100;
extern const struct bench bench_rcu_sync_2000;
extern const struct bench bench_rcu_call;
extern const struct bench bench_rcu_memory;
extern const struct bench bench_trace_latency;
extern const struct bench bench_memory_queue;
extern const struct bench bench_memory_rcu;
extern const struct bench bench_queue_try;
extern const struct bench bench_queue_wait;
extern const struct bench bench_malloc_table;
extern const struct bench bench_malloc_startup;
extern const struct bench bench_malloc_freed;
extern const struct bench bench_malloc_freed_threads;
extern const struct bench bench_malloc_waiting;
extern const struct bench bench_malloc_ended;

#define FOUR_OF(b, i) &(b)[i], &(b)[(i) + 1], &(b)[(i) + 2], &(b)[(i) + 3]
#define FOUR_PATTERNS(i) FOUR_OF(bench_malloc, i)
#define EIGHT_CASES(i) FOUR_OF(bench_atomic, i), FOUR_OF(bench_atomic, (i) + 4)

/* clang-format off */
const struct bench *const bench_registry[] = {
	&bench_hitcounter,
	&bench_list,
	&bench_refcount,
	&bench_histogram,
	&bench_pool,
	&bench_pool_passed,
	&bench_pool_flow,
	&bench_pool_server,
	&bench_pool_server_p99,
	&bench_idspace,
	&bench_idspace_shared,
	&bench_idspace_passed,
	&bench_cpuid,
	&bench_counter,
	&bench_counter_turn,
	&bench_calls,
	&bench_across,
	&bench_memory,
	&bench_memory_histogram,
	&bench_memory_pool,
	&bench_memory_queue,
	&bench_memory_rcu,
	&bench_sched_processes,
	&bench_sched_threads,
	&bench_sched_two,
	&bench_sched_ten,
	&bench_sched_pipe,
	&bench_locks_empty,
	&bench_locks_1,
	&bench_locks_10,
	&bench_locks_100,
	&bench_sem,
	&bench_barrier_free,
	&bench_barrier_pinned,
	&bench_broadcast_free,
	&bench_broadcast_pinned,
	&bench_signal_locked,
	&bench_signal_unlocked,
	&bench_park_0,
	&bench_park_256,
	&bench_park_1024,
	&bench_rwlock_0,
	&bench_rwlock_1,
	&bench_rwlock_10,
	&bench_rwlock_100,
	&bench_queue_try,
	&bench_queue_wait,
	&bench_rcu_read,
	&bench_rcu_sync_0,
	&bench_rcu_sync_busy,
	&bench_rcu_sync_100,
	&bench_rcu_sync_2000,
	&bench_rcu_call,
	&bench_rcu_memory,
	FOUR_OF(bench_map, 0),
	&bench_map[4],
	&bench_map[5],
	FOUR_OF(bench_trace, 0),
	&bench_trace[4],
	&bench_trace[5],
	&bench_trace[6],
	&bench_trace_latency,
	EIGHT_CASES(0),
	EIGHT_CASES(8),
	EIGHT_CASES(16),
	EIGHT_CASES(24),
	EIGHT_CASES(32),
	EIGHT_CASES(40),
	EIGHT_CASES(48),
	EIGHT_CASES(56),
	EIGHT_CASES(64),
	EIGHT_CASES(72),
	FOUR_OF(bench_atomic, 80),
	&bench_malloc_table,
	&bench_malloc_startup,
	&bench_malloc_freed,
	&bench_malloc_freed_threads,
	&bench_malloc_waiting,
	&bench_malloc_ended,
	FOUR_PATTERNS(0),
	FOUR_PATTERNS(4),
	FOUR_PATTERNS(8),
	FOUR_PATTERNS(12),
	&bench_malloc[16],
	&bench_malloc[17],
	NULL,
};
/* clang-format on */

_Static_assert(BENCH_MALLOC_PATTERNS == 18, "each pattern is named above");
_Static_assert(BENCH_MAP_PARTS == 6 && BENCH_TRACE_PARTS == 7, "each part is");
_Static_assert(BENCH_ATOMIC_CASES == 84, "so is each case");
