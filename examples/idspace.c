/* SPDX-License-Identifier: MIT */
/* A work-stealing scheduler: the queue has a ring for each CPU, and a thread takes from others when
 * its own is empty. Tasks count primes in data by id: as many copies as tasks run at a time. */
#include <nearcpu/idspace.h>
#include <nearcpu/queue.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, TASKS = 200, PART = 100 }; /* a task examines PART numbers */
static struct near_worker tasks[TASKS];
static struct near_queue ready;
static struct near_idspace ids;
static void *found; /* a long of each id */

static void run(const struct near_worker *task)
{
	long *primes = (long *)near_idspace_at(&ids, found, near_worker_id(task));
	int n = 2 + (int)(task - tasks) * PART, end = n + PART;

	for (int d = 2; n < end; n++, d = 2) {
		while (n % d)
			d++;
		*primes += d == n; /* no other task has this copy */
	}
}

/* A thread hands its id on from task to task. While it waits for a task it has none. */
static void *work(void *arg)
{
	for (void *got; near_queue_get(&ready, &got) == 0;) {
		struct near_worker *task = (struct near_worker *)got;

		if (near_idspace_acquire(&ids, task) < 0)
			abort();
		for (; run(task), near_queue_try_get(&ready, &got) == 0;
		     task = (struct near_worker *)got)
			near_idspace_hand_over(&ids, task, (struct near_worker *)got);
		near_idspace_release(&ids, task);
	}
	return arg;
}

int main(void)
{
	struct near_idspace_stats stats;
	pthread_t threads[THREADS];
	long primes = 0;

	if (near_queue_init(&ready, TASKS) || near_idspace_init(&ids, NULL) ||
	    near_idspace_alloc(&ids, sizeof(long), sizeof(long), &found))
		abort();
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			abort();
	for (int i = 0; i < TASKS; i++)
		near_queue_put(&ready, &tasks[i]);
	near_queue_close(&ready); /* threads take what is left, and end */
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	near_idspace_stats(&ids, &stats, sizeof(stats));
	for (int id = 0; id < (int)stats.highest; id++)
		primes += *(long *)near_idspace_at(&ids, found, id);
	printf("%ld primes below %d\n", primes, 2 + TASKS * PART);
	return 0;
}
