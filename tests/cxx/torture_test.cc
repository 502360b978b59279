/* SPDX-License-Identifier: MIT */
/* A sequence in a template, proven from C++: each instance has a copy of its own. */
#include <nearcpu/percpu.h>
#include <nearcpu/torture.h>
#include <cerrno>
#include <gtest/gtest.h>

namespace
{

/* A sum of what was added, N times over. */
template <unsigned N> class Sum
{
public:
	Sum()
	{
		EXPECT_EQ(near_percpu_alloc(&p_, sizeof(uint64_t), sizeof(uint64_t)), 0);
	}
	~Sum()
	{
		near_percpu_free(p_);
	}
	Sum(const Sum &) = delete;
	Sum &operator=(const Sum &) = delete;

	void add(uint64_t n)
	{
		for (int i = 0; i < NEAR_SEQ_TRIES; i++) {
			if (tryAdd(n * N))
				return;
			if (!near_slot_open(p_))
				break;
		}
		__atomic_fetch_add(static_cast<uint64_t *>(near_percpu_fallback(p_)), n * N,
				   __ATOMIC_RELAXED);
	}

	uint64_t read() const
	{
		uint64_t sum = 0;

		for (unsigned s = 0; near_percpu_next(p_, &s); s++)
			sum += *static_cast<uint64_t *>(near_percpu_at(p_, s));
		return sum / N;
	}

private:
	/* at[0] += n commits. */
	bool tryAdd(uint64_t n)
	{
		uint64_t at, tmp;

		if (!NEAR_HAS_SEQ)
			return false;
		__asm__ volatile __inline__ goto(NEAR_SEQ_BEGIN NEAR_SLOT(at, p)
							 NEAR_COMMIT_ADD8(n, at, 0)
						 : NEAR_SEQ_OUT(tmp), [at] "=&r"(at)
						 : NEAR_SEQ_IN, NEAR_SEQ_OBJECT(p, p_), [n] "r"(n)
						 : NEAR_SEQ_CLOBBER
						 : near_failed);
		NEAR_SEQ_EDGE;
		return true;
near_failed:
		NEAR_SEQ_EDGE;
		return false;
	}

	void *p_ = nullptr;
};

template <unsigned N> struct World {
	Sum<N> *sum;
	uint64_t added;

	static World &of(void *arg)
	{
		return *static_cast<World *>(arg);
	}
};

template <unsigned N> void prove()
{
	World<N> world = {nullptr, 0};
	near_torture_rival rival = {};
	struct near_torture t = {};
	near_torture_result r;

	t.arg = rival.arg = &world;
	t.setup = [](void *arg) {
		delete World<N>::of(arg).sum;
		World<N>::of(arg) = {new Sum<N>, 0};
	};
	t.run = rival.run = [](void *arg) {
		World<N>::of(arg).added += 3;
		World<N>::of(arg).sum->add(3);
	};
	t.check = [](void *arg) -> const char * {
		const World<N> &w = World<N>::of(arg);

		return w.sum->read() == w.added ? nullptr : "miscounted";
	};
	t.rivals = &rival;
	t.n_rivals = 1;
	rival.name = "the same";
	int failures = near_torture(&t, &r);

	delete world.sum;
	if (failures == -ENOSYS)
		GTEST_SKIP() << r.text;
	EXPECT_EQ(failures, 0) << r.text;
	EXPECT_EQ(r.sequences, 1u);
	EXPECT_EQ(r.most_aborts, unsigned{NEAR_SEQ_TRIES});
}

TEST(Torture, EachInstanceOfATemplate)
{
	prove<1>();
	if (!IsSkipped())
		prove<7>();
}

} // namespace
