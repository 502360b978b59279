/* SPDX-License-Identifier: MIT */
/* Workers take jobs from a queue until it is empty and a token signals the end. */
#include <nearcpu/cond.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define WORKERS 4
#define JOBS 100000

static struct near_mutex mutex;
static struct near_cond more;
static struct near_cancel closing;
static int waiting_jobs, done;

/* False: there is none, and there will be none. */
static bool take_job(void)
{
	bool taken;
	int r = 0;

	near_mutex_lock(&mutex);
	while (!waiting_jobs && r == 0)
		r = near_cond_wait_until(&more, &mutex, 0, NULL, &closing);
	taken = waiting_jobs > 0;
	waiting_jobs -= taken;
	done += taken;
	near_mutex_unlock(&mutex);
	return taken;
}

static void *work(void *arg)
{
	while (take_job())
		;
	return arg;
}

int main(void)
{
	pthread_t workers[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		if (pthread_create(&workers[i], NULL, work, NULL))
			abort();
	for (int i = 0; i < JOBS; i++) {
		near_mutex_lock(&mutex);
		waiting_jobs++;
		near_cond_signal(&more);
		near_mutex_unlock(&mutex);
	}
	near_cancel_set(&closing);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	printf("%d jobs done, %d left\n", done, waiting_jobs);
	return 0;
}
