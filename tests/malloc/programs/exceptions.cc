// SPDX-License-Identifier: MIT
// Exceptions, over-aligned objects, containers and threads of a C++ program.
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct alignas(256) Wide {
	unsigned char bytes[300];
};

static int fail_at(int depth)
{
	std::string text(static_cast<size_t>(depth) * 10, 'x');

	if (depth == 0)
		throw std::runtime_error("thrown from " + text + "the bottom");
	return fail_at(depth - 1) + static_cast<int>(text.size());
}

static unsigned long work(unsigned seed)
{
	std::map<std::string, std::vector<int>> map;
	unsigned long sum = 0;

	for (unsigned i = 0; i < 20000; i++) {
		seed = seed * 1103515245 + 12345;
		map["key" + std::to_string(seed % 997)].push_back(static_cast<int>(i));
		try {
			if (i % 10 == 0)
				fail_at(static_cast<int>(i % 30));
		} catch (const std::exception &e) {
			sum += std::string(e.what()).size();
		}
		auto wide = std::make_unique<Wide[]>(1 + i % 3);
		if (reinterpret_cast<uintptr_t>(wide.get()) % alignof(Wide))
			return 0;
		wide[i % 3 ? 0 : i % 1].bytes[299] = 1;
	}
	for (const auto &entry : map)
		sum += entry.first.size() * entry.second.size();
	return sum;
}

/* More than there can be, which compilers are not to know. */
static volatile size_t too_much = static_cast<size_t>(PTRDIFF_MAX) - 100;

int main()
{
	std::vector<unsigned long> results(4);
	std::vector<std::thread> threads;

	for (unsigned i = 0; i < results.size(); i++)
		threads.emplace_back([&results, i] { results[i] = work(i + 1); });
	for (auto &t : threads)
		t.join();
	for (auto r : results)
		std::printf("%lu\n", r);
	try {
		std::vector<char> v(too_much);
	} catch (const std::bad_alloc &) {
		std::puts("bad_alloc");
	}
	std::printf("%d\n", new (std::nothrow) char[too_much] == nullptr);
	return 0;
}
