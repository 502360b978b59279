/* SPDX-License-Identifier: MIT */
/* near_histogram: exemplars, one for each power of two.
 *
 * A writer makes the version odd by a CAS, stores the words, and makes the version even. A thread
 * that finds another one writing keeps nothing: it may be a handler which interrupted that. A
 * reader takes words between two loads of one even version. Each word is a release and an acquire:
 * a thread that loads a new word then loads the new version, too. The upper half of a version is
 * the number of forks of the writer's process, so that a child does not wait for a thread that it
 * does not have.
 */
#include "percpu/histogram.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/heap.h"
#include "percpu/percpu.h"

#define KEPT_NS 1000000000u
#define WORDS (2 + NEAR_HISTOGRAM_TRACE_ID / 8)

struct near__exemplar {
	uint64_t version;
	uint64_t words[WORDS]; /* value, time, trace id */
};

/* How many bits it has; 0 is in the bucket of 1. */
static unsigned power_of(uint64_t value)
{
	return 64 - (unsigned)__builtin_clzll(value | 1);
}

int near_histogram_keep_exemplars(struct near_histogram *h)
{
	if (!h->exemplars)
		h->exemplars = near__heap_zeroed(65, sizeof(*h->exemplars));
	return h->exemplars ? 0 : -ENOMEM;
}

static bool is_trace_id(const char *s)
{
	size_t n = s ? strlen(s) : 0;

	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\')
			return false;
	return n > 0 && n <= NEAR_HISTOGRAM_TRACE_ID;
}

static void exemplar_store(struct near__exemplar *e, const uint64_t *words)
{
	uint64_t forks = __atomic_load_n(&near__process.forks, __ATOMIC_RELAXED);
	uint64_t was = __atomic_load_n(&e->version, __ATOMIC_RELAXED), next;

	next = forks << 32 | (uint32_t)((was + 1) | 1);
	if ((was & 1 && was >> 32 == forks) ||
	    !__atomic_compare_exchange_n(&e->version, &was, next, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return;
	for (unsigned i = 0; i < WORDS; i++)
		__atomic_store_n(&e->words[i], words[i], __ATOMIC_RELEASE);
	__atomic_store_n(&e->version, next + 1, __ATOMIC_RELEASE);
}

void near_histogram_record_exemplar(struct near_histogram *h, uint64_t value, const char *trace_id)
{
	uint64_t words[WORDS] = {value}, kept;
	struct near__exemplar *e;

	near_histogram_record_corrected(h, value, 0);
	if (!h->exemplars)
		return;
	e = &h->exemplars[power_of(value)];
	words[1] = near__clock_ns(CLOCK_REALTIME_COARSE);
	kept = __atomic_load_n(&e->words[1], __ATOMIC_RELAXED); /* a hint */
	if (words[1] - kept < KEPT_NS || !is_trace_id(trace_id))
		return;
	memcpy(&words[2], trace_id, strlen(trace_id));
	exemplar_store(e, words);
}

bool near_histogram_exemplar(const struct near_histogram *h, uint64_t low, uint64_t high,
			     struct near_histogram_exemplar *out)
{
	uint64_t words[WORDS], version;

	for (unsigned n = power_of(high); h->exemplars && n >= power_of(low); n--) {
		const struct near__exemplar *e = &h->exemplars[n];

		version = __atomic_load_n(&e->version, __ATOMIC_ACQUIRE);
		for (unsigned i = 0; i < WORDS; i++)
			words[i] = __atomic_load_n(&e->words[i], __ATOMIC_ACQUIRE);
		if (!words[1] || version & 1 || words[0] < low || words[0] > high ||
		    __atomic_load_n(&e->version, __ATOMIC_RELAXED) != version)
			continue;
		*out = (struct near_histogram_exemplar){.value = words[0], .ns = words[1]};
		memcpy(out->trace_id, &words[2], NEAR_HISTOGRAM_TRACE_ID);
		return true;
	}
	return false;
}
