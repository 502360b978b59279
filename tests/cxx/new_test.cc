/* SPDX-License-Identifier: MIT */
/* The drop-in malloc from C++: each form of new and delete, what happens without memory, and what
 * programs make of them. Linked with it, and under its preload. */
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern "C" size_t nallocx(size_t n, int flags) __attribute__((weak));

namespace
{

/* No compiler may know what is requested. */
volatile size_t too_much = SIZE_MAX / 2;
volatile size_t beyond_all = SIZE_MAX - 100;

void *volatile sink;

void keep(void *p)
{
	sink = p;
}

bool is_aligned(const void *p, size_t align)
{
	return reinterpret_cast<uintptr_t>(p) % align == 0;
}

TEST(New, IsOurs)
{
	Dl_info ours, found;
	void *(*plain)(size_t) = ::operator new;

	ASSERT_NE(nallocx, nullptr);
	if (!dladdr(reinterpret_cast<void *>(nallocx), &ours))
		GTEST_SKIP() << "a static program";
	ASSERT_TRUE(dladdr(reinterpret_cast<void *>(plain), &found));
	EXPECT_STREQ(ours.dli_fname, found.dli_fname);
}

TEST(New, EachFormGivesMemory)
{
	for (size_t n : {0, 1, 8, 24, 1000, 1025, 40000, 3000000})
		for (size_t align : {1, 8, 16, 64, 4096, 65536}) {
			auto a = std::align_val_t(align);
			void *blocks[] = {
				::operator new(n),
				::operator new[](n),
				::operator new(n, std::nothrow),
				::operator new[](n, std::nothrow),
				::operator new(n, a),
				::operator new[](n, a),
				::operator new(n, a, std::nothrow),
				::operator new[](n, a, std::nothrow),
			};

			for (size_t i = 0; i < 8; i++) {
				ASSERT_NE(blocks[i], nullptr);
				EXPECT_TRUE(is_aligned(blocks[i], i < 4 ? 8 : align));
				EXPECT_GE(malloc_usable_size(blocks[i]), n);
				std::memset(blocks[i], static_cast<int>(i), n);
			}
			for (size_t i = 0; i < 8; i++)
				for (size_t k = 0; k < n; k += 999)
					ASSERT_EQ(static_cast<char *>(blocks[i])[k],
						  static_cast<char>(i));
			::operator delete(blocks[0]);
			::operator delete[](blocks[1]);
			::operator delete(blocks[2], std::nothrow);
			::operator delete[](blocks[3], std::nothrow);
			::operator delete(blocks[4], a);
			::operator delete[](blocks[5], a);
			::operator delete(blocks[6], a, std::nothrow);
			::operator delete[](blocks[7], a, std::nothrow);
			::operator delete(::operator new(n), n);
			::operator delete[](::operator new[](n), n);
			::operator delete(::operator new(n, a), n, a);
			::operator delete[](::operator new[](n, a), n, a);
		}
	::operator delete(nullptr);
	::operator delete[](nullptr, std::align_val_t(64));
}

TEST(New, FailsByAnException)
{
	auto a = std::align_val_t(64);

	for (size_t n : {too_much, beyond_all}) {
		EXPECT_THROW(keep(::operator new(n)), std::bad_alloc);
		EXPECT_THROW(keep(::operator new[](n)), std::bad_alloc);
		EXPECT_THROW(keep(::operator new(n, a)), std::bad_alloc);
		EXPECT_THROW(keep(::operator new[](n, a)), std::bad_alloc);
		EXPECT_EQ(::operator new(n, std::nothrow), nullptr);
		EXPECT_EQ(::operator new[](n, std::nothrow), nullptr);
		EXPECT_EQ(::operator new(n, a, std::nothrow), nullptr);
		EXPECT_EQ(::operator new[](n, a, std::nothrow), nullptr);
	}
	EXPECT_THROW(keep(std::vector<char>(too_much).data()), std::exception);
}

int calls;

void gives_up_at_the_third_call()
{
	if (++calls == 3)
		std::set_new_handler(nullptr);
}

struct unusual : std::bad_alloc {
};

void throws()
{
	calls++;
	throw unusual();
}

TEST(New, CallsTheHandlerUntilThereIsNone)
{
	calls = 0;
	std::set_new_handler(gives_up_at_the_third_call);
	EXPECT_THROW(keep(::operator new(too_much)), std::bad_alloc);
	EXPECT_EQ(calls, 3);
	calls = 0;
	std::set_new_handler(gives_up_at_the_third_call);
	EXPECT_EQ(::operator new[](too_much, std::align_val_t(64), std::nothrow), nullptr);
	EXPECT_EQ(calls, 3);
}

TEST(New, LetsTheHandlerThrow)
{
	calls = 0;
	std::set_new_handler(throws);
	EXPECT_THROW(keep(::operator new(too_much)), unusual);
	EXPECT_THROW(keep(::operator new[](too_much, std::align_val_t(64))), unusual);
	std::set_new_handler(nullptr);
	EXPECT_EQ(calls, 2);
}

/* Left out of static programs: there nobody catches what it throws. */
TEST(New, NothrowCatchesWhatTheHandlerThrows)
{
	calls = 0;
	std::set_new_handler(throws);
	EXPECT_EQ(::operator new(too_much, std::nothrow), nullptr);
	EXPECT_EQ(::operator new[](too_much, std::nothrow), nullptr);
	EXPECT_EQ(::operator new(too_much, std::align_val_t(64), std::nothrow), nullptr);
	std::set_new_handler(nullptr);
	EXPECT_EQ(calls, 3);
}

char *ballast;

void throws_ballast_out()
{
	calls++;
	delete[] ballast;
	ballast = nullptr;
	std::set_new_handler(nullptr);
}

size_t data_in_use()
{
	FILE *file = std::fopen("/proc/self/statm", "r");
	size_t numbers[6] = {0};

	for (size_t &n : numbers)
		if (!file || std::fscanf(file, "%zu", &n) != 1)
			std::abort();
	std::fclose(file);
	return numbers[5] * 4096;
}

TEST(New, TakesWhatTheHandlerFreed)
{
	const size_t size = 96 << 20;
	rlimit before, less;

	if (getauxval(AT_SYSINFO_EHDR) == 0)
		GTEST_SKIP() << "an emulator sets no limits";
	ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
	ballast = new char[size];
	less = before;
	less.rlim_cur = data_in_use() + (32 << 20);
	ASSERT_EQ(setrlimit(RLIMIT_DATA, &less), 0);
	calls = 0;
	std::set_new_handler(throws_ballast_out);
	char *p = new (std::nothrow) char[size];
	setrlimit(RLIMIT_DATA, &before);
	EXPECT_NE(p, nullptr);
	EXPECT_EQ(calls, 1);
	delete[] p;
}

struct alignas(128) wide {
	char bytes[200];
};

int built, destroyed;

struct fails {
	explicit fails(int i)
	{
		if (i == 3)
			throw std::runtime_error("third");
		built++;
	}
	~fails()
	{
		destroyed++;
	}
	std::string text = std::string(100, 'x');
};

/* Its own way to be nothrow. */
struct pooled {
	static void *operator new(size_t n) noexcept
	{
		return n > 1000 ? nullptr : std::malloc(n);
	}
	static void operator delete(void *p)
	{
		std::free(p);
	}
	char bytes[100];
};

struct too_large : pooled {
	char more[1000];
};

TEST(Programs, BuildAndThrow)
{
	std::vector<std::unique_ptr<fails>> kept;

	built = destroyed = 0;
	EXPECT_THROW(for (int i = 0;; i++) kept.push_back(std::make_unique<fails>(i)),
		     std::runtime_error);
	EXPECT_EQ(built, 3);
	kept.clear();
	EXPECT_EQ(destroyed, 3);
}

TEST(Programs, AlignTheirTypes)
{
	std::vector<wide> wides(100);
	auto one = std::make_unique<wide>();
	auto array = std::make_unique<wide[]>(7);

	EXPECT_TRUE(is_aligned(wides.data(), 128));
	EXPECT_TRUE(is_aligned(one.get(), 128));
	EXPECT_TRUE(is_aligned(array.get(), 128));
}

TEST(Programs, HaveOperatorsOfTheirOwn)
{
	pooled *p = new pooled, *none = new too_large;

	EXPECT_NE(p, nullptr);
	EXPECT_EQ(none, nullptr);
	delete p;
}

void fill(std::map<std::string, std::vector<std::string>> *all)
{
	for (int i = 0; i < 2000; i++)
		(*all)["key " + std::to_string(i % 100)].push_back(std::string(i % 300, 'v'));
}

TEST(Programs, ShareContainersBetweenThreads)
{
	std::map<std::string, std::vector<std::string>> maps[4];
	std::vector<std::thread> threads;

	for (auto &map : maps)
		threads.emplace_back(fill, &map);
	for (auto &thread : threads)
		thread.join();
	for (auto &map : maps) {
		EXPECT_EQ(map.size(), 100u);
		EXPECT_EQ(map["key 7"][1], std::string(107, 'v'));
	}
}

} // namespace
