/* SPDX-License-Identifier: MIT */
/* near_trace: the session's thread. It calibrates the clock, carries out the orders of other
 * processes (orders.c), makes sub-buffers ready before they are needed, and streams. */
#include "trace/orders.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FIRST_INTERVAL_MS 250
#define LONGEST_INTERVAL_MS 16000
#define STREAM_INTERVAL_MS 100

/* Not private: orders come from other processes. */
static void futex(uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
	syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

/* ---- the thread ---- */

static void sleep_ms(struct near__trace_control *c, uint32_t request, long ms)
{
	struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

	futex(&c->request, FUTEX_WAIT, request, &pause);
}

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void *work(void *arg)
{
	struct near__trace_run *t = arg;
	struct near__trace_control *c = t->control;
	long interval = FIRST_INTERVAL_MS, calibrated = now_ms();
	bool streams = t->mode == NEAR_TRACE_STREAM;

	prctl(PR_SET_NAME, "near_trace");
	__atomic_store_n(&t->has_begun, 1, __ATOMIC_RELEASE);
	futex(&t->has_begun, FUTEX_WAKE, INT_MAX, NULL);
	while (!__atomic_load_n(&t->ends, __ATOMIC_ACQUIRE)) {
		uint32_t request = __atomic_load_n(&c->request, __ATOMIC_ACQUIRE);

		near__trace_ahead(t);
		if (streams)
			near__trace_stream(t, false);
		if (request != __atomic_load_n(&c->done, __ATOMIC_RELAXED) &&
		    !__atomic_load_n(&t->ends, __ATOMIC_RELAXED))
			near__trace_obey(t, request, false);
		else
			sleep_ms(c, request, streams ? STREAM_INTERVAL_MS : interval);
		if (now_ms() - calibrated < interval)
			continue;
		near__trace_store_moment(t->session);
		calibrated = now_ms();
		if (interval < LONGEST_INTERVAL_MS)
			interval *= 2;
	}
	return NULL;
}

/* Waits for the thread's first instruction: with the lock, for which fork waits. Before it, what is
 * not the library's runs, and allocates: AddressSanitizer of gcc 12 does not hold its allocator's
 * locks over a fork, and the child of a program that would have one thread without a trace hung. It
 * does not wait for ever: that code might itself wait for what the caller holds. */
static void wait_for_begin(struct near__trace_run *t)
{
	const struct timespec pause = {.tv_nsec = 10000000};

	for (int i = 0; i < 100 && !__atomic_load_n(&t->has_begun, __ATOMIC_ACQUIRE); i++)
		futex(&t->has_begun, FUTEX_WAIT, 0, &pause);
}

/* With near__trace.lock, and signals blocked in the new thread. */
int near__trace_start_thread(struct near__trace_run *t)
{
	sigset_t all, old;
	pthread_t thread;
	int r;

	if (t->has_thread)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, NULL, work, t);
	if (!r) {
		wait_for_begin(t);
		t->thread = (uintptr_t)thread;
		__atomic_store_n(&t->has_thread, true, __ATOMIC_RELAXED);
		__atomic_fetch_and(&t->session->flags, ~(uint32_t)NEAR__TRACE_NO_THREAD,
				   __ATOMIC_RELAXED);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return 0;
}

/* The thread that finds the request finds `ends`, too. */
void near__trace_end_thread(struct near__trace_run *t)
{
	if (!t->has_thread)
		return;
	__atomic_store_n(&t->ends, true, __ATOMIC_RELEASE);
	__atomic_fetch_add(&t->control->request, 1, __ATOMIC_RELEASE);
	futex(&t->control->request, FUTEX_WAKE, INT_MAX, NULL);
	pthread_join((pthread_t)t->thread, NULL);
}
