/* SPDX-License-Identifier: MIT */
/* For helgrind and DRD, which are to report nothing, although this is compiled without what
 * notifies them: threads add to a counter and to a histogram that no thread has used before. */
#include <nearcpu/counter.h>
#include <nearcpu/histogram.h>
#include <pthread.h>
#include <stdlib.h>

#define THREADS 4
#define ROUNDS 100

static struct near_counter counter;
static struct near_histogram histogram;

static void *add(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		near_counter_add(&counter, 1);
		near_histogram_record(&histogram, 7);
		if (near_counter_read(&counter) < 1)
			abort();
	}
	return unused;
}

int main(void)
{
	pthread_t t[THREADS];

	if (near_counter_init(&counter) || near_histogram_init(&histogram, NULL))
		abort();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, add, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	return near_counter_read(&counter) != THREADS * ROUNDS;
}
