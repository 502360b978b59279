/* SPDX-License-Identifier: MIT */
/* watch: how a thread that polls descriptors is notified that a queue has an element.
 *
 * A thread with sockets waits in epoll_wait(2), poll(2) or io_uring, not in near_queue_get. It has
 * a watch with an eventfd(2), and gets by near_queue_get_or_arm or near_fifo_get_or_arm. When
 * they find the queue empty they arm the watch: the descriptor becomes readable with the next
 * element, or when the queue is closed. With one descriptor in the watches of several queues, a
 * thread waits for all of them.
 *
 * Cost:      for the queue that of a getter that sleeps. The put that ends the wait writes to the
 *            descriptor, once; others pay nothing.
 * Memory:    160 bytes. There is nothing to destroy, but an armed watch must be disarmed before its
 *            memory, its descriptor or its queue goes.
 * Safety:    one thread at a time; not in signal handlers. Nothing allocates; errno is left alone.
 * Order:     that of the get. Watches and threads that wait in a near_queue are served first in,
 *            first out; a near_fifo notifies a watch whether threads wait or not.
 * Notified:  a watch is notified once, then it is armed no longer. Its thread then gets; or it
 *            disarms, which notifies the next one, or an element may stay while others wait. A
 *            descriptor may be readable although the queue is empty: read it, and get again. A
 *            thread disarms a watch before it waits for the queue in another way, as by
 *            near_queue_get: else the watch may be notified while it sleeps.
 * Fallback:  needs no rseq; the same code everywhere.
 * Misuse:    a descriptor that cannot be written to notifies nobody; one that blocks, as a full
 *            pipe, blocks the put.
 * Fork:      the child's watches are not armed; its puts write to no descriptor of the parent's.
 *
 * Concurrent with: nothing on the same watch.
 *
 *     struct near_watch watch;
 *     int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), r;
 *     uint64_t times;
 *     void *job;
 *
 *     near_watch_init(&watch, fd);             // and fd into the epoll set
 *     for (;;) {
 *             while ((r = near_queue_get_or_arm(&jobs, &job, &watch)) == 0)
 *                     do_job(job);
 *             if (r == -EPIPE)
 *                     break;
 *             epoll_wait(...);                 // sockets, and fd
 *             read(fd, &times, sizeof(times)); // when fd is readable
 *     }
 *
 * Source: the eventfd of Folly's NotificationQueue; differs in that the descriptor belongs to the
 * thread that waits, not to the queue: so a queue can have several, and several queues one.
 */
#ifndef NEARCPU_WATCH_H
#define NEARCPU_WATCH_H

#include <nearcpu/api.h>
#include <stdint.h>

NEAR__BEGIN_DECLS

/* Private. */
struct near_watch {
	int fd;
	uint32_t forks;
	uint32_t *armed_at; /* NULL: it is not */
	uint64_t waiter[18];
};

/* Nothing is armed yet. The descriptor stays the caller's. */
NEAR_API void near_watch_init(struct near_watch *w, int fd);

/* Nothing is written to the descriptor from now on. If something was since the watch was armed, the
 * next one that waits in the queue is notified instead. */
NEAR_API void near_watch_disarm(struct near_watch *w);

NEAR__END_DECLS

#endif
