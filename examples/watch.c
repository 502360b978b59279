/* SPDX-License-Identifier: MIT */
/* A thread that serves a socket and two queues, urgent jobs first: it sleeps in poll(2) alone. */
#include <nearcpu/fifo.h>
#include <nearcpu/queue.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define JOBS 1000

static struct near_queue jobs;
static struct near_fifo urgent;
static int sockets[2];
static unsigned done, urgent_done, received;

/* 0: there was one; -EAGAIN: both watches are armed; -EPIPE: no more will come. */
static int do_one(struct near_watch watches[2])
{
	void *job;
	int r = near_fifo_get_or_arm(&urgent, &job, &watches[0]), s;

	if (r == 0) {
		urgent_done++;
		near_fifo_done(&urgent, 1);
		return 0;
	}
	s = near_queue_get_or_arm(&jobs, &job, &watches[1]);
	if (s == 0) {
		done++;
		near_queue_done(&jobs, 1);
	}
	return s == -EPIPE ? r : s;
}

static void *serve(void *arg)
{
	struct pollfd fds[2];
	struct near_watch watches[2];
	uint64_t times;
	char byte;
	int r;

	fds[0].fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fds[0].events = fds[1].events = POLLIN;
	fds[1].fd = sockets[1];
	near_watch_init(&watches[0], fds[0].fd);
	near_watch_init(&watches[1], fds[0].fd);
	while ((r = do_one(watches)) != -EPIPE) {
		if (r == 0)
			continue;
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			abort();
		if (fds[0].revents && read(fds[0].fd, &times, sizeof(times)) < 0 && errno != EAGAIN)
			abort();
		if (fds[1].revents)
			received += read(sockets[1], &byte, 1) == 1;
	}
	near_watch_disarm(&watches[0]);
	near_watch_disarm(&watches[1]);
	close(fds[0].fd);
	return arg;
}

int main(void)
{
	pthread_t thread;

	if (near_queue_init(&jobs, 100) || near_fifo_init(&urgent, 10) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) ||
	    pthread_create(&thread, NULL, serve, NULL))
		return 1;
	if (write(sockets[0], "x", 1) != 1)
		return 1;
	for (int i = 0; i < JOBS; i++)
		if (near_queue_put(&jobs, NULL) || (i % 100 == 0 && near_fifo_put(&urgent, NULL)))
			abort();
	near_queue_join(&jobs);
	near_fifo_join(&urgent);
	near_queue_close(&jobs);
	near_fifo_close(&urgent);
	pthread_join(thread, NULL);
	if (!received)
		received += recv(sockets[1], &received, 1, 0) == 1;
	printf("%u jobs, %u urgent ones, %u message\n", done, urgent_done, received);
	near_queue_destroy(&jobs);
	near_fifo_destroy(&urgent);
	return 0;
}
