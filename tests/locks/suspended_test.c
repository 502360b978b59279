/* SPDX-License-Identifier: MIT */
/* A thread that is suspended while it waits, here by its own signal handler, keeps nothing from the
 * others: no wake-up, no lock, no unit, no element. */
#include "mutex_waiters.h"

#include <nearcpu/fifo.h>
#include <nearcpu/park.h>
#include <nearcpu/thrsleep.h>
#include <nearcpu/queue.h>
#include <signal.h>

static bool is_suspended; /* atomic */

/* SIGUSR2 waits for sigsuspend: before, it would be lost. */
static void suspend(int signal)
{
	int saved = errno;
	sigset_t all, others;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	others = all;
	sigdelset(&others, SIGUSR2);
	__atomic_store_n(&is_suspended, true, __ATOMIC_RELEASE);
	sigsuspend(&others); /* its errno is EINTR */
	errno = saved;
}

static void resume(int signal)
{
}

/* Returns when the thread is in its queue and suspended: a wake-up does not reach it. It was asleep
 * before: one that waits for a condition enters the queue while it has the mutex. */
static void start_suspended(struct waiter *w)
{
	start_waiter(w);
	is_suspended = false;
	CHECK(pthread_kill(w->thread, SIGUSR1) == 0);
	unit_await(&is_suspended);
}

static void resume_waiter(struct waiter *w)
{
	CHECK(pthread_kill(w->thread, SIGUSR2) == 0);
}

/* ---- other kinds of waits ---- */

static struct near_mutex m;
static struct near_cond c;
static struct near_sem s;
static struct near_rwlock l;
static struct near_barrier three = NEAR_BARRIER_INIT(3);
static struct near_queue queue;
static struct near_fifo fifo;
static char place[64];
static bool is_ready; /* guarded by m */

static bool ready(void *unused)
{
	return is_ready;
}

static int enter_ready(struct waiter *w)
{
	return enter_await_of(w, ready);
}

static int enter_thr(struct waiter *w)
{
	return near_thrsleep(w->on, w->clock, w->deadline, NULL, NULL);
}

static int enter_queue(struct waiter *w)
{
	void *element;

	return near_queue_get(&queue, &element);
}

static int enter_fifo(struct waiter *w)
{
	void *element;

	return near_fifo_get(&fifo, &element);
}

/* Writers wait for the lock's mutex, which is at its address. */
static const struct wait_kind wait_to_write = {NEAR__SPACE_MUTEX, enter_writer, leave_writer},
			      wait_ready = {NEAR__SPACE_MUTEX, enter_ready, NULL},
			      wait_thr = {NEAR__SPACE_THR, enter_thr, NULL},
			      wait_queue = {NEAR__SPACE_QUEUE, enter_queue, NULL},
			      wait_fifo = {NEAR__SPACE_COND, enter_fifo, NULL};

/* ---- the second waiter gets it ---- */

static void wake_mutex(void)
{
	near_mutex_unlock(&m);
}

static void wake_fairly(void)
{
	near_mutex_unlock_fair(&m);
}

static void wake_old(void)
{
	usleep(2000); /* more than NEAR__PATIENCE_NS */
	near_mutex_unlock(&m);
}

static void make_ready(void)
{
	near_mutex_lock(&m);
	is_ready = true;
	near_mutex_unlock(&m);
}

static void signal_it(void)
{
	near_cond_signal(&c);
}

static void signal_locked(void)
{
	near_mutex_lock(&m);
	near_cond_signal(&c);
	near_mutex_unlock(&m);
}

static void broadcast_locked(void)
{
	near_mutex_lock(&m);
	near_cond_broadcast(&c);
	near_mutex_unlock(&m);
}

static void broadcast(void)
{
	near_cond_broadcast(&c);
}

static void post(void)
{
	near_sem_post(&s);
}

static void post_old(void)
{
	usleep(2000);
	near_sem_post(&s);
}

static void end_writing(void)
{
	near_rwlock_write_unlock(&l);
}

static void arrive(void)
{
	near_barrier_wait(&three);
}

static void wake_thr(void)
{
	assert_int_equal(near_thrwakeup(place, 1), 0);
}

static void put_queue(void)
{
	assert_int_equal(near_queue_put(&queue, place), 0);
}

static void put_fifo(void)
{
	assert_int_equal(near_fifo_put(&fifo, place), 0);
}

/* The first waiter is suspended when the one wake-up comes. `again`: it needs a second one. */
static void the_second_gets_it(struct waiter like, void (*wake)(void), void (*again)(void))
{
	struct waiter first = like, second = like;

	start_suspended(&first);
	start_waiter(&second);
	wake();
	expect(&second, 0);
	resume_waiter(&first);
	if (again)
		again();
	expect(&first, 0);
}

static void of_a_mutex(void **state)
{
	struct waiter w = {.kind = &wait_mutex, .on = &m};

	near_mutex_lock(&m);
	the_second_gets_it(w, wake_mutex, NULL);
	near_mutex_lock(&m);
	the_second_gets_it(w, wake_old, NULL);
	near_mutex_lock(&m);
	the_second_gets_it(w, wake_fairly, NULL);
	assert_true(is_at_rest(&m));
}

static void of_await(void **state)
{
	is_ready = false;
	the_second_gets_it((struct waiter){.kind = &wait_ready, .on = &m}, make_ready, NULL);
	assert_true(is_at_rest(&m));
}

static void of_a_cond(void **state)
{
	struct waiter w = {.kind = &wait_cond, .on = &c, .m = &m};

	the_second_gets_it(w, signal_it, NULL);
	the_second_gets_it(w, signal_locked, NULL);
	the_second_gets_it(w, broadcast, NULL);
	the_second_gets_it(w, broadcast_locked, NULL);
	assert_true(is_at_rest(&m));
}

static void of_a_semaphore(void **state)
{
	struct waiter w = {.kind = &wait_sem, .on = &s};

	the_second_gets_it(w, post, post);
	the_second_gets_it(w, post_old, post);
	assert_int_equal(near_sem_read(&s), 0);
}

static void of_a_rwlock(void **state)
{
	near_rwlock_write_lock(&l);
	the_second_gets_it((struct waiter){.kind = &wait_to_write, .on = &l}, end_writing, NULL);
}

static void of_parking(void **state)
{
	the_second_gets_it((struct waiter){.kind = &wait_thr, .on = place}, wake_thr, NULL);
}

static void of_a_barrier(void **state)
{
	the_second_gets_it((struct waiter){.kind = &wait_barrier, .on = &three}, arrive, NULL);
}

static void of_queues(void **state)
{
	assert_int_equal(near_queue_init(&queue, 64), 0);
	the_second_gets_it((struct waiter){.kind = &wait_queue, .on = &queue.state}, put_queue,
			   put_queue);
	near_queue_destroy(&queue);
	assert_int_equal(near_fifo_init(&fifo, 64), 0);
	the_second_gets_it((struct waiter){.kind = &wait_fifo, .on = &fifo.elements}, put_fifo,
			   put_fifo);
	near_fifo_destroy(&fifo);
}

/* ---- threads that come later ---- */

/* The suspended one is the designated waker, perhaps with a reservation. */
static void leave_to_a_suspended_waiter(struct waiter *w, void (*unlock)(void))
{
	*w = (struct waiter){.kind = &wait_mutex, .on = &m};
	near_mutex_lock(&m);
	start_suspended(w);
	unlock();
	assert_int_equal(waits_of(w), 0);
	assert_true(m.word & WAKING);
}

static void a_mutex_goes_on(void **state)
{
	static void (*const unlocks[])(void) = {wake_mutex, wake_old, wake_fairly};

	for (size_t i = 0; i < LENGTH(unlocks); i++) {
		struct waiter w, later[2];

		leave_to_a_suspended_waiter(&w, unlocks[i]);
		near_mutex_lock(&m);
		start_waiters(later, 2, (struct waiter){.kind = &wait_mutex, .on = &m});
		near_mutex_unlock(&m);
		expect(&later[0], 0);
		expect(&later[1], 0);
		near_mutex_lock(&m);
		near_mutex_unlock(&m);
		resume_waiter(&w);
		expect(&w, 0);
		assert_int_equal(m.word & ~(PARKED | ATOMIC_UNLOCK), 0);
	}
}

/* The first of both sleepers has a deadline that does not end the wait. */
static void a_semaphore_goes_on(void **state)
{
	static void (*const posts[])(void) = {post, post_old};

	for (size_t i = 0; i < LENGTH(posts); i++) {
		struct timespec far = wait_in_ms(CLOCK_REALTIME, 1000000);
		struct waiter w = {.kind = &wait_sem, .on = &s}, later = w;

		later.clock = CLOCK_REALTIME;
		later.deadline = &far;
		start_suspended(&w);
		posts[i]();
		near_sem_wait(&s);
		start_waiter(&later);
		near_sem_post(&s);
		expect(&later, 0);
		resume_waiter(&w);
		near_sem_post(&s);
		expect(&w, 0);
		assert_int_equal(near_sem_read(&s), 0);
	}
}

/* ---- what an unpark reports ---- */

static void an_unpark_reports_who_was_awake(void **state)
{
	struct waiter first = {.kind = &wait_park, .on = place}, second = first;
	struct near_unpark one = {.wake = 1};
	struct near_unparked found;

	start_suspended(&first);
	start_waiter(&second);
	assert_int_equal(near_unpark_with(place, &one, &found), 0);
	assert_int_equal(found.woken, 1);
	assert_int_equal(found.awake, 1);
	assert_true(found.more);
	assert_int_equal(near_unpark(place, 1, 0), 1);
	expect(&second, 0);
	resume_waiter(&first);
	expect(&first, 0);
}

/* ThreadSanitizer runs handlers when the thread does something else than wait. */
__attribute__((constructor)) static void need_handlers(void)
{
	if (UNIT_THREAD_SANITIZER)
		_exit(77);
}

static int begin(void **state)
{
	unit_on_signal(SIGUSR1, suspend);
	unit_on_signal(SIGUSR2, resume);
	return 0;
}

int main(void)
{
	static int (*const machines[])(void **) = {few_cpus, many_cpus};
	int failed = 0;

	for (size_t i = 0; i < LENGTH(machines); i++) {
		machines[i](NULL);
		failed += UNIT_GROUP(begin, NULL, NULL, of_a_mutex, of_await, of_a_cond,
				     of_a_semaphore, of_a_rwlock, of_parking, of_a_barrier,
				     of_queues, a_mutex_goes_on, a_semaphore_goes_on,
				     an_unpark_reports_who_was_awake);
	}
	return failed;
}
