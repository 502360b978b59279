/* SPDX-License-Identifier: MIT */
/* near_watch with near_queue and near_fifo: which is notified, and how often; done and join; and
 * near_fifo's put_front. */
#include "kinds.h"
#include "queue/queue.h"
#include "waits.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

static const struct queue_kind *k; /* which of them, */
static union any_queue q;          /* and a new one for each test */
static struct near_watch one, two;

#define FOR_EACH(name)                                                                             \
	static void name##_of_kind(void);                                                          \
	static void name(void **state)                                                             \
	{                                                                                          \
		for (size_t i = 0; i < LENGTH(queue_kinds); i++) {                                 \
			k = queue_kinds[i];                                                        \
			assert_int_equal(k->init(&q, 8), 0);                                       \
			KEEPS_ERRNO(near_watch_init(&one, new_fd()));                              \
			near_watch_init(&two, new_fd());                                           \
			name##_of_kind();                                                          \
			KEEPS_ERRNO(near_watch_disarm(&one));                                      \
			near_watch_disarm(&two);                                                   \
			assert_int_equal(close(one.fd), 0);                                        \
			assert_int_equal(close(two.fd), 0);                                        \
			k->destroy(&q);                                                            \
		}                                                                                  \
	}                                                                                          \
	static void name##_of_kind(void)

static int new_fd(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	assert_true(fd >= 0);
	return fd;
}

/* How often since the last call. */
static uint64_t notifications(const struct near_watch *w)
{
	uint64_t n = 0;

	if (read(w->fd, &n, sizeof(n)) < 0)
		assert_int_equal(errno, EAGAIN);
	return n;
}

static void arm(struct near_watch *w)
{
	void *e;

	KEEPS_ERRNO(assert_int_equal(k->get_or_arm(&q, &e, w), -EAGAIN));
}

static void put(uintptr_t n)
{
	KEEPS_ERRNO(assert_int_equal(k->put(&q, element(n)), 0));
}

static void assert_gets(struct near_watch *w, uintptr_t n)
{
	void *e;

	KEEPS_ERRNO(assert_int_equal(w ? k->get_or_arm(&q, &e, w) : k->try_get(&q, &e), 0));
	assert_ptr_equal(e, element(n));
}

FOR_EACH(the_first_put_notifies_once)
{
	arm(&one);
	assert_int_equal(notifications(&one), 0);
	put(1);
	assert_int_equal(notifications(&one), 1);
	put(2);
	assert_int_equal(notifications(&one), 0);
	assert_gets(&one, 1);
	assert_gets(NULL, 2);
}

FOR_EACH(a_get_that_finds_an_element_arms_nothing)
{
	put(1);
	assert_gets(&one, 1);
	put(2);
	assert_int_equal(notifications(&one), 0);
	assert_gets(&one, 2);
	arm(&one);
	arm(&one); /* again: it is notified once */
	put(3);
	assert_int_equal(notifications(&one), 1);
	assert_gets(&one, 3);
}

FOR_EACH(a_batch_notifies_as_many_as_it_has_elements)
{
	void *const many[] = {element(1), element(2)};
	struct near_watch three;

	near_watch_init(&three, new_fd());
	arm(&one);
	arm(&two);
	arm(&three);
	assert_int_equal(k->try_put_many(&q, many, 2), 2);
	assert_int_equal(notifications(&one) + notifications(&two), 2);
	assert_int_equal(notifications(&three), 0);
	near_watch_disarm(&three);
	close(three.fd);
}

FOR_EACH(a_watch_that_disarms_notifies_the_next)
{
	arm(&one);
	arm(&two);
	near_watch_disarm(&one); /* was not notified */
	assert_int_equal(notifications(&two), 0);
	arm(&one);
	put(1);
	assert_int_equal(notifications(&two), 1);
	assert_int_equal(notifications(&one), 0);
	near_watch_disarm(&two);
	assert_int_equal(notifications(&one), 1);
	near_watch_disarm(&two);
	assert_int_equal(notifications(&one), 0);
	assert_gets(&one, 1);
}

FOR_EACH(close_notifies_all)
{
	void *e;

	arm(&one);
	arm(&two);
	k->close(&q);
	assert_int_equal(notifications(&one), 1);
	assert_int_equal(notifications(&two), 1);
	assert_int_equal(k->get_or_arm(&q, &e, &one), -EPIPE);
	k->close(&q);
	assert_int_equal(notifications(&one) + notifications(&two), 0);
}

FOR_EACH(several_queues_notify_one_descriptor)
{
	union any_queue other;
	void *e;

	assert_int_equal(k->init(&other, 2), 0);
	close(two.fd);
	two.fd = dup(one.fd);
	arm(&one);
	assert_int_equal(k->get_or_arm(&other, &e, &two), -EAGAIN);
	assert_int_equal(k->put(&other, element(5)), 0);
	assert_int_equal(notifications(&one), 1);
	arm(&one);
	assert_int_equal(k->get_or_arm(&other, &e, &two), 0);
	assert_ptr_equal(e, element(5));
	/* A watch that is armed elsewhere moves. */
	assert_int_equal(k->get_or_arm(&other, &e, &one), -EAGAIN);
	put(1);
	assert_int_equal(notifications(&one), 0);
	assert_gets(NULL, 1);
	near_watch_disarm(&one);
	k->destroy(&other);
}

static void *get_in_thread(void *arg)
{
	CHECK(k->get(&q, arg) == 0);
	return NULL;
}

static unsigned waiters(void)
{
	return k->is_fifo ? waits_on(&q.fifo.elements, NEAR__SPACE_COND) +
				    waits_on(&q.fifo.watched, NEAR__SPACE_QUEUE)
			  : waits_on(&q.queue.state, NEAR__SPACE_QUEUE);
}

FOR_EACH(threads_that_sleep_are_woken_too)
{
	void *e = NULL;
	pthread_t sleeper = unit_start(get_in_thread, &e);

	UNTIL(waiters() == 1);
	arm(&one);
	put(1);
	put(2); /* whichever the first was for */
	unit_join(sleeper);
	assert_int_equal(notifications(&one), 1);
	assert_int_equal(k->count(&q), 1);
}

FOR_EACH(a_child_notifies_no_parent)
{
	void *e;

	arm(&one);
	put(1);
	assert_gets(NULL, 1);
	arm(&two);
	IN_CHILD() {
		CHECK(k->put(&q, element(2)) == 0);
		CHECK(k->get(&q, &e) == 0);
		near_watch_disarm(&one);
		CHECK(k->get_or_arm(&q, &e, &two) == -EAGAIN);
		near_watch_init(&two, eventfd(0, EFD_NONBLOCK));
		CHECK(k->get_or_arm(&q, &e, &two) == -EAGAIN);
		CHECK(k->put(&q, element(3)) == 0);
		CHECK(notifications(&two) == 1);
	}
	assert_int_equal(notifications(&one), 1);
	assert_int_equal(notifications(&two), 0);
}

/* ---- a put at any moment ---- */

#define ROUNDS 20000u

static unsigned round_of_get; /* which the getter is in, or about to begin */

static void *put_in_rounds(void *unused)
{
	uint64_t random = 1;

	for (unsigned r = 1; r <= unit_scale(ROUNDS); r++) {
		for (unsigned n = 0; __atomic_load_n(&round_of_get, __ATOMIC_ACQUIRE) < r; n++)
			if (n > 1000)
				sched_yield();
		for (volatile unsigned n = unit_random(&random) % 256; n; n--)
			;
		CHECK(k->try_put(&q, element(r)) == 0);
	}
	return NULL;
}

FOR_EACH(no_put_is_missed)
{
	struct pollfd event = {.fd = one.fd, .events = POLLIN};
	pthread_t thread;
	void *e = NULL;

	__atomic_store_n(&round_of_get, 0, __ATOMIC_RELAXED);
	thread = unit_start(put_in_rounds, NULL);
	for (unsigned r = 1; r <= unit_scale(ROUNDS); r++) {
		__atomic_store_n(&round_of_get, r, __ATOMIC_RELEASE);
		while (k->get_or_arm(&q, &e, &one)) {
			assert_int_equal(poll(&event, 1, 60000), 1);
			notifications(&one);
		}
		assert_ptr_equal(e, element(r));
	}
	unit_join(thread);
}

/* A put succeeds with a descriptor that refuses the write, and errno is left alone. */
FOR_EACH(a_bad_descriptor_loses_no_element)
{
	int fd = one.fd;

	one.fd = -1;
	arm(&one);
	put(1);
	one.fd = open("/dev/null", O_RDONLY);
	assert_gets(&one, 1);
	arm(&one);
	put(2);
	assert_gets(&one, 2);
	close(one.fd);
	one.fd = fd;
}

FOR_EACH(destroy_finds_what_is_armed)
{
	DIES(k->is_fifo ? "near_fifo_destroy: a watch is armed"
			: "near_queue_destroy: threads wait, or a watch is armed") {
		arm(&one);
		k->destroy(&q);
	}
}

/* ---- done and join ---- */

static unsigned joiners(void)
{
	return k->is_fifo ? waits_on(&q.fifo.all_done, NEAR__SPACE_COND)
			  : waits_on(&q.queue.joiners, NEAR__SPACE_QUEUE);
}

static void *join_in_thread(void *arg)
{
	KEEPS_ERRNO(k->join(&q));
	CHECK(__atomic_load_n((bool *)arg, __ATOMIC_RELAXED));
	return NULL;
}

FOR_EACH(join_waits_for_what_was_put)
{
	struct timespec past = {0};
	bool all = false;
	pthread_t thread;

	k->join(&q);
	put(1);
	put(2);
	put(3);
	assert_int_equal(k->join_until(&q, CLOCK_MONOTONIC, &past, NULL), -ETIMEDOUT);
	thread = unit_start(join_in_thread, &all);
	UNTIL(joiners() == 1);
	assert_gets(NULL, 1);
	KEEPS_ERRNO(k->done(&q, 1));
	assert_gets(NULL, 2);
	assert_gets(NULL, 3);
	assert_int_equal(joiners(), 1); /* taken is not done */
	k->done(&q, 1);
	assert_int_equal(joiners(), 1);
	__atomic_store_n(&all, true, __ATOMIC_RELAXED);
	k->done(&q, 1);
	unit_join(thread);
	assert_int_equal(k->join_until(&q, CLOCK_MONOTONIC, &past, NULL), 0);
}

FOR_EACH(a_token_ends_a_join)
{
	struct near_cancel stop = NEAR_CANCEL_INIT;
	struct timespec bad = {.tv_nsec = -1};

	put(1);
	near_cancel_set(&stop);
	assert_int_equal(k->join_until(&q, CLOCK_MONOTONIC, NULL, &stop), -ECANCELED);
	assert_int_equal(k->join_until(&q, CLOCK_MONOTONIC, &bad, NULL), -EINVAL);
	assert_int_equal(k->join_until(&q, 77, &bad, NULL), -EINVAL);
	assert_int_equal(joiners(), 0);
}

FOR_EACH(no_more_is_done_than_was_put)
{
	put(1);
	assert_gets(NULL, 1);
	DIES(k->is_fifo ? "near_fifo_done: more are done than were put"
			: "near_queue_done: more are done than were put") {
		k->done(&q, 2);
		k->join(&q);
	}
}

/* ---- the front ---- */

static void elements_put_first_are_taken_next(void **state)
{
	struct near_fifo f;
	struct timespec past = {0};
	void *e;

	assert_int_equal(near_fifo_init(&f, 3), 0);
	for (uintptr_t round = 0; round < 7; round++) {
		assert_int_equal(near_fifo_put(&f, element(3)), 0);
		KEEPS_ERRNO(assert_int_equal(near_fifo_try_put_front(&f, element(2)), 0));
		assert_int_equal(near_fifo_put_front(&f, element(1)), 0);
		assert_int_equal(near_fifo_try_put_front(&f, element(0)), -EAGAIN);
		assert_int_equal(near_fifo_put_front_until(&f, NULL, CLOCK_MONOTONIC, &past, NULL),
				 -ETIMEDOUT);
		for (uintptr_t n = 1; n <= 3; n++) {
			assert_int_equal(near_fifo_get(&f, &e), 0);
			assert_ptr_equal(e, element(n));
		}
		assert_int_equal(near_fifo_put(&f, element(9)), 0); /* turn the ring */
		assert_int_equal(near_fifo_get(&f, &e), 0);
	}
	near_fifo_close(&f);
	assert_int_equal(near_fifo_try_put_front(&f, NULL), -EPIPE);
	near_fifo_destroy(&f);
}

UNIT_MAIN(the_first_put_notifies_once, a_get_that_finds_an_element_arms_nothing,
	  a_batch_notifies_as_many_as_it_has_elements, a_watch_that_disarms_notifies_the_next,
	  close_notifies_all, several_queues_notify_one_descriptor,
	  threads_that_sleep_are_woken_too, no_put_is_missed, a_child_notifies_no_parent,
	  a_bad_descriptor_loses_no_element, destroy_finds_what_is_armed,
	  join_waits_for_what_was_put, a_token_ends_a_join, no_more_is_done_than_was_put,
	  elements_put_first_are_taken_next)
