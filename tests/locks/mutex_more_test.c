/* SPDX-License-Identifier: MIT */
/* near_mutex: that no kind of waiter waits for long because of another kind, or of one that was
 * woken and does not come; the names of owners over forks; stops in threads that were cancelled. */
#include "played_waiters.h"

#include <fcntl.h>

/* ---- the test plays the waiters ---- */

static void play_awaiter(struct near_mutex *m, struct near__waiter *w, bool *flag)
{
	play(m, w, 0);
	w->kind = AWAITER;
	w->since = 0;
	w->condition = is_set;
	w->arg = flag;
}

/* An unlock by the test, which takes the mutex from the thread that has the reservation. */
static void unlock_again(struct near_mutex *m)
{
	m->word = me() | PARKED | AWAITED;
	near_mutex_unlock(m);
}

/* The awaiter's condition was found true, and the mutex reserved for an older waiter. */
static void pass_over(struct near_mutex *m, struct near__waiter *awaiter, bool *flag)
{
	struct near__waiter first;

	play(m, &first, 2 * MS);
	play_awaiter(m, awaiter, flag);
	unlock_again(m);
	assert_true(has_reservation(m, &first));
	assert_true(awaiter->true_since);
}

static void the_older_of_both_kinds_comes_first(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct near__waiter second, awaiter;
	bool flag = true;

	pass_over(&m, &awaiter, &flag);
	play(&m, &second, 0);
	usleep(2000); /* the second is old now; the awaiter is older */
	unlock_again(&m);
	assert_true(has_reservation(&m, &awaiter));
	unlock_again(&m);
	assert_true(has_reservation(&m, &second));
	assert_int_equal(waiters_of(&m), 0);
}

static void what_became_false_has_no_age(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct near__waiter second, third, awaiter;
	bool flag = true;

	pass_over(&m, &awaiter, &flag);
	flag = false;
	play(&m, &second, 2 * MS);
	play(&m, &third, 2 * MS);
	unlock_again(&m);
	assert_true(has_reservation(&m, &second));
	assert_false(awaiter.true_since);
	flag = true;
	near__lot_bucket(&m)->handoff_of = NULL; /* as if it were long ago */
	unlock_again(&m);
	assert_true(has_reservation(&m, &third));
	unlock_again(&m);
	assert_true(has_reservation(&m, &awaiter));
}

static void the_old_do_not_wait_for_one_on_its_way(void **state)
{
	struct near_mutex m = {me() | PARKED | WAKING};
	struct near__waiter w;
	unsigned unlocks = 0;

	play(&m, &w, 2 * MS);
	do {
		near_mutex_unlock(&m);
		unlocks++;
	} while (unlocks < 100 && !(word_of(&m) & RESERVED) && near_mutex_try_lock(&m));
	assert_true(has_reservation(&m, &w));
	assert_in_range(unlocks, 1, 32);
}

/* A thread that relied on a designated waker, and now is one itself, keeps its place. */
static void who_no_longer_relies_keeps_its_place(void **state)
{
	struct near_mutex m = {me() | PARKED | WAKING};
	struct near__waiter later;
	struct near__bucket *b;
	struct waiter w;
	bool is_first;

	start_lockers(&w, 1, &m, NULL);
	play(&m, &later, 0);
	UNTIL(!(word_of(&m) & WAKING));
	b = near__lot_lock(&m);
	is_first = near__lot_first(b, &m, NEAR__SPACE_MUTEX) != &later;
	near__lot_unlock(b);
	near_mutex_unlock(&m);
	expect(&w, 0);
	assert_true(is_first);
	assert_true(was_woken(&later));
}

/* ---- threads ---- */

#define WORKERS 8

static struct {
	struct near_mutex m;
	bool ready, done; /* guarded by the mutex */
	unsigned sections;
} shop;

/* Each waits for more than a millisecond, behind the others. */
static void *work(void *unused)
{
	bool done;

	do {
		near_mutex_lock(&shop.m);
		shop.sections += shop.ready;
		usleep(300);
		done = shop.done;
		near_mutex_unlock(&shop.m);
	} while (!done);
	return unused;
}

static void *await_it(void *unused)
{
	near_mutex_lock(&shop.m);
	near_mutex_await(&shop.m, is_set, &shop.ready);
	shop.done = true;
	near_mutex_unlock(&shop.m);
	return unused;
}

/* How many sections there are after the condition became true. */
static unsigned sections_beside_await(void)
{
	pthread_t awaiter, workers[WORKERS];

	memset(&shop, 0, sizeof(shop));
	awaiter = unit_start(await_it, NULL);
	wait_for_waits(&shop.m, NEAR__SPACE_MUTEX, 1);
	for (unsigned i = 0; i < WORKERS; i++)
		workers[i] = unit_start(work, NULL);
	usleep(20000);
	near_mutex_lock(&shop.m);
	shop.ready = true;
	near_mutex_unlock(&shop.m);
	unit_join(awaiter);
	for (unsigned i = 0; i < WORKERS; i++)
		unit_join(workers[i]);
	return shop.sections;
}

/* Threads that waited before it may come first, and none twice: once each before it, once each
 * after it; and threads that arrive while none is old. The mutex is reserved for some time only: on
 * a busy machine a thread can come too late for it. */
static void await_is_bounded_beside_old_lockers(void **state)
{
	unsigned sections = sections_beside_await();

	if (unit_emulated()) /* which runs threads in turns of its own */
		return;
	for (int i = 0; sections > 10 * WORKERS && i < 10; i++)
		sections = sections_beside_await();
	assert_in_range(sections, 0, 10 * WORKERS);
}

/* ---- names ---- */

static struct near_mutex held, other;

static void *lock_and_unlock(void *m)
{
	near_mutex_lock(m);
	near_mutex_unlock(m);
	return NULL;
}

static void a_name_that_another_thread_got_is_its_own(void **state)
{
	uint32_t name = me();

	near_mutex_lock(&held);
	DIES("near_mutex_unlock: another thread holds the mutex") {
		CHECK(near_mutex_is_mine(&held));
		near__owner_drop_former(name);
		CHECK(!near_mutex_is_mine(&held));
		near_mutex_unlock(&held);
	}
	IN_CHILD() {
		near__owner_drop_former(name);
		CHECK(!near_mutex_is_mine(&held));
		lock_and_unlock(&other);
		unit_join(unit_start(lock_and_unlock, &other));
	}
	near_mutex_unlock(&held);
}

/* The next thread gets the number `last + 1`. */
static bool number_threads_from(int last)
{
	int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", last);
	bool done = fd >= 0 && write(fd, text, (size_t)n) == n;

	if (fd >= 0)
		close(fd);
	return done;
}

struct namesake {
	pid_t wanted;
	bool holds; /* atomic */
};

static void *hold_for_long(void *arg)
{
	struct namesake *n = arg;

	if (syscall(SYS_gettid) != n->wanted)
		_exit(77);
	near_mutex_lock(&other);
	__atomic_store_n(&n->holds, true, __ATOMIC_RELEASE);
	usleep(10000);
	near_mutex_unlock(&other);
	return NULL;
}

/* The daemon, whose parent is gone, in a namespace of its own numbers. */
static void meet_the_namesake(pid_t parent)
{
	struct namesake n = {.wanted = parent};
	pthread_t t;

	while (getppid() == parent)
		usleep(100);
	usleep(10000); /* until its number is free */
	if (!number_threads_from(parent - 1))
		_exit(77);
	t = unit_start(hold_for_long, &n);
	UNTIL(__atomic_load_n(&n.holds, __ATOMIC_ACQUIRE));
	CHECK(!near_mutex_is_mine(&other));
	near_mutex_lock(&other);
	near_mutex_unlock(&other);
	unit_join(t);
	_exit(0);
}

/* The first of the namespace, which its orphans come to. */
static void begin_numbers(void)
{
	pid_t parent = fork();
	int status = 0;

	CHECK(parent >= 0);
	if (parent == 0) {
		pid_t self = getpid();

		lock_and_unlock(&other);
		if (fork() == 0)
			meet_the_namesake(self);
		_exit(0);
	}
	CHECK(waitpid(parent, NULL, 0) == parent);
	CHECK(wait(&status) > 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void the_parents_number_comes_again(void **state)
{
	IN_CHILD() { /* ends with 77 if it has no right to number threads */
		pid_t first;

		if (unshare(CLONE_NEWPID))
			_exit(77);
		first = fork();
		CHECK(first >= 0);
		if (first == 0)
			begin_numbers();
		_exit(unit_wait(first, NULL));
	}
}

/* ---- stops ---- */

static void *unlock_cancelled(void *unused)
{
	CHECK(pthread_cancel(pthread_self()) == 0);
	near_mutex_unlock(&other);
	return unused;
}

static void a_cancelled_thread_stops_all_the_same(void **state)
{
	DIES("near_mutex_unlock: the mutex is not held")
		unit_join(unit_start(unlock_cancelled, NULL));
}

UNIT_MAIN(the_older_of_both_kinds_comes_first, what_became_false_has_no_age,
	  the_old_do_not_wait_for_one_on_its_way, who_no_longer_relies_keeps_its_place,
	  await_is_bounded_beside_old_lockers, a_name_that_another_thread_got_is_its_own,
	  the_parents_number_comes_again, a_cancelled_thread_stops_all_the_same)
