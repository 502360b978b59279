/* SPDX-License-Identifier: MIT */
/* The rows of boost.lockfree and of moodycamel's queues, a module of nearcpu-queues. */
#include "queue/rows.h"

#ifdef HAVE_BOOST
#include <boost/lockfree/queue.hpp>

static boost::lockfree::queue<uint64_t, boost::lockfree::fixed_sized<true>> *bounded;

static void boost_begin(struct window *)
{
	delete bounded;
	bounded =
		new boost::lockfree::queue<uint64_t, boost::lockfree::fixed_sized<true>>(CAPACITY);
}

static bool boost_put(uint64_t e) { return bounded->bounded_push(e); }

static uint64_t boost_get()
{
	uint64_t e;

	return bounded->pop(e) ? e : 0;
}

extern "C" {
extern const struct window_row cxx_row_boost;
}
TRY_ROW(cxx_row_boost, "boost", boost)
#endif

#ifdef HAVE_MOODYCAMEL
#include <concurrentqueue/blockingconcurrentqueue.h>
#include <concurrentqueue/concurrentqueue.h>

using queue = moodycamel::ConcurrentQueue<uint64_t>;
using blocking_queue = moodycamel::BlockingConcurrentQueue<uint64_t>;
static queue *shared;

/* Room for as many elements, as far as its blocks allow. */
static void moodycamel_begin(struct window *w)
{
	delete shared;
	shared = new queue(CAPACITY, 0, w->threads / 2);
}

static bool moodycamel_put(uint64_t e) { return shared->try_enqueue(e); }

static uint64_t moodycamel_get()
{
	uint64_t e;

	return shared->try_dequeue(e) ? e : 0;
}

extern "C" {
extern const struct window_row cxx_row_moodycamel, cxx_row_moodycamel_wait;
}
TRY_ROW(cxx_row_moodycamel, "moodycamel", moodycamel)

static blocking_queue *blocking;
static const uint64_t the_end = UINT64_MAX;
static uint32_t ends;

static void moodycamel_wait_begin(struct window *w)
{
	delete blocking;
	blocking = new blocking_queue(CAPACITY, 0, w->threads / 2);
	ends = w->threads / 2;
}

/* Its puts do not wait. */
static bool moodycamel_wait_put(uint64_t e) { return blocking->try_enqueue(e); }

static uint64_t moodycamel_wait_get()
{
	uint64_t e;

	do
		if (!blocking->try_dequeue(e))
			return 0;
	while (e == the_end);
	return e;
}

static uint64_t moodycamel_wait_wait()
{
	uint64_t e;

	blocking->wait_dequeue(e);
	return e == the_end ? 0 : e;
}

static void moodycamel_wait_end(struct window *)
{
	for (uint32_t i = 0; i < ends; i++)
		blocking->enqueue(the_end);
}

WAIT_ROW(cxx_row_moodycamel_wait, "moodycamel-wait", moodycamel_wait)
#endif
