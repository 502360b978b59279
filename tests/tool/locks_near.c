/* SPDX-License-Identifier: MIT */
/* Waits for the library's own locks: a mutex once, a semaphore twice, once with a time limit. */
#define _GNU_SOURCE
#include <nearcpu/mutex.h>
#include <nearcpu/sem.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct near_mutex mutex = NEAR_MUTEX_INIT;
static struct near_sem sem = NEAR_SEM_INIT(0);
static _Atomic pid_t waiter;

/* Until the waiter sleeps. */
static void let_wait(void)
{
	char path[64], state = 0;

	while (state != 'S') {
		FILE *f;

		nanosleep(&(struct timespec){0, 20000000}, NULL);
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)atomic_load(&waiter));
		f = atomic_load(&waiter) ? fopen(path, "r") : NULL;
		if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			abort();
		if (f)
			fclose(f);
	}
}

static void *waits(void *unused)
{
	atomic_store(&waiter, (pid_t)syscall(SYS_gettid));
	near_mutex_lock(&mutex);
	near_mutex_unlock(&mutex);
	near_sem_wait(&sem);
	return unused;
}

int main(void)
{
	struct timespec at;
	pthread_t t;

	near_mutex_lock(&mutex);
	if (pthread_create(&t, NULL, waits, NULL))
		return 1;
	let_wait();
	near_mutex_unlock(&mutex);
	let_wait();
	near_sem_post(&sem);
	pthread_join(t, NULL);
	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec++;
	return near_sem_wait_until(&sem, CLOCK_MONOTONIC, &at, NULL) ? 0 : 1;
}
