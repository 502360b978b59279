/* SPDX-License-Identifier: MIT */
/* Threads that submit jobs and threads that do them, until the queue is closed. */
#include <nearcpu/counter.h>
#include <nearcpu/queue.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SUBMITTERS 3
#define WORKERS 2
#define JOBS 50000 /* of each submitter */

static struct near_queue jobs;
static struct near_counter done;

static void *submit(void *arg)
{
	for (int i = 0; i < JOBS; i++)
		if (near_queue_put(&jobs, arg))
			abort(); /* it is closed */
	return NULL;
}

static void *work(void *arg)
{
	void *job;

	while (near_queue_get(&jobs, &job) == 0)
		near_counter_add(&done, *(int *)job);
	return arg;
}

int main(void)
{
	pthread_t threads[SUBMITTERS + WORKERS];
	int one = 1;

	if (near_queue_init(&jobs, 100) || near_counter_init(&done))
		return 1;
	for (int i = 0; i < SUBMITTERS + WORKERS; i++)
		if (pthread_create(&threads[i], NULL, i < SUBMITTERS ? submit : work, &one))
			abort();
	for (int i = 0; i < SUBMITTERS; i++)
		pthread_join(threads[i], NULL);
	near_queue_close(&jobs);
	for (int i = SUBMITTERS; i < SUBMITTERS + WORKERS; i++)
		pthread_join(threads[i], NULL);
	printf("%lld jobs done, %zu left\n", (long long)near_counter_read(&done),
	       near_queue_count(&jobs));
	return 0;
}
