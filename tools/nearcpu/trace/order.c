/* SPDX-License-Identifier: MIT */
/* nearcpu trace enable, disable, snapshot and trigger: orders to a process that traces, by
 * trace:control of its file (src/trace/format.h). */
#include "trace/print.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/text.h"
#include "common/tool.h"
#include "base/futex.h"

#define PATIENCE 5. /* seconds, for an answer */
/* If there is no such process: it may be in another pid namespace. */
#define LITTLE .5
#define NEXT_EVENT .1 /* of a process without a thread */
#define END_AT                                                                                     \
	(NEAR__TRACE_PAGE - sizeof(struct near__trace_ring) +                                      \
	 offsetof(struct near__trace_ring, end))
#define DEFAULT_LEVEL UINT64_C(5) /* NEAR_TRACE_DEBUG */

static const char snapshot[] = "snapshot ";

struct connection {
	const struct trace_file *file;
	int fd;
	void *map;
	size_t size;
	struct near__trace_control *control;
	double until;
};

/* When the file was opened. */
static bool has_thread(const struct trace_file *f)
{
	return !(f->session.flags & NEAR__TRACE_NO_THREAD);
}

static int no_answer(const struct connection *c)
{
	if (child_interrupted())
		return child_report_interrupt("trace");
	return failure("trace", "'%s': process %" PRIu64 " does not answer%s", c->file->path,
		       c->file->session.pid, trace_is_there(c->file) ? "" : ": was it killed?");
}

/* The lock of an order; the kernel releases it when this process ends. */
static int lock(struct connection *c)
{
	struct flock byte = {.l_type = F_WRLCK,
			     .l_whence = SEEK_SET,
			     .l_start = (off_t)c->file->control_at,
			     .l_len = 1};
	const struct timespec pause = {.tv_nsec = 1000000};

	while (fcntl(c->fd, F_OFD_SETLK, &byte)) {
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return failure("trace", "cannot lock '%s': %s", c->file->path,
				       strerror(errno));
		if (child_interrupted())
			return child_report_interrupt("trace");
		if (now_seconds() > c->until)
			return failure("trace", "'%s' is locked by another command", c->file->path);
		nanosleep(&pause, NULL);
	}
	return EXIT_DONE;
}

static int open_control(struct connection *c)
{
	const struct trace_file *f = c->file;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = f->control_at & ~(page - 1);

	if (f->session.ended)
		return failure("trace", "'%s': process %" PRIu64 " does not trace any more",
			       f->path, f->session.pid);
	if (!f->control_at || f->control_at + sizeof(*c->control) > f->size)
		return failure("trace", "'%s' takes no orders", f->path);
	c->fd = open(f->path, O_RDWR | O_CLOEXEC);
	if (c->fd < 0)
		return failure("trace", "cannot write to '%s': %s", f->path, strerror(errno));
	c->size = f->control_at - from + sizeof(*c->control);
	c->map = mmap(NULL, c->size, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, (off_t)from);
	if (c->map == MAP_FAILED)
		return failure("trace", "cannot map '%s': %s", f->path, strerror(errno));
	c->control = (void *)((char *)c->map + (f->control_at - from));
	c->until = now_seconds() + (trace_is_there(f) ? PATIENCE : LITTLE);
	return lock(c);
}

/* Waits until the program has carried out all orders. */
static bool wait_until_done(const struct connection *c)
{
	uint32_t done, request = __atomic_load_n(&c->control->request, __ATOMIC_RELAXED);

	/* Acquire: pairs with the release that follows the answer. */
	while ((done = __atomic_load_n(&c->control->done, __ATOMIC_ACQUIRE)) != request) {
		if (now_seconds() > c->until || child_interrupted())
			return false;
		near__futex_sleep(&c->control->done, done, 100000000, true);
	}
	return true;
}

/* The program does not carry it out later, unless it has begun. */
static int give_up(struct connection *c, uint32_t request)
{
	if (near__trace_claim(c->control, request) || child_interrupted())
		return no_answer(c);
	return failure("trace", "'%s': process %" PRIu64 " has not finished yet; it goes on",
		       c->file->path, c->file->session.pid);
}

static int order_report(const struct connection *c, const char *order)
{
	char answer[sizeof(c->control->answer)];

	memcpy(answer, c->control->answer, sizeof(answer));
	answer[sizeof(answer) - 1] = 0;
	if (*answer && strncmp(order, snapshot, sizeof(snapshot) - 1) == 0)
		return failure("trace", "cannot make '%s': %s", order + sizeof(snapshot) - 1,
			       answer);
	return *answer ? failure("trace", "'%s': %s", c->file->path, answer) : EXIT_DONE;
}

/* The number of the order. */
static uint32_t post(struct connection *c, const char *order)
{
	uint32_t request;

	memcpy(c->control->order, order, strlen(order) + 1);
	/* Release: pairs with the acquire of the program. */
	request = __atomic_add_fetch(&c->control->request, 1, __ATOMIC_RELEASE);
	near__futex_wake(&c->control->request, INT_MAX, true);
	return request;
}

/* The text of an order that was given up is left alone until the program has seen it. */
static int give_order(struct connection *c, const char *order)
{
	uint32_t request;

	if (!wait_until_done(c))
		return no_answer(c);
	request = post(c, order);
	if (!wait_until_done(c))
		return give_up(c, request);
	return order_report(c, order);
}

/* ---- a process without a thread: its events look for orders ---- */

/* In a ring whose `end` is 0 each sequence fails, and its event looks (src/trace/orders.c). The
 * fence pairs with that of an event which stores another `end`. */
static void stop_sequences(const struct connection *c)
{
	const struct trace_file *f = c->file;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < f->session.slots; i++) {
		uint64_t at = f->rings_at + i * f->session.ring_stride + END_AT, used = 0;
		char *map;

		trace_read(f, &used, f->used_at + i / 64 * sizeof(used), sizeof(used));
		if (!(used >> i % 64 & 1) || at + sizeof(uint64_t) > f->size)
			continue;
		map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd,
			   (off_t)(at & ~(page - 1)));
		if (map == MAP_FAILED)
			continue;
		__atomic_store_n((uint64_t *)(map + (at & (page - 1))), 0, __ATOMIC_RELAXED);
		munmap(map, page);
	}
}

/* Orders that the process has not come to are taken back, and precede this one. False: there is no
 * room for it, and they stay. */
static bool order_append(struct connection *c, const char *order)
{
	struct near__trace_control *k = c->control;
	char text[sizeof(k->order)] = "";
	uint32_t request = __atomic_load_n(&k->request, __ATOMIC_RELAXED);
	size_t n = 0;
	bool fits;

	/* Acquire: what the process has done precedes what this command does next. */
	if (__atomic_load_n(&k->done, __ATOMIC_ACQUIRE) != request &&
	    near__trace_claim(k, request)) {
		memcpy(text, k->order, sizeof(text));
		text[sizeof(text) - 1] = 0;
		n = strlen(text);
	}
	fits = n + (n != 0) + strlen(order) < sizeof(text);
	if (fits)
		strcat(n ? strcat(text, "\n") : text, order);
	post(c, text);
	stop_sequences(c);
	return fits;
}

/* It stays where it is until the next event. */
static int leave_order(struct connection *c, const char *order)
{
	const struct trace_file *f = c->file;

	if (!order_append(c, order))
		return failure("trace",
			       "'%s': process %" PRIu64 " has not come to earlier orders yet",
			       f->path, f->session.pid);
	c->until = now_seconds() + (trace_is_there(f) ? NEXT_EVENT : LITTLE);
	if (wait_until_done(c))
		return order_report(c, order);
	if (child_interrupted() || !trace_is_there(f))
		return give_up(c, __atomic_load_n(&c->control->request, __ATOMIC_RELAXED));
	fprintf(stderr,
		"nearcpu trace: '%s': process %" PRIu64 " carries it out at its next event\n",
		f->path, f->session.pid);
	return EXIT_DONE;
}

static int order_one(const struct trace_file *f, const char *order)
{
	struct connection c = {.file = f, .fd = -1, .map = MAP_FAILED};
	int code;

	if (!has_thread(f) && !f->session.ended && trace_is_there(f) &&
	    strncmp(order, snapshot, sizeof(snapshot) - 1) == 0)
		return trace_copy(f, order + sizeof(snapshot) - 1);
	code = open_control(&c);

	if (!code && c.control)
		code = has_thread(f) ? give_order(&c, order) : leave_order(&c, order);
	if (c.map != MAP_FAILED)
		munmap(c.map, c.size);
	if (c.fd >= 0)
		close(c.fd);
	return code;
}

/* Of several files those whose programs have ended are left out, and those that take no orders. */
int trace_order(const struct trace *t, const char *order)
{
	unsigned given = 0;
	int code = EXIT_DONE, one;

	if (t->file_count > 1 && strncmp(order, snapshot, sizeof(snapshot) - 1) == 0)
		return usage_error("trace", "a snapshot is of one file");
	for (unsigned i = 0; i < t->file_count; i++) {
		if (t->file_count > 1 &&
		    (t->files[i].session.ended || trace_is_moved(t, &t->files[i]) ||
		     t->files[i].session.flags & NEAR__TRACE_IS_SCHED))
			continue;
		one = order_one(&t->files[i], order);
		code = one ? one : code;
		given++;
	}
	return given ? code : failure("trace", "none of these programs traces any more");
}

/* The program may have another working directory. */
int trace_make_order(char *order, size_t size, const char *verb, const char *what, uint64_t level,
		     const char *condition)
{
	char folder[PATH_MAX] = "";
	bool is_file = strcmp(verb, "snapshot") == 0, is_text = strcmp(verb, "trigger") == 0;
	struct text text = {order, size};

	if (is_file && *what != '/' && !getcwd(folder, sizeof(folder)))
		return failure("trace", "there is no working directory: %s", strerror(errno));
	*order = 0;
	say(&text, "%s %s%s%s", verb, folder, *folder ? "/" : "", what);
	if (condition || (!is_file && !is_text && level != UINT32_MAX))
		say(&text, " %" PRIu64, level == UINT32_MAX ? DEFAULT_LEVEL : level);
	if (condition)
		say(&text, " %s", condition);
	if (strlen(order) + 1 == size || (is_text && strchr(what, '\n')) ||
	    (!is_file && !is_text && strpbrk(what, " \t\n")) ||
	    (condition && strchr(condition, '\n')))
		return usage_error("trace", "'%s' is no pattern or name for '%s'", what, verb);
	return EXIT_DONE;
}
