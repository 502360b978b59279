/* SPDX-License-Identifier: MIT */
/* Four threads count requests and bytes; a report takes the bytes away, as exporters of metrics
 * do. A gauge has the longest request, and one that looks now and then its own rate. */
#include <nearcpu/counter.h>
#include <nearcpu/gauge.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define REQUESTS 100000

static struct near_counter requests, bytes;
static struct near_gauge longest;

static void *serve(void *unused)
{
	(void)unused;
	for (int i = 0; i < REQUESTS; i++) {
		near_counter_add(&requests, 1);
		near_counter_add(&bytes, 512);
		near_gauge_set_max(&longest, i % 700);
	}
	return NULL;
}

static void start(struct near_counter *c)
{
	int r = near_counter_init(c);

	if (r) {
		fprintf(stderr, "near_counter_init: %s\n", strerror(-r));
		exit(1);
	}
}

int main(void)
{
	pthread_t threads[THREADS];
	int64_t reported = 0;
	struct near_rate rate = {0, 0};
	double rose;

	start(&requests);
	start(&bytes);
	near_rate_update(&rate, near_counter_read(&requests));
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, serve, NULL))
			abort();
	/* While they run: what reset returns is gone from the counter, and nothing is lost
	 * between. */
	for (int i = 0; i < 10; i++)
		reported += near_counter_reset(&bytes);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	reported += near_counter_reset(&bytes);
	printf("%lld requests, %lld bytes reported, %lld left\n",
	       (long long)near_counter_read(&requests), (long long)reported,
	       (long long)near_counter_read(&bytes));
	rose = near_rate_update(&rate, near_counter_read(&requests));
	printf("longest %lld, requests were %s\n", (long long)near_gauge_exchange(&longest, 0),
	       rose > 0 ? "answered" : "missing");
	near_counter_destroy(&bytes);
	near_counter_destroy(&requests);
	return 0;
}
