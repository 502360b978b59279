/* SPDX-License-Identifier: MIT */
/* Threads record how long their requests took; each period a report shows how long they were. */
#include <nearcpu/histogram.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THREADS 4
#define REQUESTS 100000

static struct near_histogram latency_us;

static void *serve(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < REQUESTS; i++) {
		unsigned us = i % 1000; /* one in a thousand waits for a disk */

		near_histogram_record(&latency_us, us == 999 ? 20000 : 100 + us);
	}
	return NULL;
}

/* What was recorded since the last report. */
static void report(void)
{
	struct near_histogram_snapshot s;
	uint64_t p99 = near_histogram_percentile(&latency_us, 99).high; /* without a snapshot */

	if (near_histogram_reset(&latency_us, &s))
		return;
	printf("%llu requests, half of them within %llu us, 99.95 %% within %llu us\n",
	       (unsigned long long)s.count,
	       (unsigned long long)near_histogram_snapshot_percentile(&s, 50).high,
	       (unsigned long long)near_histogram_snapshot_percentile(&s, 99.95).high);
	printf("99 %% within %llu us, %.1f %% within the 700 us that were promised\n",
	       (unsigned long long)p99, 100 * near_histogram_snapshot_share(&s, 700).least);
	near_histogram_snapshot_free(&s);
}

int main(void)
{
	struct near_histogram_options options = {
		5, true, 1000000, 0, {0}}; /* 3 %, a sum, a second */
	pthread_t threads[THREADS];
	int r = near_histogram_init(&latency_us, &options);

	if (r) {
		fprintf(stderr, "near_histogram_init: %s\n", strerror(-r));
		return 1;
	}
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, serve, NULL))
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	report();
	report(); /* nothing since */
	near_histogram_destroy(&latency_us);
	return 0;
}
