/* SPDX-License-Identifier: MIT */
/* A per-slot sum of any integer of 8 bytes, with a sequence in a template. Two files include it, so
 * that the linker has two copies of the sequence and drops one. */
#ifndef NEARCPU_TESTS_CXX_SUM_H
#define NEARCPU_TESTS_CXX_SUM_H

#include <nearcpu/percpu.h>
#include <cstdint>
#include <new>

template <typename T> class Sum
{
	static_assert(sizeof(T) == 8, "sequences load and store words of 8 bytes");

public:
	Sum()
	{
		if (near_percpu_alloc(sizeof(T), alignof(T), &p_))
			throw std::bad_alloc();
	}
	~Sum()
	{
		near_percpu_free(p_);
	}
	Sum(const Sum &) = delete;
	Sum &operator=(const Sum &) = delete;

	void add(T n);
	T read() const;

private:
	static bool tryAdd(void *p, T n);

	void *p_;
};

template <typename T> void Sum<T>::add(T n)
{
	for (int i = 0; i < NEAR_SEQ_TRIES; i++) {
		if (tryAdd(p_, n))
			return;
		if (!near_slot_open(p_))
			break;
	}
	__atomic_fetch_add(static_cast<T *>(near_percpu_fallback(p_)), n, __ATOMIC_RELAXED);
}

template <typename T> T Sum<T>::read() const
{
	T sum = 0;

	for (unsigned s = 0; near_percpu_next(p_, &s); s++)
		sum += __atomic_load_n(static_cast<T *>(near_percpu_at(p_, s)), __ATOMIC_RELAXED);
	return sum;
}

/* at[0] += n; the store commits. Out of line, so that it is in both files. */
template <typename T> __attribute__((noinline)) bool Sum<T>::tryAdd(void *p, T n)
{
	uint64_t at, v;

	return NEAR_SEQ(
		NEAR_SLOT(at, p)
		NEAR_LOAD8(v, at, 0)
		NEAR_ADD(v, n)
		NEAR_COMMIT8(v, at, 0),
		NEAR_OUT(at, v), NEAR_IN(NEAR_OBJECT(p), n));
}

void add_elsewhere(Sum<std::int64_t> &sum, std::int64_t n);

#endif
