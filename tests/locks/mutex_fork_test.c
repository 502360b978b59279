/* SPDX-License-Identifier: MIT */
/* near_mutex: misuse stops the program; what a forked child inherits; the names of owners over
 * forks. */
#include "mutex_waiters.h"

#include <fcntl.h>

/* ---- misuse ---- */

static struct near_mutex misused;

static void *unlock(void *m)
{
	near_mutex_unlock(m);
	return NULL;
}

static void *lock_and_unlock(void *m)
{
	near_mutex_lock(m);
	near_mutex_unlock(m);
	return NULL;
}

static void misuse_stops_with_one_line(void **state)
{
	static const char of_another[] = "near_mutex_unlock: another thread holds the mutex";
	bool flag = false;

	DIES("near_mutex_unlock: the mutex is not held")
		near_mutex_unlock(&misused);
	for (int locked_before = 0; locked_before < 2; locked_before++)
		DIES(of_another) {
			if (locked_before)
				unit_join(unit_start(lock_and_unlock, &misused));
			near_mutex_lock(&misused);
			unit_join(unit_start(unlock, &misused));
		}
	DIES("near_mutex_await: this thread does not hold the mutex")
		near_mutex_await(&misused, is_set, &flag);
	DIES("near_mutex_lock: this thread holds the mutex already") {
		near_mutex_lock(&misused);
		near_mutex_lock(&misused);
	}
	DIES("near_mutex_destroy: the mutex is held, or waited for") {
		near_mutex_lock(&misused);
		near_mutex_destroy(&misused);
	}
}

static void what_is_destroyed_stops_the_program(void **state)
{
	static const char line[] = "near_mutex: the mutex was destroyed";
	static const struct timespec past = {0, 0};
	struct near_mutex destroyed = NEAR_MUTEX_INIT;
	struct near_cond c = NEAR_COND_INIT;
	bool flag = false;

	near_mutex_destroy(&destroyed);
	DIES(line)
		near_mutex_lock(&destroyed);
	DIES(line)
		near_mutex_try_lock(&destroyed);
	DIES(line)
		near_mutex_lock_until(&destroyed, CLOCK_REALTIME, &past, NULL);
	DIES(line)
		near_mutex_unlock(&destroyed);
	DIES(line)
		near_mutex_unlock_fair(&destroyed);
	DIES(line)
		near_mutex_destroy(&destroyed);
	DIES("near_mutex_await: this thread does not hold the mutex")
		near_mutex_await(&destroyed, is_set, &flag);
	DIES("near_cond_wait: this thread does not hold the mutex")
		near_cond_wait(&c, &destroyed);
	assert_false(near_mutex_is_mine(&destroyed));
}

static void *unlock_cancelled(void *unused)
{
	CHECK(pthread_cancel(pthread_self()) == 0);
	near_mutex_unlock(&misused);
	return unused;
}

static void a_cancelled_thread_stops_all_the_same(void **state)
{
	DIES("near_mutex_unlock: the mutex is not held")
		unit_join(unit_start(unlock_cancelled, NULL));
}

/* ---- fork ---- */

static struct near_mutex forked;

/* The parent's WAKING is cleared in the child: else these would sleep forever. */
static void wake_in_child(void)
{
	struct waiter w[4];
	unsigned order = 0;

	CHECK(near_mutex_is_mine(&forked));
	near_mutex_unlock(&forked);
	CHECK(word_of(&forked) == 0);
	for (unsigned round = 0; round < 3; round++) {
		forked.word = round ? WAKING | PARKED : 0;
		near_mutex_lock(&forked);
		start_lockers(w, 4, &forked, &order);
		near_mutex_unlock(&forked);
		for (unsigned i = 0; i < 4; i++)
			unit_join(w[i].thread);
	}
	CHECK(order == 12);
	CHECK(word_of(&forked) == 0);
}

static void the_child_unlocks_what_its_thread_held(void **state)
{
	struct waiter w;

	if (UNIT_THREAD_SANITIZER)
		skip(); /* it lets no child have threads */
	near_mutex_lock(&forked);
	start_lockers(&w, 1, &forked, NULL);
	IN_CHILD()
		wake_in_child();
	assert_int_equal(waiters_of(&forked), 1);
	near_mutex_unlock(&forked);
	expect(&w, 0);
}

static void fork_again(void *levels)
{
	unsigned *left = levels;

	CHECK(near_mutex_is_mine(&forked));
	if ((*left)--)
		CHECK(unit_wait(unit_fork(fork_again, left), NULL) == 0);
	near_mutex_unlock(&forked);
	near_mutex_lock(&forked);
	near_mutex_unlock(&forked);
}

/* The deepest child recognizes the owner number of the first process. */
static void children_of_children_unlock_it_too(void **state)
{
	unsigned levels = NEAR__OWNER_FORMER - 1;

	near_mutex_lock(&forked);
	unit_in_child(fork_again, &levels);
	near_mutex_unlock(&forked);
}

static void a_child_does_not_wait_for_a_thread_of_the_parent(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	unsigned release = 0;
	struct waiter holder = {.kind = &wait_mutex, .on = &m, .release = &release};

	holder.thread = unit_start(run_waiter, &holder);
	UNTIL(word_of(&m));
	DIES("near_mutex_lock: the holder is a thread of the parent process, "
	     "which the fork did not copy")
		near_mutex_lock(&m);
	__atomic_store_n(&release, 1, __ATOMIC_RELEASE);
	expect(&holder, 0);
	assert_int_equal(word_of(&m), 0);
	near_mutex_lock(&m);
	DIES("near_mutex_lock: this thread holds the mutex already")
		near_mutex_lock(&m);
	near_mutex_unlock(&m);
}

/* The holder was copied by the fork, and has another number now. */
static void threads_of_the_child_wait_for_the_one_that_forked(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct waiter w;

	if (UNIT_THREAD_SANITIZER)
		skip();
	near_mutex_lock(&m);
	IN_CHILD() {
		start_lockers(&w, 1, &m, NULL);
		near_mutex_unlock(&m);
		unit_join(w.thread);
		CHECK(w.result == 0);
	}
	near_mutex_unlock(&m);
}

/* ---- names of owners ---- */

static struct near_mutex held, other;

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

int main(void)
{
	return UNIT_GROUP(few_cpus, NULL, NULL, misuse_stops_with_one_line,
			  what_is_destroyed_stops_the_program,
			  a_cancelled_thread_stops_all_the_same,
			  the_child_unlocks_what_its_thread_held,
			  a_child_does_not_wait_for_a_thread_of_the_parent,
			  children_of_children_unlock_it_too,
			  threads_of_the_child_wait_for_the_one_that_forked,
			  a_name_that_another_thread_got_is_its_own,
			  the_parents_number_comes_again);
}
