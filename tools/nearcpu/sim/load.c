/* SPDX-License-Identifier: MIT */
/* What the tasks do: messages as `perf bench sched messaging` sends them, a pipe, a server.
 *
 * A group has 20 senders and 20 receivers; each sender sends to all receivers of its group, and
 * blocks while a receiver's buffer is full. A process with threads begins with one, which makes
 * the others and then waits for them.
 */
#include "sim/sim.h"

#include <errno.h>
#include <stdlib.h>

#define HALF 20    /* senders of a group */
#define BUFFER 278 /* messages: a Unix socket of 212,992 bytes, 768 for each of 100 */
#define SEND_NS 1500
#define RECEIVE_NS 1000
#define FORK_NS 20000
#define PIPE_NS 3000
#define DAEMON_NS 350000
#define REQUEST_NS 60000
#define IO_NS 100000

struct sim_channel {
	struct sim_task *receiver, *waiters; /* senders that wait for room */
	unsigned count;
};

/* ---- messages ---- */

static bool receive(struct sim *s, struct sim_task *t)
{
	struct sim_channel *c = t->channel;

	if (!c->count)
		return false;
	c->count--;
	s->counts.work++;
	t->left = sim_about(s, RECEIVE_NS);
	if (c->count == BUFFER / 2)
		while (c->waiters) {
			struct sim_task *w = c->waiters;

			c->waiters = w->next_waiter;
			sim_wake(s, w, t);
		}
	return true;
}

static bool send(struct sim *s, struct sim_task *t)
{
	struct sim_channel *c = &t->channel[t->turn];

	t->left = sim_about(s, SEND_NS);
	if (c->count == BUFFER) {
		t->next_waiter = c->waiters;
		c->waiters = t;
		return false;
	}
	if (!c->count++)
		sim_wake(s, c->receiver, t);
	t->turn = (t->turn + 1) % HALF;
	return true;
}

/* The `i`th worker of several groups: of each, receivers first. *last is the group of the worker
 * before. */
static void make_worker(struct sim *s, struct sim_task *t, unsigned i, struct sim_channel **last)
{
	unsigned place = i % (2 * HALF);
	struct sim_channel *group = *last;

	if (!place) {
		group = calloc(HALF, sizeof(*group));
		if (group &&
		    !sim_append(&s->channels, &s->channel_count, &s->channel_room, group)) {
			free(group);
			group = NULL;
		}
	}
	*last = group;
	if (!group) {
		s->error = -ENOMEM;
		return;
	}
	t->left = sim_about(s, SEND_NS);
	t->go = place < HALF ? receive : send;
	t->channel = place < HALF ? &group[place] : group;
	t->turn = place < HALF ? 0 : place - HALF;
	if (place < HALF)
		group[place].receiver = t;
}

/* ---- server ---- */

static bool serve(struct sim *s, struct sim_task *t)
{
	s->counts.work++;
	t->left = sim_about(s, REQUEST_NS);
	sim_sleep(s, t, sim_random(s) % (2 * IO_NS) + 1);
	return false;
}

static void make_server(struct sim *s, struct sim_task *t, unsigned i, struct sim_channel **last)
{
	(void)i;
	(void)last;
	t->left = sim_about(s, REQUEST_NS);
	t->go = serve;
}

/* ---- begin ---- */

static bool wait_for_all(struct sim *s, struct sim_task *t)
{
	(void)s;
	(void)t;
	return false;
}

static void let_go(struct sim *s, struct sim_task *first)
{
	for (struct sim_task *t = first->mm->tasks; t; t = t->mm_next)
		if (t != first) {
			t->step = t->go;
			t->left = t->left ? t->left : sim_about(s, SEND_NS);
			sim_wake(s, t, first);
		}
}

/* A process's first thread makes the others, one a step: `turn` of them are left. They begin at
 * the same time. */
static bool make_threads(struct sim *s, struct sim_task *t,
			 void (*make)(struct sim *s, struct sim_task *t, unsigned i,
				      struct sim_channel **last))
{
	struct sim_task *child;

	t->left = sim_about(s, FORK_NS);
	if (!t->turn) {
		if (t->made)
			let_go(s, t);
		t->made = 0;
		return false;
	}
	t->turn--;
	child = sim_fork(s, t, t->mm);
	if (child) {
		child->step = wait_for_all;
		make(s, child, t->made++, &t->channel);
	}
	if (!s->error)
		sim_start(s, child);
	return true;
}

static bool make_workers(struct sim *s, struct sim_task *t)
{
	return make_threads(s, t, make_worker);
}

static bool make_servers(struct sim *s, struct sim_task *t)
{
	return make_threads(s, t, make_server);
}

static struct sim_task *begin_process(struct sim *s, bool (*step)(struct sim *, struct sim_task *),
				      unsigned threads)
{
	struct sim_mm *mm = sim_mm_new(s);
	struct sim_task *t = mm ? sim_fork(s, NULL, mm) : NULL;

	if (t) {
		t->cpu = bits_next(&s->allowed, 0, s->cpu_count);
		t->step = step;
		t->turn = threads;
		t->left = sim_about(s, FORK_NS);
	}
	return t;
}

/* What else runs on a machine: a process that is no part of the load. */
static bool work_daemon(struct sim *s, struct sim_task *t)
{
	t->left = sim_about(s, FORK_NS);
	sim_sleep(s, t, sim_about(s, DAEMON_NS));
	return false;
}

static bool begin(struct sim *s, unsigned processes, bool (*step)(struct sim *, struct sim_task *),
		  unsigned threads)
{
	struct sim_task *t = begin_process(s, work_daemon, 0);

	if (t) {
		t->mm->counted = false;
		sim_start(s, t);
	}
	for (unsigned i = 0; i < processes && !s->error; i++) {
		t = begin_process(s, step, threads);
		if (t)
			sim_start(s, t);
	}
	return !s->error;
}

static bool begin_threads(struct sim *s)
{
	return begin(s, 1, make_workers, s->params.groups * 2 * HALF);
}

static bool begin_two(struct sim *s)
{
	return begin(s, 2, make_workers, s->params.groups * 2 * HALF);
}

static bool begin_ten(struct sim *s)
{
	return begin(s, 10, make_workers, (s->params.groups + 9) / 10 * 2 * HALF);
}

static bool begin_server(struct sim *s)
{
	return begin(s, 1, make_servers, s->params.threads);
}

static bool begin_servers(struct sim *s)
{
	return begin(s, 4, make_servers, (s->params.threads + 3) / 4);
}

static bool begin_processes(struct sim *s)
{
	struct sim_channel *group = NULL;

	begin(s, 0, NULL, 0);
	for (unsigned i = 0; i < s->params.groups * 2 * HALF && !s->error; i++) {
		struct sim_task *t = begin_process(s, NULL, 0);

		if (t)
			make_worker(s, t, i, &group);
		if (t)
			t->step = t->go;
		if (!s->error)
			sim_start(s, t);
	}
	return !s->error;
}

static bool exchange(struct sim *s, struct sim_task *t)
{
	s->counts.work++;
	t->left = sim_about(s, PIPE_NS);
	sim_wake(s, t->partner, t);
	return false;
}

static bool begin_pipe(struct sim *s)
{
	struct sim_task *a, *b;

	begin(s, 0, NULL, 0);
	a = s->error ? NULL : begin_process(s, exchange, 0);
	b = a ? begin_process(s, exchange, 0) : NULL;
	if (!b)
		return false;
	a->partner = b;
	b->partner = a;
	sim_start(s, a);
	return !s->error;
}

const struct sim_load sim_loads[] = {
	{"processes", "messages between processes", false, begin_processes},
	{"threads", "messages between the threads of a process", false, begin_threads},
	{"two", "two processes with threads, each as `threads`", false, begin_two},
	{"ten", "10 processes with threads that send messages", false, begin_ten},
	{"pipe", "two processes that send one message back and forth", true, begin_pipe},
	{"server", "a process whose threads serve requests and wait for a disk", false,
	 begin_server},
	{"servers", "4 servers that share the CPUs, each with a quarter of the threads", false,
	 begin_servers},
	{.name = NULL},
};
