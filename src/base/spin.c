/* SPDX-License-Identifier: MIT */
/* spin: how long a pause takes. */
#include "base/clock.h"
#include "base/spin.h"

#include <errno.h>
#include <nearcpu/detail/arch/arch.h>
#include <stdint.h>
#include <time.h>

#include "base/cas.h"
#include "base/valgrind.h"

/* Times are the shortest of SAMPLES: the thread may be preempted in one of them. Together they take
 * 2 us where a pause takes 10 ns, and 10 us where it takes 50 ns. */
#define SAMPLES 4
#define SAMPLE_PAUSES 32

/* The number of pauses in 1,024 ns; 0: not measured yet. */
static uint32_t pauses_per_us;

NEAR__BEFORE_PROGRAM static void spin_ignore_races(void)
{
	near__valgrind_ignore(&pauses_per_us, sizeof(pauses_per_us));
}

static int64_t clock_now(void)
{
	int saved = errno;
	int64_t ns = (int64_t)near__clock_ns(CLOCK_MONOTONIC); /* filters can make it fail */

	errno = saved;
	return ns;
}

static int64_t time_of(unsigned pauses)
{
	int64_t shortest = INT64_MAX;

	for (unsigned i = 0; i < SAMPLES; i++) {
		int64_t began = clock_now(), took;

		near__pauses(pauses);
		took = clock_now() - began;
		shortest = took < shortest ? took : shortest;
	}
	return shortest;
}

/* The difference of two times: reading the clock can take longer than the pauses. If it takes much
 * longer, it also varies by more than they take; an eighth of the whole is then the least. */
static uint32_t pause_measure(void)
{
	int64_t whole = time_of(1 + SAMPLE_PAUSES), took = whole - time_of(1);
	uint32_t n;

	took = took < whole / 8 ? whole / 8 : took;
	n = took > 0 ? (uint32_t)(SAMPLE_PAUSES * INT64_C(1024) / took) : 0;
	return n ? n : 1;
}

/* Relaxed: threads that measure at the same time find about the same. */
void near__pause_for(unsigned ns)
{
	uint32_t n = NEAR__LOAD_RELAXED(&pauses_per_us);

	if (!n) {
		n = pause_measure();
		__atomic_store_n(&pauses_per_us, n, __ATOMIC_RELAXED);
	}
	n = (uint32_t)(((uint64_t)n * ns + 512) / 1024);
	near__pauses(n ? n : 1);
}
