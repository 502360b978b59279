/* SPDX-License-Identifier: MIT */
/* A server with three tracepoints around a request. One in some hundreds is slow, as the cache does
 * not have its page: nearcpu trace shows which, and why. */
#include <nearcpu/trace.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS 2
#define REQUESTS 1000 /* of each thread */
#define PAGES 300

/* [points] */
NEAR_TRACEPOINT(server, begin, NEAR_TRACE_INFO, (u32, id), (string, path));
NEAR_TRACEPOINT(server, miss, NEAR_TRACE_INFO, (u32, id), (u32, page));
NEAR_TRACEPOINT(server, end, NEAR_TRACE_INFO, (u32, id), (i32, status));
/* [/points] */

/* [serve] */
static void read_from_disk(unsigned page)
{
	struct timespec t = {0, 2000000 + page * 1000};

	nanosleep(&t, NULL);
}

static void serve_request(uint32_t id)
{
	unsigned page = id % PAGES;
	char path[32];

	snprintf(path, sizeof(path), "/pages/%u", page);
	near_trace_server_begin(id, path);
	if (page == 17) { /* the cache never has it */
		near_trace_server_miss(id, page);
		read_from_disk(page);
	}
	near_trace_server_end(id, 200);
}
/* [/serve] */

static void *serve(void *arg)
{
	uint32_t first = *(uint32_t *)arg;

	for (uint32_t id = first; id < first + REQUESTS; id++)
		serve_request(id);
	return NULL;
}

int main(void)
{
	uint32_t first[THREADS];
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		first[i] = i * REQUESTS;
		if (pthread_create(&threads[i], NULL, serve, &first[i]))
			abort();
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%d requests\n", THREADS * REQUESTS);
	return 0;
}
