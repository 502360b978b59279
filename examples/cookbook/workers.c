/* SPDX-License-Identifier: MIT */
/* usage: workers [MILLISECONDS]
 * A work queue that ends in order. Acceptors refuse what finds no room in time. At SIGTERM the
 * queue is closed; workers finish what it has, or what they can within MILLISECONDS. */
#include <nearcpu/counter.h>
#include <nearcpu/queue.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ACCEPTORS 2
#define WORKERS 3
#define CAPACITY 16 /* of each slot */

static struct near_queue requests;
static struct near_cancel give_up;
static struct near_counter accepted, refused, answered;

static struct timespec in_milliseconds(long n)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += n / 1000;
	t.tv_nsec += n % 1000 * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

/* [accept] */
static void *accept_requests(void *request)
{
	for (;;) {
		struct timespec deadline = in_milliseconds(1);
		int r = near_queue_put_until(&requests, request, CLOCK_MONOTONIC, &deadline, NULL);

		if (r == -EPIPE)
			return NULL;                           /* closed: the server ends */
		near_counter_add(r ? &refused : &accepted, 1); /* -ETIMEDOUT: answer 503 */
	}
}
/* [/accept] */

/* [work] */
static void *work(void *unused)
{
	struct timespec a_while = {0, 5000000};
	void *request;

	/* Until it is closed and empty. */
	while (!near_cancel_is_set(&give_up) && near_queue_get(&requests, &request) == 0) {
		nanosleep(&a_while, NULL); /* the answer */
		near_counter_add(&answered, *(int *)request);
		near_queue_done(&requests, 1);
	}
	return unused;
}
/* [/work] */

/* [end] */
static void end(long milliseconds)
{
	struct timespec deadline = in_milliseconds(milliseconds);

	near_queue_close(&requests); /* no put succeeds any more */
	if (near_queue_join_until(&requests, CLOCK_MONOTONIC, &deadline, NULL))
		near_cancel_set(&give_up); /* workers finish what they have in hand */
}
/* [/end] */

int main(int argc, char **argv)
{
	struct timespec moment = {0, 300000000};
	pthread_t threads[ACCEPTORS + WORKERS];
	int one = 1, number;
	sigset_t signals;

	if (near_queue_init(&requests, CAPACITY) || near_counter_init(&accepted) ||
	    near_counter_init(&refused) || near_counter_init(&answered))
		return 1;
	/* [main] */
	sigemptyset(&signals); /* blocked in all threads: this one takes it by sigwait */
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	for (int i = 0; i < ACCEPTORS + WORKERS; i++)
		if (pthread_create(&threads[i], NULL, i < ACCEPTORS ? accept_requests : work, &one))
			abort();
	nanosleep(&moment, NULL);
	kill(getpid(), SIGTERM); /* as a supervisor does */
	sigwait(&signals, &number);
	end(argc > 1 ? atol(argv[1]) : 20000);
	for (int i = 0; i < ACCEPTORS + WORKERS; i++)
		pthread_join(threads[i], NULL);
	/* [/main] */
	fprintf(stderr, "%lld accepted, %lld refused\n", (long long)near_counter_read(&accepted),
		(long long)near_counter_read(&refused));
	printf("%lld accepted and not answered\n",
	       (long long)(near_counter_read(&accepted) - near_counter_read(&answered)));
	near_queue_destroy(&requests);
	return 0;
}
