/* SPDX-License-Identifier: MIT */
/* What the tasks do: messages as `perf bench sched messaging` sends them, a pipe, a server.
 *
 * A group has 20 senders and 20 receivers; each sender sends to all receivers of its group, and
 * blocks while a receiver's buffer is full. A process with threads begins with one, which makes
 * the others and then waits for them.
 */
#include "common/memory.h"
#include "sim/sim.h"

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
		group = *last = allocate_zeros(HALF, sizeof(*group));
		APPEND(s->channels, s->channel_count, group);
	}
	t->left = sim_about(s, SEND_NS);
	t->go = place < HALF ? receive : send;
	t->channel = place < HALF ? &group[place] : group;
	t->turn = place < HALF ? 0 : place - HALF;
	if (place < HALF)
		group[place].receiver = t;
}

/* ---- server ---- */

static bool server_step(struct sim *s, struct sim_task *t)
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
	t->go = server_step;
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
static bool make_threads(struct sim *s, struct sim_task *t)
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
	child->step = wait_for_all;
	s->params.load->make(s, child, t->made++, &t->channel);
	sim_start(s, child);
	return true;
}

static struct sim_task *begin_process(struct sim *s, bool (*step)(struct sim *, struct sim_task *),
				      unsigned threads)
{
	struct sim_task *t = sim_fork(s, NULL, sim_mm_new(s));

	t->cpu = bits_next(&s->allowed, 0, s->cpu_count);
	t->step = step;
	t->turn = threads;
	t->left = sim_about(s, FORK_NS);
	return t;
}

/* What else runs on a machine: a process that is no part of the load. */
static bool work_daemon(struct sim *s, struct sim_task *t)
{
	t->left = sim_about(s, FORK_NS);
	sim_sleep(s, t, sim_about(s, DAEMON_NS));
	return false;
}

static void begin_daemon(struct sim *s)
{
	struct sim_task *t = begin_process(s, work_daemon, 0);

	t->mm->counted = false;
	sim_start(s, t);
}

/* Processes with threads. */
static void begin_threads(struct sim *s)
{
	const struct sim_load *load = s->params.load;
	unsigned all = load->make == make_worker ? s->params.groups : s->params.threads;
	unsigned each = (all + load->share - 1) / load->share;

	begin_daemon(s);
	for (unsigned i = 0; i < load->processes; i++)
		sim_start(s, begin_process(s, make_threads,
					   load->make == make_worker ? each * 2 * HALF : each));
}

static void begin_processes(struct sim *s)
{
	struct sim_channel *group = NULL;

	begin_daemon(s);
	for (unsigned i = 0; i < s->params.groups * 2 * HALF; i++) {
		struct sim_task *t = begin_process(s, NULL, 0);

		make_worker(s, t, i, &group);
		t->step = t->go;
		sim_start(s, t);
	}
}

static bool exchange(struct sim *s, struct sim_task *t)
{
	s->counts.work++;
	t->left = sim_about(s, PIPE_NS);
	sim_wake(s, t->partner, t);
	return false;
}

static void begin_pipe(struct sim *s)
{
	struct sim_task *a, *b;

	begin_daemon(s);
	a = begin_process(s, exchange, 0);
	b = begin_process(s, exchange, 0);
	a->partner = b;
	b->partner = a;
	sim_start(s, a);
}

const struct sim_load sim_loads[] = {
	{"processes", "messages between processes", .begin = begin_processes},
	{"threads", "messages between the threads of a process", .begin = begin_threads,
	 .make = make_worker, .processes = 1, .share = 1},
	{"two", "two processes with threads, each as `threads`", .begin = begin_threads,
	 .make = make_worker, .processes = 2, .share = 1},
	{"ten", "10 processes with threads that send messages", .begin = begin_threads,
	 .make = make_worker, .processes = 10, .share = 10},
	{"pipe", "two processes that send one message back and forth", .affine = true,
	 .begin = begin_pipe},
	{"server", "a process whose threads serve requests and wait for a disk",
	 .begin = begin_threads, .make = make_server, .processes = 1, .share = 1},
	{"servers", "4 servers that share the CPUs, each with a quarter of the threads",
	 .begin = begin_threads, .make = make_server, .processes = 4, .share = 4},
	{.name = NULL},
};
