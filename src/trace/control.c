/* SPDX-License-Identifier: MIT */
/* near_trace: the session's thread. It calibrates the clock, carries out the orders of other
 * processes (orders.c), makes sub-buffers ready before they are needed, streams, and takes the
 * snapshots of triggers. */
#include "base/clock.h"
#include "base/signals.h"
#include "trace/trace.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"

#define FIRST_INTERVAL_MS 250
#define LONGEST_INTERVAL_MS 16000
#define STREAM_INTERVAL_MS 100
#define NS_PER_MS 1000000

/* ---- the thread ---- */

static long now_ms(void)
{
	return (long)(near__clock_ns(CLOCK_MONOTONIC) / NS_PER_MS);
}

static int64_t least_ns(long ms, int64_t ns)
{
	return (int64_t)ms * NS_PER_MS < ns ? (int64_t)ms * NS_PER_MS : ns;
}

static void *control_work(void *arg)
{
	struct near__trace_run *t = arg;
	struct near__trace_control *c = t->control;
	long interval = FIRST_INTERVAL_MS, calibrated = now_ms();
	bool streams = t->mode == NEAR_TRACE_STREAM;

	prctl(PR_SET_NAME, "near_trace");
	__atomic_store_n(&t->has_begun, 1, __ATOMIC_RELEASE);
	near__futex_wake(&t->has_begun, INT_MAX, false);
	while (!__atomic_load_n(&t->ends, __ATOMIC_ACQUIRE)) {
		uint32_t request = __atomic_load_n(&c->request, __ATOMIC_ACQUIRE);
		int64_t triggers = near__trace_serve_triggers(t, false);

		near__trace_ahead(t);
		if (streams)
			near__trace_stream(t, false);
		if (request != __atomic_load_n(&c->done, __ATOMIC_RELAXED) &&
		    !__atomic_load_n(&t->ends, __ATOMIC_RELAXED))
			near__trace_obey(t, request, false);
		else
			near__futex_sleep(
				&c->request, request,
				least_ns(streams ? STREAM_INTERVAL_MS : interval, triggers), true);
		if (now_ms() - calibrated < interval)
			continue;
		near__trace_store_moment(t->file.session);
		near__trace_find_objects();
		calibrated = now_ms();
		if (interval < LONGEST_INTERVAL_MS)
			interval *= 2;
	}
	near__trace_find_objects();
	near__trace_serve_triggers(t, true);
	return NULL;
}

/* Waits for the thread's first instruction: with the lock, for which fork waits. Before it, what is
 * not the library's runs, and allocates: AddressSanitizer of gcc 12 does not hold its allocator's
 * locks over a fork, and the child of a program that would have one thread without a trace hung. It
 * does not wait for ever: that code might itself wait for what the caller holds. */
static void wait_for_begin(struct near__trace_run *t)
{
	for (int i = 0; i < 100 && !__atomic_load_n(&t->has_begun, __ATOMIC_ACQUIRE); i++)
		near__futex_sleep(&t->has_begun, 0, 10 * NS_PER_MS, false);
}

/* With near__trace.lock, and signals blocked in the new thread. */
int near__trace_start_thread(struct near__trace_run *t)
{
	sigset_t old;
	pthread_t thread;
	int r;

	if (t->has_thread)
		return 0;
	near__signals_block(&old);
	r = pthread_create(&thread, NULL, control_work, t);
	if (!r) {
		wait_for_begin(t);
		t->thread = (uintptr_t)thread;
		__atomic_store_n(&t->has_thread, true, __ATOMIC_RELAXED);
		__atomic_store_n(&near__trace.wakes, &t->control->request, __ATOMIC_RELAXED);
		__atomic_fetch_and(&t->file.session->flags, ~(uint32_t)NEAR__TRACE_NO_THREAD,
				   __ATOMIC_RELAXED);
	}
	near__signals_restore(&old);
	return 0;
}

/* The thread that finds the request finds `ends`, too. */
void near__trace_end_thread(struct near__trace_run *t)
{
	if (!t->has_thread)
		return;
	/* An event that has loaded it wakes nobody, or what is there by then, for nothing. */
	__atomic_store_n(&near__trace.wakes, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&t->ends, true, __ATOMIC_RELEASE);
	__atomic_fetch_add(&t->control->request, 1, __ATOMIC_RELEASE);
	near__futex_wake(&t->control->request, INT_MAX, true);
	pthread_join((pthread_t)t->thread, NULL);
}
