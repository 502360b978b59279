/* SPDX-License-Identifier: MIT */
/* C++ in a program that has none: new_host.c loads it, and the C++ library with it, for itself
 * alone. */
#include <cstdint>
#include <new>

static volatile std::size_t too_much = SIZE_MAX / 2;
static int calls;

static void handler()
{
	calls++;
	throw std::bad_alloc();
}

template <typename Request> static bool fails(Request request)
{
	try {
		::operator delete(request());
	} catch (const std::bad_alloc &) {
		return true;
	}
	return false;
}

/* How many of the five are as they should be. */
extern "C" __attribute__((visibility("default"))) int plugin_fails()
{
	int good = fails([] { return ::operator new(too_much); }) +
		   fails([] { return ::operator new(too_much, std::align_val_t(64)); });

	good += ::operator new(too_much, std::nothrow) == nullptr;
	std::set_new_handler(handler);
	good += fails([] { return ::operator new(too_much); }) && calls == 1;
	return good + (::operator new(too_much, std::nothrow) == nullptr &&calls == 2);
}
