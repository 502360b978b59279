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

/* How many of the five are as they should be. */
extern "C" __attribute__((visibility("default"))) int plugin_fails()
{
	int good = 0;

	try {
		::operator delete(::operator new(too_much));
	} catch (const std::bad_alloc &) {
		good++;
	}
	try {
		::operator delete(::operator new(too_much, std::align_val_t(64)));
	} catch (const std::bad_alloc &) {
		good++;
	}
	good += ::operator new(too_much, std::nothrow) == nullptr;
	std::set_new_handler(handler);
	try {
		::operator delete(::operator new(too_much));
	} catch (const std::bad_alloc &) {
		good += calls == 1;
	}
	good += ::operator new(too_much, std::nothrow) == nullptr &&calls == 2;
	return good;
}
