/* SPDX-License-Identifier: MIT */
/* The thread on which competing operations run. */
#define _GNU_SOURCE
#include "torture/interferer.h"

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
	bool stays; /* the thread runs interferer_stay() */
	bool leave; /* interferer_stay() is to return */
} interferer;

static void wait_for(sem_t *s)
{
	while (sem_wait(s) && errno == EINTR)
		;
}

static void *interferer_thread(void *unused)
{
	for (;;) {
		wait_for(&interferer.go);
		if (!interferer.run)
			return unused;
		interferer.run(interferer.arg);
		sem_post(&interferer.done);
	}
}

int near__interferer_start(void)
{
	int error;

	sem_init(&interferer.go, 0, 0);
	sem_init(&interferer.done, 0, 0);
	error = pthread_create(&interferer.thread, NULL, interferer_thread, NULL);
	interferer.started = error == 0;
	return -error;
}

void near__interferer_end(void)
{
	interferer.run = NULL;
	interferer.started = false;
	sem_post(&interferer.go);
	pthread_join(interferer.thread, NULL);
	sem_destroy(&interferer.go);
	sem_destroy(&interferer.done);
}

/* The operation may wait for a lock that the stopped thread holds. Without the message the deadlock
 * would have no visible cause. */
static void wait_patiently(const char *name)
{
	struct timespec until;
	int r;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE;
	do
		r = sem_timedwait(&interferer.done, &until);
	while (r && errno == EINTR);
	if (r == 0)
		return;
	fprintf(stderr,
		"near_torture: the competing operation '%s' has not returned for %d s; does it "
		"wait for the operation, which was stopped?\n",
		name, PATIENCE);
	wait_for(&interferer.done);
}

void near__interferer_run(void (*run)(void *arg), void *arg, const char *name)
{
	int error = errno;

	interferer.run = run;
	interferer.arg = arg;
	sem_post(&interferer.go);
	wait_patiently(name ? name : "?");
	errno = error;
}

/* Pairs with the store in near__interferer_come_back. */
static void interferer_stay(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&interferer.leave, __ATOMIC_ACQUIRE))
		;
}

void near__interferer_stay(void)
{
	if (!interferer.started)
		return;
	interferer.stays = true;
	__atomic_store_n(&interferer.leave, false, __ATOMIC_RELAXED); /* the semaphore orders it */
	interferer.run = interferer_stay;
	sem_post(&interferer.go);
}

void near__interferer_come_back(void)
{
	if (!interferer.stays)
		return;
	__atomic_store_n(&interferer.leave, true, __ATOMIC_RELEASE);
	wait_patiently("stay");
	interferer.stays = false;
}
