/* SPDX-License-Identifier: MIT */
/* Requests with buffers, received by one thread and answered by another, which puts them back: few
 * buffers are allocated, however many requests there are. */
#include <nearcpu/pool.h>
#include <nearcpu/queue.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS 50000
#define BUFFER 512

struct request {
	char *buffer;
	size_t length;
};

static struct near_pool requests;
static struct near_queue received;

static int construct(void *object, void *arg)
{
	struct request *r = (struct request *)object;

	(void)arg;
	r->buffer = (char *)malloc(BUFFER);
	return r->buffer ? 0 : -ENOMEM;
}

static void destruct(void *object, void *arg)
{
	(void)arg;
	free(((struct request *)object)->buffer);
}

static void *receive(void *arg)
{
	for (int i = 0; i < REQUESTS; i++) {
		struct request *r = (struct request *)near_pool_get(&requests);

		if (!r)
			abort();
		r->length = (size_t)snprintf(r->buffer, BUFFER, "GET /%d", i);
		if (near_queue_put(&received, r))
			abort(); /* it is closed */
	}
	near_queue_close(&received);
	return arg;
}

static int answer(void)
{
	int answered = 0;
	void *r;

	while (near_queue_get(&received, &r) == 0) {
		const struct request *request = (const struct request *)r;

		answered += strlen(request->buffer) == request->length;
		near_pool_put(&requests, r);
	}
	return answered;
}

int main(void)
{
	struct near_pool_options options;
	struct near_pool_stats s;
	pthread_t receiver;
	int answered;

	memset(&options, 0, sizeof(options));
	options.construct = construct;
	options.destruct = destruct;
	options.max_idle = 1000;
	if (near_pool_init(&requests, sizeof(struct request), &options) ||
	    near_queue_init(&received, 100))
		return 1;
	if (pthread_create(&receiver, NULL, receive, NULL))
		return 1;
	answered = answer();
	pthread_join(receiver, NULL);
	near_pool_stats(&requests, &s, sizeof(s));
	printf("%d requests answered, buffers were %s\n", answered,
	       s.constructed < REQUESTS / 10 ? "reused" : "wasted");
	near_pool_drain(&requests);
	near_pool_stats(&requests, &s, sizeof(s));
	printf("%llu buffers left\n", (unsigned long long)(s.constructed - s.destructed));
	near_pool_destroy(&requests);
	near_queue_destroy(&received);
	return 0;
}
