/* SPDX-License-Identifier: MIT */
/* The headers as C++ programs use them. */
#include "sum.h"

#include <nearcpu/counter.h>
#include <nearcpu/fifo.h>
#include <nearcpu/histogram.h>
#include <nearcpu/idspace.h>
#include <nearcpu/lock.h>
#include <nearcpu/pool.h>
#include <nearcpu/queue.h>
#include <nearcpu/rcu.h>
#include <nearcpu/recursive_mutex.h>
#include <nearcpu/refcount.h>
#include <nearcpu/rseq.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/shared_counters.h>
#include <nearcpu/shared_ids.h>
#include <nearcpu/stack.h>
#include <nearcpu/trace.h>
#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

constexpr int kThreads = 4;
constexpr int kRounds = 20000;

template <typename Body> void inThreads(Body body)
{
	std::vector<std::thread> threads;

	for (int i = 0; i < kThreads; i++)
		threads.emplace_back([&] {
			for (int round = 0; round < kRounds; round++)
				body();
		});
	for (std::thread &t : threads)
		t.join();
}

TEST(Cxx, TemplateInTwoFiles)
{
	Sum<std::int64_t> sum;

	inThreads([&] {
		sum.add(3);
		add_elsewhere(sum, -1);
	});
	EXPECT_EQ(sum.read(), std::int64_t{2} * kThreads * kRounds);
}

TEST(Cxx, TemplateOfTwoTypes)
{
	Sum<std::uint64_t> sum;

	inThreads([&] { sum.add(1); });
	EXPECT_EQ(sum.read(), std::uint64_t{kThreads} * kRounds);
}

near_counter early;
NEAR_EARLY(early, near_counter_init(&early));

TEST(Cxx, CounterBeforeMain)
{
	near_counter_add(&early, 2);
	EXPECT_EQ(near_counter_read(&early), 2);
}

TEST(Cxx, PointersOfRcuMayBeStdAtomic)
{
	static int first = 1, second = 2;
	std::atomic<int *> atomic{&first};
	const std::atomic<int *> &readOnly = atomic;
	int *plain = &first;

	near_rcu_assign(atomic, &second);
	near_rcu_assign(plain, &second);
	EXPECT_EQ(near_rcu_dereference(readOnly), &second);
	EXPECT_EQ(*near_rcu_dereference(plain), 2);
	near_rcu_assign(atomic, nullptr);
	near_rcu_assign(plain, NULL);
	EXPECT_EQ(near_rcu_dereference(atomic), nullptr);
	EXPECT_EQ(near_rcu_dereference(plain), nullptr);
}

near_recursive_mutex recursive = NEAR_RECURSIVE_MUTEX_INIT;

TEST(Cxx, MutexOfSeveralLevels)
{
	long sum = 0;

	inThreads([&] {
		near_recursive_mutex_lock(&recursive);
		if (near_recursive_mutex_try_lock(&recursive)) {
			sum++;
			near_recursive_mutex_unlock(&recursive);
		}
		near_recursive_mutex_unlock(&recursive);
	});
	EXPECT_EQ(sum, long{kThreads} * kRounds);
}

near_rwlock staticLock = NEAR_RWLOCK_INIT_WRITERS_FIRST;

void readAndWriteInThreads(near_rwlock &lock)
{
	long first = 0, second = 0;
	int written = 0;

	inThreads([&] {
		near_rwlock_read_lock(&lock);
		bool writes = first % 100 == 0 && first < 1000;
		EXPECT_EQ(first, second);
		near_rwlock_read_unlock(&lock);
		if (!writes && near_rwlock_try_read_lock(&lock)) {
			near_rwlock_read_unlock(&lock);
			return;
		}
		near_rwlock_write_lock(&lock);
		first++;
		written++;
		second++;
		near_rwlock_downgrade(&lock);
		near_rwlock_read_unlock(&lock);
	});
	EXPECT_EQ(first, written);
	near_rwlock_destroy(&lock);
}

TEST(Cxx, Rwlock)
{
	near_rwlock lock;
	near_rwlock_options options = {};

	ASSERT_EQ(near_rwlock_init(&lock, NULL), 0);
	readAndWriteInThreads(lock);
	options.policy = NEAR_RWLOCK_WRITERS_FIRST;
	ASSERT_EQ(near_rwlock_init(&lock, &options), 0);
	readAndWriteInThreads(lock);
	readAndWriteInThreads(staticLock);
}

TEST(Cxx, Counter)
{
	near_counter counter;

	ASSERT_EQ(near_counter_init(&counter), 0);
	inThreads([&] { near_counter_add(&counter, 1); });
	EXPECT_EQ(near_counter_read(&counter), kThreads * kRounds);
	near_counter_destroy(&counter);
}

TEST(Cxx, Stack)
{
	near_stack stack;
	near_stack_node nodes[kThreads * 2];
	int left = 0;

	ASSERT_EQ(near_stack_init(&stack), 0);
	for (near_stack_node &node : nodes)
		near_stack_push(&stack, &node);
	inThreads([&] {
		if (near_stack_node *node = near_stack_pop(&stack))
			near_stack_push(&stack, node);
	});
	for (near_stack_node *node = near_stack_drain(&stack); node; node = node->next)
		left++;
	EXPECT_EQ(left, kThreads * 2);
	near_stack_destroy(&stack);
}

TEST(Cxx, Pool)
{
	const near_pool_options options = {0, nullptr, nullptr, nullptr, 100, 0, 0, {}};
	near_pool pool;

	ASSERT_EQ(near_pool_init(&pool, sizeof(long), &options), 0);
	inThreads([&] {
		auto *n = static_cast<long *>(near_pool_get(&pool));

		*n = kRounds;
		near_pool_put(&pool, n);
	});
	EXPECT_GT(near_pool_drain(&pool), 0u);
	near_pool_destroy(&pool);
}

template <typename Queue, typename Put, typename Get> void putAndGet(Queue *queue, Put put, Get get)
{
	std::atomic<long> sum{0};
	int element = 0;

	inThreads([&] {
		void *out = nullptr;

		EXPECT_EQ(put(queue, &element), 0);
		EXPECT_EQ(get(queue, &out), 0);
		sum += out == &element;
	});
	EXPECT_EQ(sum, kThreads * kRounds);
}

TEST(Cxx, Queues)
{
	near_queue queue;
	near_fifo fifo;
	void *none[1];

	ASSERT_EQ(near_queue_init(&queue, 8), 0);
	ASSERT_EQ(near_fifo_init(&fifo, 8), 0);
	putAndGet(&queue, near_queue_put, near_queue_get);
	putAndGet(&fifo, near_fifo_put, near_fifo_get);
	EXPECT_EQ(near_queue_try_put(&queue, nullptr), 0);
	near_queue_close(&queue);
	EXPECT_EQ(near_queue_try_get_many(&queue, none, 1), 1);
	EXPECT_EQ(near_queue_try_get(&queue, none), -EPIPE);
	near_queue_destroy(&queue);
	near_fifo_destroy(&fifo);
}

int released;

TEST(Cxx, Ids)
{
	const near_idspace_options options = {64, 4096, {}};
	near_idspace ids;
	struct near_idspace_stats stats; // also the name of a function
	void *p = nullptr;
	long sum = 0;

	ASSERT_EQ(near_idspace_init(&ids, &options), 0);
	ASSERT_EQ(near_idspace_alloc(&ids, sizeof(long), sizeof(long), &p), 0);
	inThreads([&] {
		near_worker first{}, second{};
		int id = near_idspace_acquire(&ids, &first);

		ASSERT_GE(id, 0);
		EXPECT_EQ(near_idspace_hand_over(&ids, &first, &second), id);
		++*static_cast<long *>(near_idspace_at(&ids, p, near_worker_id(&second)));
		near_idspace_release(&ids, &second);
	});
	ASSERT_EQ(near_idspace_stats(&ids, &stats, sizeof(stats)), 0);
	for (unsigned id = 0; id < stats.highest; id++)
		sum += *static_cast<long *>(near_idspace_at(&ids, p, static_cast<int>(id)));
	EXPECT_EQ(sum, kThreads * kRounds);
	EXPECT_EQ(stats.used, stats.cached);
	near_idspace_destroy(&ids);
}

TEST(Cxx, SharedIds)
{
	const near_shared_ids_options options = {8, 4, sizeof(long), {}};
	near_region region;
	near_shared_ids ids;
	near_worker worker{};

	ASSERT_EQ(near_region_open(&region, nullptr, nullptr), 0);
	EXPECT_EQ(near_shared_ids_open(&ids, &region, "no name", nullptr, nullptr), -EINVAL);
	EXPECT_NE(near_shared_ids_error(&ids), nullptr);
	ASSERT_EQ(near_shared_ids_open(&ids, &region, "ids", nullptr, &options), 0)
		<< near_shared_ids_error(&ids);
	EXPECT_EQ(near_shared_ids_acquire(&ids, &worker), 0);
	EXPECT_FALSE(near_worker_must_repair(&worker));
	EXPECT_EQ(*static_cast<long *>(near_shared_ids_data(&ids, 0)), 0);
	near_shared_ids_release(&ids, &worker);
	near_shared_ids_close(&ids);
	near_region_close(&region);
}

TEST(Cxx, Refcount)
{
	near_refcount count;

	released = 0;
	ASSERT_EQ(near_refcount_init(&count, [](near_refcount *) { released++; }), 0);
	inThreads([&] {
		near_refcount_get(&count);
		near_refcount_put(&count);
	});
	EXPECT_EQ(released, 0);
	near_refcount_kill(&count);
	EXPECT_EQ(released, 1);
	near_refcount_destroy(&count);
}

TEST(Cxx, Lock)
{
	near_lock lock = NEAR_LOCK_INIT;
	int sum = 0;

	inThreads([&] {
		near_lock_lock(&lock);
		sum++;
		near_lock_unlock(&lock);
	});
	EXPECT_EQ(sum, kThreads * kRounds);
}

TEST(Cxx, Shared)
{
	near_shared_counters_options options = {};
	near_shared_counters counters;
	near_region region;

	options.count = 8;
	ASSERT_EQ(near_region_open(&region, nullptr, nullptr), 0);
	ASSERT_EQ(near_shared_counters_open(&counters, &region, "counters", nullptr, &options), 0);
	inThreads([&] { near_shared_counters_add(&counters, 1, 2); });
	EXPECT_EQ(near_shared_counters_read(&counters, 1), 2 * kThreads * kRounds);
	near_shared_counters_close(&counters);
	near_region_close(&region);
}

TEST(Cxx, Histogram)
{
	near_histogram histogram;
	near_histogram_snapshot snapshot;

	ASSERT_EQ(near_histogram_init(&histogram, nullptr), 0);
	inThreads([&] { near_histogram_record(&histogram, 1000); });
	ASSERT_EQ(near_histogram_reset(&histogram, &snapshot), 0);
	EXPECT_EQ(snapshot.count, uint64_t{kThreads} * kRounds);
	EXPECT_EQ(near_histogram_snapshot_percentile(&snapshot, 50).high, 1007u);
	near_histogram_snapshot_free(&snapshot);
	near_histogram_destroy(&histogram);
}

enum color { RED, BLUE };

NEAR_TRACEPOINT(cxx, none, NEAR_TRACE_INFO);
NEAR_TRACEPOINT(cxx, small, NEAR_TRACE_INFO, (u8, a), (i16, b), (bool, c), (enum, d, color, RED));
NEAR_TRACEPOINT(cxx, words, NEAR_TRACE_INFO, (u64, a), (f64, b), (ptr, c), (f32, d));
NEAR_TRACEPOINT(cxx, text, NEAR_TRACE_INFO | NEAR_TRACE_CUT, (string, a), (bytes, b),
		(array_i64, c), (enum, d, color, RED, BLUE));

#define EIGHT(n)                                                                                   \
	(u8, n##0), (i64, n##1), (string, n##2), (f64, n##3), (ptr, n##4), (bytes, n##5),          \
		(enum, n##6, color, RED, BLUE), (array_i64, n##7)
#define VALUES 1, -2, "text", 2.5, nullptr, "x", 1, BLUE, numbers, 2
NEAR_TRACEPOINT(cxx, most, NEAR_TRACE_INFO, EIGHT(a), EIGHT(b), EIGHT(c), EIGHT(d), EIGHT(e),
		EIGHT(f), EIGHT(g), EIGHT(h));

TEST(Cxx, Trace)
{
	const std::string folder = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
	const std::string file = folder + "/nearcpu-cxx-" + std::to_string(getpid());
	const int64_t numbers[] = {1, 2};
	near_trace_options options{};
	struct near_trace_stats stats;

	options.path = file.c_str();
	options.enable = "cxx:*";
	ASSERT_EQ(near_trace_start(&options), 0) << near_trace_error();
	inThreads([&] {
		near_trace_cxx_none();
		near_trace_cxx_small(1, -2, true, RED);
		near_trace_cxx_words(1, 2.5, &file, 3.5f);
		near_trace_cxx_text(file.c_str(), nullptr, 0, numbers, 2, BLUE);
		near_trace_cxx_most(VALUES, VALUES, VALUES, VALUES, VALUES, VALUES, VALUES, VALUES);
	});
	EXPECT_EQ(near_trace_stats(&stats, sizeof(stats)), 0);
	EXPECT_EQ(stats.enabled, 5u);
	EXPECT_GE(stats.rings, 1u);
	EXPECT_EQ(near_trace_stop(), 0);
	EXPECT_EQ(unlink(file.c_str()), 0);
}

} // namespace
