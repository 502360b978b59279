// SPDX-License-Identifier: MIT
// Prices that many threads read and few change, with the standard library: std_ours.cc does the
// same with Nearcpu.
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

// [prices]
static std::atomic<long> lookups;
static std::shared_mutex mutex;
static std::map<std::string, int> prices;

static int price(const std::string &name)
{
	lookups.fetch_add(1, std::memory_order_relaxed);
	std::shared_lock<std::shared_mutex> lock(mutex);
	const auto found = prices.find(name);

	return found == prices.end() ? 0 : found->second;
}

static void set_price(const std::string &name, int value)
{
	std::lock_guard<std::shared_mutex> lock(mutex);

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

	std::printf("tea %d, %ld lookups\n", tea, lookups.load());
}
