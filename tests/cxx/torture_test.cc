/* SPDX-License-Identifier: MIT */
/* A sequence in a template, proven from C++: each instance has a copy of its own. */
#include "sum.h"

#include <nearcpu/torture.h>
#include <cerrno>
#include <gtest/gtest.h>

namespace
{

template <typename T> struct World {
	Sum<T> *sum;
	T added;

	static World &of(void *arg)
	{
		return *static_cast<World *>(arg);
	}
};

template <typename T> void prove()
{
	World<T> world = {nullptr, 0};
	near_torture_rival interferer = {};
	struct near_torture t = {};
	near_torture_result r;

	t.arg = interferer.arg = &world;
	t.setup = [](void *arg) {
		delete World<T>::of(arg).sum;
		World<T>::of(arg) = {new Sum<T>, 0};
	};
	t.run = interferer.run = [](void *arg) {
		World<T>::of(arg).added += 3;
		World<T>::of(arg).sum->add(3);
	};
	t.check = [](void *arg) -> const char * {
		const World<T> &w = World<T>::of(arg);

		return w.sum->read() == w.added ? nullptr : "miscounted";
	};
	t.rivals = &interferer;
	t.n_rivals = 1;
	interferer.name = "the same";
	int failures = near_torture(&t, sizeof(t), &r, sizeof(r));

	delete world.sum;
	if (failures == -ENOSYS)
		GTEST_SKIP() << r.text;
	EXPECT_EQ(failures, 0) << r.text;
	EXPECT_EQ(r.sequences, 1u);
	EXPECT_EQ(r.most_aborts, unsigned{NEAR_SEQ_TRIES});
}

TEST(Torture, EachInstanceOfATemplate)
{
	prove<std::int64_t>();
	if (!IsSkipped())
		prove<std::uint64_t>();
}

} // namespace
