/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "rival.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#define PATIENCE 30

static struct {
	pthread_t thread;
	sem_t go, done;
	void (*run)(void *arg);
	void *arg;
	bool started;
	bool stays; /* the thread is in stay() */
	bool leave; /* it shall come back */
} rival;

static void wait_for(sem_t *s)
{
	while (sem_wait(s) && errno == EINTR)
		;
}

static void *rival_thread(void *unused)
{
	for (;;) {
		wait_for(&rival.go);
		if (!rival.run)
			return unused;
		rival.run(rival.arg);
		sem_post(&rival.done);
	}
}

int near__rival_start(void)
{
	int error;

	sem_init(&rival.go, 0, 0);
	sem_init(&rival.done, 0, 0);
	error = pthread_create(&rival.thread, NULL, rival_thread, NULL);
	rival.started = error == 0;
	return -error;
}

void near__rival_end(void)
{
	rival.run = NULL;
	rival.started = false;
	sem_post(&rival.go);
	pthread_join(rival.thread, NULL);
	sem_destroy(&rival.go);
	sem_destroy(&rival.done);
}

/* It may wait for what the stopped thread holds: nobody would find out why nothing happens. */
static void wait_patiently(const char *name)
{
	struct timespec until;
	int r;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE;
	do
		r = sem_timedwait(&rival.done, &until);
	while (r && errno == EINTR);
	if (r == 0)
		return;
	fprintf(stderr,
		"near_torture: the rival '%s' has not come back for %d s; does it wait for the "
		"operation, which was stopped?\n",
		name, PATIENCE);
	wait_for(&rival.done);
}

void near__rival_run(void (*run)(void *arg), void *arg, const char *name)
{
	int error = errno;

	rival.run = run;
	rival.arg = arg;
	sem_post(&rival.go);
	wait_patiently(name ? name : "?");
	errno = error;
}

/* Pairs with the store in near__rival_come_back. */
static void stay(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&rival.leave, __ATOMIC_ACQUIRE))
		;
}

void near__rival_stay(void)
{
	if (!rival.started)
		return;
	rival.stays = true;
	__atomic_store_n(&rival.leave, false, __ATOMIC_RELAXED); /* the semaphore orders it */
	rival.run = stay;
	sem_post(&rival.go);
}

void near__rival_come_back(void)
{
	if (!rival.stays)
		return;
	__atomic_store_n(&rival.leave, true, __ATOMIC_RELEASE);
	wait_patiently("stay");
	rival.stays = false;
}
