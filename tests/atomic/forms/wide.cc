// SPDX-License-Identifier: MIT
// The same in C++: std::atomic of 3, 16 and 24 bytes.
#include <atomic>
#include <cstdio>
#include <thread>

#ifndef ROUNDS
#define ROUNDS 20000
#endif

template <int words, class Word> struct Value {
	Word word[words];
};

template <int words, class Word> static int test()
{
	using T = Value<words, Word>;
	static std::atomic<T> shared{T{}};
	std::atomic<bool> wrong{false};
	auto count = [&] {
		for (int i = 0; i < ROUNDS; i++) {
			T old = shared.load(), next;
			do {
				for (int w = 0; w < words; w++)
					next.word[w] = static_cast<Word>(old.word[0] + 1);
				if (old.word[words - 1] != old.word[0])
					wrong = true;
			} while (!shared.compare_exchange_weak(old, next));
		}
	};
	std::thread one(count), other(count);

	one.join();
	other.join();
	T last = shared.exchange(T{});
	shared.store(last, std::memory_order_release);
	last = shared.load(std::memory_order_acquire);
	if (wrong || last.word[0] != static_cast<Word>(2 * ROUNDS))
		return 1;
	std::printf("%zu bytes: %s\n", sizeof(T), shared.is_lock_free() ? "free" : "not");
	return 0;
}

int main()
{
	if (test<3, unsigned char>() || test<2, unsigned long>() || test<3, unsigned long>())
		return 1;
	std::puts("done");
}
