/* SPDX-License-Identifier: MIT */
/* near_queue and near_fifo: what both promise. Each test runs for each of them. The program is
 * linked with --wrap=near__topology_cpus. */
#include "slots.h"

#include "kinds.h"
#include "no_memory.h"
#include "queue/queue.h"
#include "waits.h"

static const struct queue_kind *k; /* which of them, */
static union any_queue q;          /* and a new one for each test */

#define FOR_EACH(name, capacity)                                                                   \
	static void name##_of_kind(void);                                                          \
	static void name(void **state)                                                             \
	{                                                                                          \
		for (size_t i = 0; i < LENGTH(queue_kinds); i++) {                                 \
			k = queue_kinds[i];                                                        \
			KEEPS_ERRNO(assert_int_equal(k->init(&q, capacity), 0));                   \
			name##_of_kind();                                                          \
			KEEPS_ERRNO(k->destroy(&q));                                               \
		}                                                                                  \
	}                                                                                          \
	static void name##_of_kind(void)

/* One slot, so that there is one order for near_queue, too. */
static void stay_here(void)
{
	slots_enter(3);
}

static void assert_gets(uintptr_t n)
{
	void *e;

	KEEPS_ERRNO(assert_int_equal(k->try_get(&q, &e), 0));
	assert_ptr_equal(e, element(n));
}

static void assert_empty(int error)
{
	void *e;

	KEEPS_ERRNO(assert_int_equal(k->try_get(&q, &e), error));
	assert_int_equal(k->count(&q), 0);
}

static void capacities_have_limits(void **state)
{
	assert_int_equal(near_queue_init(&q.queue, 0), -EINVAL);
	assert_int_equal(near_queue_init(&q.queue, NEAR_QUEUE_MAX_CAPACITY + 1), -E2BIG);
	assert_int_equal(near_queue_init(&q.queue, SIZE_MAX), -E2BIG);
	assert_int_equal(near_fifo_init(&q.fifo, 0), -EINVAL);
	assert_int_equal(near_fifo_init(&q.fifo, NEAR_FIFO_MAX_CAPACITY + 1), -E2BIG);
	assert_int_equal(near_fifo_init(&q.fifo, SIZE_MAX), -E2BIG);
	stay_here();
	for (size_t i = 0; i < LENGTH(queue_kinds); i++)
		for (size_t n = 1; n <= NEAR_QUEUE_MAX_CAPACITY;
		     n = n < 20 ? n + 1 : 4 * n + n % 3) {
			k = queue_kinds[i];
			assert_int_equal(k->init(&q, n), 0);
			for (size_t e = 0; e < n; e++)
				assert_int_equal(k->try_put(&q, element(e)), 0);
			assert_int_equal(k->try_put(&q, NULL), -EAGAIN);
			assert_int_equal(k->count(&q), n);
			for (size_t e = 0; e < n; e++)
				assert_gets(e);
			assert_empty(-EAGAIN);
			k->destroy(&q);
		}
	slots_leave();
}

static void a_fifo_needs_memory(void **state)
{
	int r;

	no_memory = true;
	KEEPS_ERRNO(r = near_fifo_init(&q.fifo, 3));
	no_memory = false;
	assert_int_equal(r, -ENOMEM);
}

FOR_EACH(elements_come_in_their_order, 5)
{
	uintptr_t in = 0, out = 0;
	uint64_t random = 1;

	stay_here();
	for (unsigned i = 0; i < 1000; i++) {
		if (unit_random(&random) % 2) {
			bool full = in - out == 5;

			KEEPS_ERRNO(
				assert_int_equal(k->try_put(&q, element(in)), full ? -EAGAIN : 0));
			in += !full;
		} else if (in > out) {
			assert_gets(out++);
		} else {
			assert_empty(-EAGAIN);
		}
		assert_int_equal(k->count(&q), in - out);
	}
	slots_leave();
}

FOR_EACH(batches_take_and_put_what_they_can, 6)
{
	void *in[8], *out[8] = {NULL};
	struct timespec past = {0, 0};

	stay_here();
	for (uintptr_t i = 0; i < 8; i++)
		in[i] = element(i);
	KEEPS_ERRNO(assert_int_equal(k->try_put_many(&q, in, 0), 0));
	assert_int_equal(k->try_get_many(&q, out, 0), 0);
	assert_int_equal(k->try_get_many(&q, out, 8), -EAGAIN);
	KEEPS_ERRNO(assert_int_equal(k->try_put_many(&q, in, 4), 4));
	KEEPS_ERRNO(assert_int_equal(k->try_get_many(&q, out, 3), 3));
	assert_memory_equal(in, out, 3 * sizeof(*in));
	assert_int_equal(k->try_put_many(&q, in, 8), 5);
	assert_int_equal(k->try_put_many(&q, in, 1), -EAGAIN);
	assert_int_equal(k->put_until(&q, in[0], CLOCK_MONOTONIC, &past, NULL), -ETIMEDOUT);
	assert_int_equal(k->get_many_until(&q, out, 8, CLOCK_MONOTONIC, &past, NULL), 6);
	assert_ptr_equal(out[0], in[3]);
	assert_memory_equal(in, out + 1, 5 * sizeof(*in));
	assert_int_equal(k->try_put_many(&q, in, 8), 6);
	k->close(&q);
	assert_int_equal(k->try_put_many(&q, in, 1), -EPIPE);
	assert_int_equal(k->try_put_many(&q, in, 0), 0);
	assert_int_equal(k->try_get_many(&q, out, SIZE_MAX), 6);
	assert_int_equal(k->try_get_many(&q, out, 8), -EPIPE);
	slots_leave();
}

FOR_EACH(a_closed_queue_is_drained, 4)
{
	struct near_cancel set = NEAR_CANCEL_INIT;
	void *e = NULL;

	near_cancel_set(&set);
	assert_int_equal(k->put(&q, element(1)), 0);
	assert_int_equal(k->put_until(&q, element(2), CLOCK_MONOTONIC, NULL, &set), 0);
	KEEPS_ERRNO(k->close(&q));
	assert_int_equal(k->try_put(&q, NULL), -EPIPE);
	assert_int_equal(k->put(&q, NULL), -EPIPE);
	k->close(&q);
	assert_int_equal(k->put_until(&q, NULL, CLOCK_MONOTONIC, NULL, &set), -EPIPE);
	assert_int_equal(k->count(&q), 2);
	KEEPS_ERRNO(assert_int_equal(k->get(&q, &e), 0));
	assert_int_equal(k->get_until(&q, &e, CLOCK_MONOTONIC, NULL, &set), 0);
	assert_empty(-EPIPE);
	assert_int_equal(k->get(&q, &e), -EPIPE);
	assert_int_equal(k->get_until(&q, &e, CLOCK_MONOTONIC, NULL, NULL), -EPIPE);
}

/* Fills the ring that this thread is on. */
static void fill(void)
{
	while (k->try_put(&q, element(1)) == 0)
		;
}

FOR_EACH(deadlines_and_tokens_end_waits, 2)
{
	struct timespec past = {0, 0}, no_time = {0, 1000000000}, soon;
	struct near_cancel set = NEAR_CANCEL_INIT;
	void *e;

	stay_here();
	near_cancel_set(&set);
	for (unsigned c = 0; c < LENGTH(wait_clocks); c++) {
		soon = wait_in_ms(wait_clocks[c], 2);
		KEEPS_ERRNO(assert_int_equal(k->get_until(&q, &e, wait_clocks[c], &soon, NULL),
					     -ETIMEDOUT));
		assert_true(wait_is_past(wait_clocks[c], soon));
	}
	assert_int_equal(k->get_until(&q, &e, CLOCK_MONOTONIC, &past, NULL), -ETIMEDOUT);
	assert_int_equal(k->get_until(&q, &e, CLOCK_MONOTONIC, NULL, &set), -ECANCELED);
	assert_int_equal(k->get_until(&q, &e, CLOCK_MONOTONIC, &no_time, NULL), -EINVAL);
	assert_int_equal(k->get_until(&q, &e, 4711, &past, NULL), -EINVAL);
	fill();
	soon = wait_in_ms(CLOCK_MONOTONIC, 2);
	KEEPS_ERRNO(
		assert_int_equal(k->put_until(&q, NULL, CLOCK_MONOTONIC, &soon, NULL), -ETIMEDOUT));
	assert_true(wait_is_past(CLOCK_MONOTONIC, soon));
	assert_int_equal(k->put_until(&q, NULL, CLOCK_MONOTONIC, NULL, &set), -ECANCELED);
	assert_int_equal(k->put_until(&q, NULL, CLOCK_MONOTONIC, &no_time, NULL), -EINVAL);
	assert_int_equal(k->count(&q), 2);
	slots_leave();
}

/* ---- threads that wait ---- */

static unsigned asleep(void)
{
	unsigned n = waits_on(&q.fifo.elements, NEAR__SPACE_COND) +
		     waits_on(&q.fifo.room, NEAR__SPACE_COND);

	if (k->is_fifo)
		return n;
	n = waits_on(&q.queue.state, NEAR__SPACE_QUEUE);
	for (unsigned s = 0; near_percpu_next(q.queue.p, &s); s++)
		n += waits_on(&ring_of(&q.queue, s)->putters, NEAR__SPACE_QUEUE);
	return n;
}

struct call {
	bool puts;
	struct near_cancel *cancel;
	void *e;
	int result;
	pthread_t thread;
};

static void *run_call(void *arg)
{
	struct call *c = arg;

	stay_here();
	if (c->puts)
		KEEPS_ERRNO(c->result = k->put_until(&q, c->e, 0, NULL, c->cancel));
	else
		KEEPS_ERRNO(c->result = k->get_until(&q, &c->e, 0, NULL, c->cancel));
	return NULL;
}

/* Returns when it sleeps. */
static struct call *start_call(struct call *c)
{
	unsigned before = asleep();

	c->thread = unit_start(run_call, c);
	UNTIL(asleep() == before + 1);
	return c;
}

static void expect(struct call *c, int result)
{
	unit_join(c->thread);
	assert_int_equal(c->result, result);
}

FOR_EACH(puts_wake_getters, 8)
{
	struct call c[4] = {{0}};
	uintptr_t sum = 0;
	void *two[] = {element(3), element(4)};

	for (unsigned i = 0; i < 4; i++)
		start_call(&c[i]);
	stay_here();
	assert_int_equal(k->try_put(&q, element(1)), 0);
	UNTIL(asleep() == 3);
	assert_int_equal(k->put(&q, element(2)), 0);
	UNTIL(asleep() == 2);
	assert_int_equal(k->try_put_many(&q, two, 2), 2);
	for (unsigned i = 0; i < 4; i++) {
		expect(&c[i], 0);
		sum += (uintptr_t)c[i].e;
	}
	assert_int_equal(sum, 10);
	slots_leave();
}

FOR_EACH(gets_wake_putters, 2)
{
	struct call c[3] = {{.puts = true, .e = element(10)},
			    {.puts = true, .e = element(20)},
			    {.puts = true, .e = element(30)}};
	void *out[2];

	stay_here();
	fill();
	for (unsigned i = 0; i < 3; i++)
		start_call(&c[i]);
	assert_gets(1);
	UNTIL(asleep() == 2);
	expect(&c[0], 0);
	assert_gets(1);
	UNTIL(asleep() == 1);
	expect(&c[1], 0);
	assert_int_equal(k->try_get_many(&q, out, 2), 2);
	expect(&c[2], 0);
	assert_ptr_equal(out[0], element(10));
	assert_ptr_equal(out[1], element(20));
	assert_gets(30);
	assert_empty(-EAGAIN);
	slots_leave();
}

FOR_EACH(a_token_ends_the_waits_that_name_it, 1)
{
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct call get = {.cancel = &token}, other = {0};
	struct call put = {.puts = true, .cancel = &token};

	start_call(&get);
	start_call(&other);
	near_cancel_set(&token);
	expect(&get, -ECANCELED);
	assert_int_equal(asleep(), 1);
	assert_int_equal(k->put(&q, element(5)), 0);
	expect(&other, 0);
	assert_ptr_equal(other.e, element(5));
	near_cancel_reset(&token);
	stay_here();
	fill();
	start_call(&put);
	near_cancel_set(&token);
	expect(&put, -ECANCELED);
	assert_gets(1);
	assert_empty(-EAGAIN);
	slots_leave();
}

FOR_EACH(close_wakes_all, 1)
{
	struct call get[2] = {{0}}, put[2] = {{.puts = true}, {.puts = true}};

	start_call(&get[0]);
	start_call(&get[1]);
	k->close(&q);
	expect(&get[0], -EPIPE);
	expect(&get[1], -EPIPE);
	k->destroy(&q);
	assert_int_equal(k->init(&q, 1), 0);
	stay_here();
	fill();
	start_call(&put[0]);
	start_call(&put[1]);
	k->close(&q);
	expect(&put[0], -EPIPE);
	expect(&put[1], -EPIPE);
	assert_gets(1);
	assert_empty(-EPIPE);
	slots_leave();
}

static void ignore_signal(int signal)
{
}

FOR_EACH(handlers_end_waits_that_say_so, 1)
{
	struct timespec later = wait_in_ms(CLOCK_MONOTONIC, 600000);
	void *e;

	unit_timer(unit_slow() ? 50000 : 1000, ignore_signal);
	assert_int_equal(k->get_until(&q, &e, CLOCK_MONOTONIC | NEAR_INTERRUPTIBLE, &later, NULL),
			 -EINTR);
	unit_timer(0, NULL);
}

/* ---- fork ---- */

FOR_EACH(a_child_has_its_own_elements, 4)
{
	struct call waits = {0};
	void *e;

	start_call(&waits);
	IN_CHILD() {
		CHECK(k->try_get(&q, &e) == -EAGAIN);
		CHECK(k->put(&q, element(7)) == 0);
		CHECK(k->get(&q, &e) == 0 && e == element(7));
		k->close(&q);
		CHECK(k->get(&q, &e) == -EPIPE);
		k->destroy(&q);
	}
	assert_int_equal(k->put(&q, element(8)), 0);
	expect(&waits, 0);
	assert_int_equal(k->put(&q, element(9)), 0);
	IN_CHILD()
		CHECK(k->get(&q, &e) == 0 && e == element(9));
	assert_gets(9);
}

UNIT_MAIN(capacities_have_limits, a_fifo_needs_memory, elements_come_in_their_order,
	  batches_take_and_put_what_they_can, a_closed_queue_is_drained,
	  deadlines_and_tokens_end_waits, puts_wake_getters, gets_wake_putters,
	  a_token_ends_the_waits_that_name_it, close_wakes_all, handlers_end_waits_that_say_so,
	  a_child_has_its_own_elements)
