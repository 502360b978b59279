/* SPDX-License-Identifier: MIT */
/* A program with operators of its own, but not all: the others, the drop-in malloc's, must use
 * these. Its blocks have a header, which no others have. */
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace
{

const size_t header = 32;
const size_t mark = 0x6f776e65;
int news, deletes;
bool fails;

} // namespace

/* That not all of them are there is the point. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif

/* Not inline: compilers assume that a block begins where new returns. */
__attribute__((noinline)) void *operator new(size_t n)
{
	auto *p = fails ? nullptr : static_cast<size_t *>(std::malloc(n + header));

	if (!p)
		throw std::bad_alloc();
	*p = mark;
	news++;
	return reinterpret_cast<char *>(p) + header;
}

__attribute__((noinline)) void operator delete(void *block) noexcept
{
	auto *p = reinterpret_cast<size_t *>(static_cast<char *>(block) - header);

	if (!block)
		return;
	if (*p != mark)
		std::abort();
	*p = 0;
	deletes++;
	std::free(p);
}

namespace
{

TEST(Own, EachFormThatIsNotAlignedGoesByThem)
{
	int before = news, freed = deletes;
	void *blocks[] = {
		::operator new(100),
		::operator new[](100),
		::operator new(100, std::nothrow),
		::operator new[](100, std::nothrow),
		::operator new(200),
		::operator new[](200),
	};

	EXPECT_EQ(news, before + 6);
	::operator delete(blocks[0]);
	::operator delete[](blocks[1]);
	::operator delete(blocks[2], std::nothrow);
	::operator delete[](blocks[3], std::nothrow);
	::operator delete(blocks[4], size_t(200));
	::operator delete[](blocks[5], size_t(200));
	EXPECT_EQ(deletes, freed + 6);
}

TEST(Own, AlignedFormsDoNot)
{
	int before = news;
	auto a = std::align_val_t(64);

	::operator delete(::operator new(100, a), a);
	::operator delete[](::operator new[](100, a, std::nothrow), size_t(100), a);
	EXPECT_EQ(news, before);
}

/* Left out of static programs: there nobody catches it. */
TEST(Own, WhatTheyThrowIsCaught)
{
	void *one, *array;

	fails = true;
	one = ::operator new(100, std::nothrow);
	array = ::operator new[](100, std::nothrow);
	fails = false;
	EXPECT_EQ(one, nullptr);
	EXPECT_EQ(array, nullptr);
}

TEST(Own, ProgramsDoNotNotice)
{
	std::map<std::string, std::unique_ptr<std::vector<int>>> all;

	for (int i = 0; i < 1000; i++)
		all["key " + std::to_string(i % 70)] = std::make_unique<std::vector<int>>(i);
	EXPECT_EQ(all["key 19"]->size(), 999u);
	auto array = std::make_unique<std::string[]>(10);
	array[3] = std::string(100, 'x');
}

} // namespace
