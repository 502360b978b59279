/* SPDX-License-Identifier: MIT */
/* near_queue and near_fifo under load: threads put numbers by all kinds of calls while others get
 * them, are interrupted by signals and moved between CPUs. Each number comes out once; a call that
 * waits ends. --seconds is how long the program runs, on any machine. */
#include "alarms.h"
#include "kinds.h"
#include "team.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#define PUTTERS 4u
#define GETTERS 4u
#define MOST 60000u /* numbers of a putter */
#define RUN_SECONDS 4
#define RUNS (LENGTH(queue_kinds) * LENGTH(capacities))

static const size_t capacities[] = {1, 2, 5, 64};

static const struct queue_kind *k;
static union any_queue q;
static unsigned numbers;      /* of each putter, unless the time is over */
static unsigned put[PUTTERS]; /* how many of them each put */
static unsigned seconds;      /* of the program, if not 0 */
static time_t until;          /* of this run, by CLOCK_MONOTONIC */
static unsigned char seen[PUTTERS][MOST];
static unsigned putting; /* threads */
static uint64_t seed;

static uintptr_t number(unsigned putter, unsigned n)
{
	return 1 + putter + (uintptr_t)n * PUTTERS;
}

static struct timespec soon(unsigned us)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += us * 1000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static void move(uint64_t *random)
{
	if (unit_random(random) % 512 == 0)
		unit_pin(unit_random(random) % 2, NULL);
	if (unit_random(random) % 512 == 0)
		unit_unpin();
}

/* How many of the next `left` numbers were put. */
static unsigned put_some(uintptr_t first, unsigned left, uint64_t *random)
{
	void *many[7] = {NULL};
	struct timespec t;
	unsigned n = unit_random(random) % 7 + 1;
	long r;

	n = n < left ? n : left;
	for (unsigned i = 0; i < n; i++)
		many[i] = element(first + i * (uintptr_t)PUTTERS);
	switch (unit_random(random) % 4) {
	case 0:
		return k->try_put(&q, many[0]) == 0;
	case 1:
		CHECK(k->put(&q, many[0]) == 0);
		return 1;
	case 2:
		t = soon(20);
		r = k->put_until(&q, many[0], CLOCK_MONOTONIC, &t, NULL);
		CHECK(r == 0 || r == -ETIMEDOUT);
		return r == 0;
	default:
		r = k->try_put_many(&q, many, n);
		CHECK(r > 0 || r == -EAGAIN);
	}
	return r > 0 ? (unsigned)r : 0;
}

static bool time_is_over(void)
{
	return soon(0).tv_sec >= until;
}

static void put_all(unsigned me)
{
	uint64_t random = seed + me;
	unsigned n = 0;

	while (n < numbers && !time_is_over()) {
		move(&random);
		n += put_some(number(me, n), numbers - n, &random);
	}
	put[me] = n;
	if (__atomic_sub_fetch(&putting, 1, __ATOMIC_ACQ_REL))
		return;
	k->join(&q);
	CHECK(k->count(&q) == 0);
	k->close(&q);
}

/* Waits until it is notified, or gives that up. */
static long get_by_watch(void **many, struct near_watch *watch, uint64_t *random)
{
	struct pollfd event = {.fd = watch->fd, .events = POLLIN};
	long r = k->get_or_arm(&q, many, watch) ?: 1;
	uint64_t times;

	if (r != -EAGAIN)
		return r;
	if (unit_random(random) % 4) {
		while (poll(&event, 1, -1) != 1)
			CHECK(errno == EINTR);
		r = k->get_or_arm(&q, many, watch) ?: 1;
	}
	/* Perhaps the descriptor was readable from before, and it is armed: what this thread does
	 * next may be to sleep otherwise. */
	near_watch_disarm(watch);
	CHECK(read(watch->fd, &times, sizeof(times)) == sizeof(times) || errno == EAGAIN);
	return r;
}

/* -EPIPE: closed and empty. */
static long get_some(void **many, struct near_watch *watch, uint64_t *random)
{
	struct timespec t = soon(20);

	switch (unit_random(random) % 7) {
	case 0:
		return k->try_get(&q, many) ?: 1;
	case 1:
		return k->get(&q, many) ?: 1;
	case 2:
		return k->get_many_until(&q, many, 7, CLOCK_MONOTONIC, &t, NULL);
	case 3:
		return k->get_many_until(&q, many, 3, 0, NULL, NULL);
	case 4:
	case 5:
		return get_by_watch(many, watch, random);
	default:
		return k->try_get_many(&q, many, 7);
	}
}

static void get_all(unsigned me)
{
	uint64_t random = seed + 100 + me;
	uintptr_t last[PUTTERS] = {0};
	void *many[7] = {NULL};
	struct near_watch watch;
	long r;

	near_watch_init(&watch, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	CHECK(watch.fd >= 0);
	while ((r = get_some(many, &watch, &random)) != -EPIPE) {
		struct timespec t = soon(20);

		CHECK(r > 0 || r == -EAGAIN || r == -ETIMEDOUT);
		if (unit_random(&random) % 64 == 0) /* what this thread has is not done */
			CHECK(k->join_until(&q, CLOCK_MONOTONIC, &t, NULL) ==
				      (r > 0 ? -ETIMEDOUT : 0) ||
			      r < 0);
		move(&random);
		for (long i = 0; i < r; i++) {
			uintptr_t n = (uintptr_t)many[i] - 1, putter = n % PUTTERS;

			CHECK(n / PUTTERS < numbers);
			CHECK(__atomic_fetch_add(&seen[putter][n / PUTTERS], 1, __ATOMIC_RELAXED) ==
			      0);
			/* One order for all: what a thread gets of one putter is in order. */
			CHECK(!k->is_fifo || n >= last[putter]);
			last[putter] = n;
		}
		if (r > 0)
			k->done(&q, (size_t)r);
	}
	near_watch_disarm(&watch);
	close(watch.fd);
}

static void run_one(unsigned me)
{
	mask_alarm(SIG_UNBLOCK);
	if (me % 2)
		get_all(me / 2);
	else
		put_all(me / 2);
	mask_alarm(SIG_BLOCK);
}

static void on_alarm(int signal)
{
}

static void run(size_t capacity)
{
	memset(seen, 0, sizeof(seen));
	/* On a busy machine each wait takes milliseconds: a run then ends with fewer numbers. */
	until = soon(0).tv_sec + (seconds ? 1 + seconds / RUNS : RUN_SECONDS);
	putting = PUTTERS;
	CHECK(k->init(&q, capacity) == 0);
	team_run(PUTTERS + GETTERS, run_one);
	for (unsigned p = 0; p < PUTTERS; p++)
		for (unsigned n = 0; n < numbers; n++)
			CHECK(seen[p][n] == (n < put[p]));
	CHECK(k->count(&q) == 0);
	k->destroy(&q);
}

static void run_all(void)
{
	for (size_t i = 0; i < LENGTH(queue_kinds); i++)
		for (size_t c = 0; c < LENGTH(capacities); c++, seed += 1000) {
			k = queue_kinds[i];
			run(capacities[c]);
		}
}

int main(int argc, char **argv)
{
	time_t began = soon(0).tv_sec;

	seconds = argc == 3 && strcmp(argv[1], "--seconds") == 0 ? atoi(argv[2]) : 0;
	numbers = seconds ? MOST : unit_scale(3000);
	seed = seconds ? (uint64_t)getpid() << 20 : 1;
	printf("seed %llu\n", (unsigned long long)seed);
	unit_pin(0, NULL); /* it must know the CPUs before there are threads */
	unit_unpin();
	/* Signals are for the threads that put and get: without a mask the kernel prefers the main
	 * thread, which only waits. */
	mask_alarm(SIG_BLOCK);
	unit_timer(unit_slow() ? 50000 : 1000, on_alarm);
	do
		run_all();
	while (soon(0).tv_sec - began < (time_t)seconds);
	unit_timer(0, NULL);
	return 0;
}
