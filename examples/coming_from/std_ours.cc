// SPDX-License-Identifier: MIT
// Prices that many threads read and few change. std_theirs.cc does the same with the standard
// library alone.
#include <nearcpu/counter.h>
#include <nearcpu/rwlock.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

// clang-format off
// [lock]
// std::shared_lock, std::unique_lock and std::scoped_lock take it.
class SharedMutex {
public:
	SharedMutex()
	{
		if (near_rwlock_init(&lock_, nullptr))
			throw std::bad_alloc();
	}
	~SharedMutex() { near_rwlock_destroy(&lock_); }
	SharedMutex(const SharedMutex &) = delete;
	SharedMutex &operator=(const SharedMutex &) = delete;

	void lock() { near_rwlock_write_lock(&lock_); }
	bool try_lock() { return near_rwlock_try_write_lock(&lock_); }
	void unlock() { near_rwlock_write_unlock(&lock_); }
	void lock_shared() { near_rwlock_read_lock(&lock_); }
	bool try_lock_shared() { return near_rwlock_try_read_lock(&lock_); }
	void unlock_shared() { near_rwlock_read_unlock(&lock_); }

private:
	near_rwlock lock_;
};
// [/lock]
// clang-format on

// [prices]
static near_counter lookups;
NEAR_EARLY(lookups, near_counter_init(&lookups));
static SharedMutex mutex;
static std::map<std::string, int> prices;

static int price(const std::string &name)
{
	near_counter_add(&lookups, 1);
	std::shared_lock<SharedMutex> lock(mutex);
	const auto found = prices.find(name);

	return found == prices.end() ? 0 : found->second;
}

static void set_price(const std::string &name, int value)
{
	std::lock_guard<SharedMutex> lock(mutex);

	prices[name] = value;
}
// [/prices]

int main()
{
	std::vector<std::thread> threads;

	for (int i = 0; i < 4; i++)
		threads.emplace_back([] {
			for (int j = 0; j < 10000; j++)
				price("tea");
		});
	set_price("tea", 3);
	for (auto &thread : threads)
		thread.join();
	const int tea = price("tea");

	std::printf("tea %d, %lld lookups\n", tea,
		    static_cast<long long>(near_counter_read(&lookups)));
}
