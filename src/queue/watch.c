/* SPDX-License-Identifier: MIT */
/* near_watch: a waiter of the parking lot whose wake-up is a write to a descriptor; queue.h has the
 * argument. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/known.h"
#include "queue/queue.h"

static struct near__waiter *watch_waiter(struct near_watch *w)
{
	_Static_assert(sizeof(struct near__waiter) <= sizeof(w->waiter), "near_watch has room");
	return (struct near__waiter *)(void *)w->waiter;
}

/* By the thread that wakes it. */
static void watch_notify(struct near__waiter *waiter)
{
	const struct near_watch *w = waiter->arg;
	static const uint64_t one = 1;
	int saved = errno;

	while (write(w->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	errno = saved;
}

void near_watch_init(struct near_watch *w, int fd)
{
	memset(w, 0, sizeof(*w));
	w->fd = fd;
}

uint32_t near__watch_arm(struct near_watch *w, uint32_t *flags)
{
	struct near__waiter *waiter = watch_waiter(w);

	w->armed_at = flags;
	w->forks = near__lot.forks;
	*waiter = (struct near__waiter){.notify = watch_notify, .arg = w};
	return near__queue_enter(waiter, flags, GETTERS);
}

/* In the child of a fork it is in no queue. */
static bool watch_leave(struct near_watch *w)
{
	bool notified = w->armed_at && w->forks == near__lot.forks &&
			!near__lot_leave(watch_waiter(w));

	w->armed_at = NULL;
	return notified;
}

void near__watch_reset(struct near_watch *w)
{
	watch_leave(w);
}

void near_watch_disarm(struct near_watch *w)
{
	uint32_t *flags = w->armed_at;

	if (watch_leave(w))
		near__queue_wake(flags, GETTERS, 1);
}
