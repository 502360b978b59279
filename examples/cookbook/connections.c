/* SPDX-License-Identifier: MIT */
/* A pool of connections: a bound, a deadline, a check before use, an orderly end. The database is a
 * thread for each connection, which closes it after some queries, as in a restart. */
#include <nearcpu/counter.h>
#include <nearcpu/pool.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS 4
#define WORKERS 8
#define QUERIES 1000 /* of each worker */

static struct near_pool pool;
static struct near_cancel closing;
static struct near_counter answered, reconnected;

static void *database(void *arg)
{
	int fd = (int)(intptr_t)arg, left = QUERIES / 2;
	char query;

	while (left-- && read(fd, &query, 1) == 1 && write(fd, &query, 1) == 1)
		;
	close(fd);
	return NULL;
}

/* [object] */
struct connection {
	int fd;
};

/* Makes a connection, for a new object or in place of one that is broken. */
static int construct(void *object, void *unused)
{
	struct connection *c = (struct connection *)object;
	pthread_t thread;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return -errno; /* near_pool_get_until returns it */
	c->fd = ends[0];
	if (pthread_create(&thread, NULL, database, (void *)(intptr_t)ends[1]) ||
	    pthread_detach(thread))
		abort();
	(void)unused;
	return 0;
}

static void destruct(void *object, void *unused)
{
	(void)unused;
	close(((struct connection *)object)->fd);
}
/* [/object] */

/* [query] */
static int query(int seconds)
{
	struct connection *c;
	struct timespec deadline;
	void *object;
	char byte = 'q';
	int r;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += seconds;
	r = near_pool_get_until(&pool, &object, CLOCK_MONOTONIC, &deadline, &closing);
	if (r)
		return r; /* -ETIMEDOUT, -ECANCELED, or that of construct */
	c = (struct connection *)object;
	/* An idle connection has nothing to read, unless the other end has closed it. */
	if (c->fd < 0 || recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0) {
		close(c->fd);
		near_counter_add(&reconnected, 1);
		if (construct(c, NULL))
			c->fd = -1;
	}
	r = send(c->fd, &byte, 1, MSG_NOSIGNAL) == 1 && read(c->fd, &byte, 1) == 1 ? 0 : -EIO;
	near_pool_put(&pool, c); /* also after an error: the next user checks it */
	return r;
}
/* [/query] */

/* [worker] */
static void *work(void *unused)
{
	for (int i = 0; i < QUERIES; i++)
		if (query(30) == 0 || query(30) == 0) /* closed after the check: once more */
			near_counter_add(&answered, 1);
	return unused;
}
/* [/worker] */

/* [end] */
static void end(void)
{
	void *held[CONNECTIONS];

	near_pool_get_many(&pool, held, CONNECTIONS);
	printf("all in use: %s\n", query(0) == -ETIMEDOUT ? "refused" : "?");
	near_cancel_set(&closing); /* ends all waits, and those that begin later */
	printf("closing: %s\n", query(30) == -ECANCELED ? "refused" : "?");
	near_pool_put_many(&pool, held, CONNECTIONS);
	printf("%zu connections closed\n", near_pool_drain(&pool));
	near_pool_destroy(&pool);
}
/* [/end] */

int main(void)
{
	static struct near_pool_options options; /* 0: the defaults */
	pthread_t workers[WORKERS];

	/* [init] */
	options.construct = construct;
	options.destruct = destruct;
	options.max_objects = CONNECTIONS;
	if (near_pool_init(&pool, sizeof(struct connection), &options) ||
	    near_counter_init(&answered) || near_counter_init(&reconnected))
		return 1;
	/* [/init] */
	for (int i = 0; i < WORKERS; i++)
		if (pthread_create(&workers[i], NULL, work, NULL))
			abort();
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	printf("%lld answers, reconnected: %s\n", (long long)near_counter_read(&answered),
	       near_counter_read(&reconnected) ? "yes" : "no");
	end();
	return 0;
}
