/* SPDX-License-Identifier: MIT */
/* near_lock: its states step by step, then the same by storm.
 *
 * Threads other than the main one do not assert: they leave what they saw for it to check. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include <nearcpu/lock.h>

#define LOCKED NEAR__LOCK_LOCKED
#define WAKING NEAR__LOCK_WAKING
#define INSIDE(n) ((uint64_t)(n)*NEAR__LOCK_ONE)
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t word_of(struct near_lock *lock)
{
	return __atomic_load_n(&lock->word, __ATOMIC_ACQUIRE);
}

static void set_word(struct near_lock *lock, uint64_t word)
{
	__atomic_store_n(&lock->word, word, __ATOMIC_RELEASE);
}

static void wait_for_word(struct near_lock *lock, uint64_t word)
{
	while (word_of(lock) != word)
		usleep(100);
}

static pthread_t start(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
	return thread;
}

static void join(pthread_t thread)
{
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* ---- states ---- */

static struct near_lock early_lock;
static bool early_was_free, early_is_free;

/* Runs before any constructor without a priority of its own, those of the library included. */
__attribute__((constructor(101))) static void use_before_constructors(void)
{
	near_lock_lock(&early_lock);
	early_was_free = !near_lock_try_lock(&early_lock);
	near_lock_unlock(&early_lock);
	early_is_free = near_lock_try_lock(&early_lock);
	near_lock_unlock(&early_lock);
}

static void zero_is_a_free_lock(void **state)
{
	struct near_lock lock = NEAR_LOCK_INIT;
	struct near_lock *allocated = calloc(1, sizeof(*allocated));

	assert_int_equal(sizeof(struct near_lock), 8);
	assert_int_equal(_Alignof(struct near_lock), 8);
	assert_int_equal(word_of(&lock), 0);
	assert_true(early_was_free && early_is_free);

	assert_non_null(allocated);
	near_lock_lock(allocated);
	assert_int_equal(word_of(allocated), INSIDE(1) | LOCKED);
	near_lock_unlock(allocated);
	assert_int_equal(word_of(allocated), 0);
	free(allocated);
}

/* Each of these words can be met by a thread that has not announced itself. */
static void lock_and_try_lock_keep_what_they_find(void **state)
{
	static const uint64_t free_words[] = {0, INSIDE(1), INSIDE(3), INSIDE(1) | WAKING,
					      INSIDE(3) | WAKING};
	struct near_lock lock = NEAR_LOCK_INIT;

	for (size_t i = 0; i < LENGTH(free_words); i++) {
		set_word(&lock, free_words[i]);
		assert_true(near_lock_try_lock(&lock));
		assert_int_equal(word_of(&lock), free_words[i] + INSIDE(1) + LOCKED);

		set_word(&lock, free_words[i]);
		near_lock_lock(&lock);
		assert_int_equal(word_of(&lock), free_words[i] + INSIDE(1) + LOCKED);

		assert_false(near_lock_try_lock(&lock));
		assert_int_equal(word_of(&lock), free_words[i] + INSIDE(1) + LOCKED);
	}
}

static void unlock_promises_once_to_wake(void **state)
{
	static const struct {
		uint64_t before, after;
	} steps[] = {
		{INSIDE(1) | LOCKED, 0},
		{INSIDE(2) | LOCKED, INSIDE(1) | WAKING},
		{INSIDE(9) | LOCKED, INSIDE(8) | WAKING},
		{INSIDE(2) | LOCKED | WAKING, INSIDE(1) | WAKING},
		{INSIDE(9) | LOCKED | WAKING, INSIDE(8) | WAKING},
	};
	struct near_lock lock;

	for (size_t i = 0; i < LENGTH(steps); i++) {
		set_word(&lock, steps[i].before);
		near_lock_unlock(&lock);
		assert_int_equal(word_of(&lock), steps[i].after);
	}
}

/* ---- sleepers ---- */

struct sleeper {
	struct near_lock *lock;
	struct near_lock_stats *stats;
	int *inside;     /* how many have been inside; written by the holder */
	bool *may_leave; /* NULL, or what the holder waits for */
	int signals;     /* written by the handler in this thread */
	int errno_before, errno_after;
	pthread_t thread;
};

static __thread struct sleeper *myself;

static void *sleep_for_lock(void *arg)
{
	struct sleeper *me = arg;

	myself = me;
	errno = me->errno_before;
	if (me->stats)
		near_lock_lock_counted(me->lock, me->stats);
	else
		near_lock_lock(me->lock);
	__atomic_store_n(me->inside, *me->inside + 1, __ATOMIC_RELEASE);
	while (me->may_leave && !__atomic_load_n(me->may_leave, __ATOMIC_ACQUIRE))
		usleep(100);
	errno = errno == me->errno_before ? errno : -1;
	near_lock_unlock(me->lock);
	me->errno_after = errno;
	return NULL;
}

/* Starts n sleepers on a lock that the caller holds; returns when all have announced themselves. */
static void start_sleepers(struct sleeper *sleepers, int n, struct sleeper like)
{
	like.errno_before = EXDEV;
	for (int i = 0; i < n; i++) {
		sleepers[i] = like;
		sleepers[i].thread = start(sleep_for_lock, &sleepers[i]);
	}
	wait_for_word(like.lock, INSIDE(n + 1) | LOCKED);
}

static void join_sleepers(struct sleeper *sleepers, int n)
{
	for (int i = 0; i < n; i++) {
		join(sleepers[i].thread);
		assert_int_equal(sleepers[i].errno_after, EXDEV);
	}
}

static void every_sleeper_gets_in(void **state)
{
	struct near_lock lock = NEAR_LOCK_INIT;
	struct sleeper sleepers[16];
	int inside = 0;

	for (int round = 0; round < 20; round++) {
		near_lock_lock(&lock);
		start_sleepers(sleepers, 16, (struct sleeper){.lock = &lock, .inside = &inside});
		assert_int_equal(inside, round * 16);
		near_lock_unlock(&lock);
		join_sleepers(sleepers, 16);
		assert_int_equal(inside, (round + 1) * 16);
		assert_int_equal(word_of(&lock), 0);
	}
}

static void a_sleeper_takes_the_promise_with_the_lock(void **state)
{
	struct near_lock lock = NEAR_LOCK_INIT;
	struct sleeper sleeper;
	bool may_leave = false;
	int inside = 0;

	near_lock_lock(&lock);
	start_sleepers(&sleeper, 1,
		       (struct sleeper){.lock = &lock, .inside = &inside, .may_leave = &may_leave});
	near_lock_unlock(&lock);
	wait_for_word(&lock, INSIDE(1) | LOCKED);
	__atomic_store_n(&may_leave, true, __ATOMIC_RELEASE);
	join_sleepers(&sleeper, 1);
	assert_int_equal(word_of(&lock), 0);
}

static void note_signal(int signal)
{
	if (myself)
		__atomic_fetch_add(&myself->signals, 1, __ATOMIC_RELAXED);
}

static void catch_signals(int flags)
{
	struct sigaction action = {.sa_handler = note_signal, .sa_flags = flags};

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

/* ThreadSanitizer holds a signal back until the thread calls something that it intercepts, and a
 * system call of our own is not. */
static void need_prompt_signals(void)
{
#if defined(__SANITIZE_THREAD__)
	skip();
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
	skip();
#endif
#endif
}

static void signal_once(struct sleeper *sleeper)
{
	int before = __atomic_load_n(&sleeper->signals, __ATOMIC_RELAXED);

	assert_int_equal(pthread_kill(sleeper->thread, SIGUSR1), 0);
	while (__atomic_load_n(&sleeper->signals, __ATOMIC_RELAXED) == before)
		sched_yield();
}

/* A sleeper that returns while another thread holds the lock and WAKING is set must clear it before
 * it sleeps again, or the holder's unlock wakes nobody. The signal brings it back; the test plays
 * the unlock that set WAKING, and the thread that then came first. */
static void a_sleeper_renews_the_promise_before_it_sleeps(void **state)
{
	struct near_lock lock = NEAR_LOCK_INIT;
	struct sleeper sleeper;
	int inside = 0;

	need_prompt_signals();
	catch_signals(0);
	near_lock_lock(&lock);
	start_sleepers(&sleeper, 1, (struct sleeper){.lock = &lock, .inside = &inside});
	__atomic_fetch_or(&lock.word, WAKING, __ATOMIC_RELAXED);
	signal_once(&sleeper);
	wait_for_word(&lock, INSIDE(2) | LOCKED);
	near_lock_unlock(&lock);
	join_sleepers(&sleeper, 1);
	assert_int_equal(inside, 1);
}

static void signals_neither_admit_nor_lose_a_sleeper(void **state)
{
	static const int flags[] = {0, SA_RESTART};
	struct near_lock lock = NEAR_LOCK_INIT;
	struct sleeper sleepers[4];
	int inside = 0;

	need_prompt_signals();
	for (size_t i = 0; i < LENGTH(flags); i++) {
		catch_signals(flags[i]);
		near_lock_lock(&lock);
		start_sleepers(sleepers, 4, (struct sleeper){.lock = &lock, .inside = &inside});
		for (int n = 0; n < 100; n++)
			signal_once(&sleepers[n % 4]);
		assert_int_equal(__atomic_load_n(&inside, __ATOMIC_ACQUIRE), 4 * i);
		assert_int_equal(word_of(&lock), INSIDE(5) | LOCKED);
		near_lock_unlock(&lock);
		join_sleepers(sleepers, 4);
		assert_int_equal(inside, 4 * (i + 1));
	}
}

/* ---- storms ---- */

struct storm {
	pthread_barrier_t begin;
	struct near_lock lock;
	struct near_lock_stats stats;
	int threads, sections;
	bool with_signals;
	unsigned long inside; /* guarded by lock, not atomic */
	unsigned long tried;  /* of these, by try_lock; guarded by lock */
	int overlaps;         /* times that somebody else was inside too */
	int occupied;
};

static void visit(struct storm *storm)
{
	if (__atomic_exchange_n(&storm->occupied, 1, __ATOMIC_RELAXED))
		__atomic_fetch_add(&storm->overlaps, 1, __ATOMIC_RELAXED);
	storm->inside++;
	__atomic_store_n(&storm->occupied, 0, __ATOMIC_RELAXED);
}

static void *rage(void *arg)
{
	struct storm *storm = arg;

	pthread_barrier_wait(&storm->begin);
	for (int i = 0; i < storm->sections; i++) {
		if (i % 4 == 3 && near_lock_try_lock(&storm->lock))
			storm->tried++;
		else
			near_lock_lock_counted(&storm->lock, &storm->stats);
		visit(storm);
		/* A holder that is switched out, now and then, drives the others to sleep. */
		if (i % 64 == 0)
			sched_yield();
		near_lock_unlock(&storm->lock);
		if (storm->with_signals && i % 16 == 0)
			raise(SIGUSR1);
	}
	return NULL;
}

/* An emulated machine is 20 to 50 times slower. */
static int scaled(int n)
{
	return getenv("NEAR_TEST_SLOW") ? n / 20 : n;
}

static void run_storm(int threads, int sections, bool with_signals)
{
	struct storm storm = {
		.threads = threads, .sections = sections, .with_signals = with_signals};
	struct near_lock_stats seen;
	pthread_t started[64];

	assert_int_equal(pthread_barrier_init(&storm.begin, NULL, threads), 0);
	for (int i = 0; i < threads; i++)
		started[i] = start(rage, &storm);
	for (int i = 0; i < threads; i++) {
		near_lock_stats_read(&storm.stats, &seen);
		join(started[i]);
	}
	pthread_barrier_destroy(&storm.begin);
	assert_int_equal(storm.overlaps, 0);
	assert_int_equal(storm.inside, (unsigned long)threads * sections);
	assert_int_equal(word_of(&storm.lock), 0);
	near_lock_stats_read(&storm.stats, &seen);
	assert_int_equal(seen.fast + seen.spun + seen.yielded + seen.slept,
			 storm.inside - storm.tried);
}

static void storms_of_2_to_64_threads(void **state)
{
	static const int threads[] = {2, 3, 4, 8, 16, 64};

	for (size_t i = 0; i < LENGTH(threads); i++)
		run_storm(threads[i], scaled(300000) / threads[i], false);
}

static void storm_with_signals(void **state)
{
	catch_signals(0);
	run_storm(8, scaled(10000), true);
}

/* ---- freeing ---- */

struct object {
	struct near_lock lock;
	int users; /* guarded by lock */
	bool mapped;
};

struct users {
	pthread_barrier_t barrier;
	struct object *object;
	int threads, rounds;
};

static struct object *new_object(int users, bool mapped)
{
	struct object *object = mapped ? mmap(NULL, sizeof(*object), PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
				       : malloc(sizeof(*object));

	if (!object || object == MAP_FAILED)
		return NULL;
	*object = (struct object){.users = users, .mapped = mapped};
	return object;
}

static void put_object(struct object *object)
{
	bool mapped, last;

	near_lock_lock(&object->lock);
	mapped = object->mapped;
	last = --object->users == 0;
	near_lock_unlock(&object->lock);
	if (last && mapped)
		munmap(object, sizeof(*object));
	else if (last)
		free(object);
}

static void *use_and_put(void *arg)
{
	struct users *users = arg;

	for (int round = 0; round < users->rounds; round++) {
		pthread_barrier_wait(&users->barrier);
		if (users->object)
			put_object(users->object);
		pthread_barrier_wait(&users->barrier);
	}
	return NULL;
}

/* An access after the unlocking instruction is a fault in the mapped rounds and a report of
 * AddressSanitizer in the others. */
static void the_last_user_frees_the_lock(void **state)
{
	struct users users = {.threads = 4, .rounds = 2000};
	pthread_t threads[4];
	int failed = 0;

	assert_int_equal(pthread_barrier_init(&users.barrier, NULL, users.threads + 1), 0);
	for (int i = 0; i < users.threads; i++)
		threads[i] = start(use_and_put, &users);
	for (int round = 0; round < users.rounds; round++) {
		users.object = new_object(users.threads, round % 2);
		failed += !users.object;
		pthread_barrier_wait(&users.barrier);
		pthread_barrier_wait(&users.barrier);
	}
	for (int i = 0; i < users.threads; i++)
		join(threads[i]);
	pthread_barrier_destroy(&users.barrier);
	assert_int_equal(failed, 0);
}

#if defined(__x86_64__)
/* Runs an unlock one instruction at a time. As soon as the word has changed, its page is withdrawn,
 * so that any later access is a fault; and system calls are counted. */
static struct {
	struct near_lock *lock;
	uint64_t before, after;
	int steps, calls;
} stepped;

static void note_step(int signal, siginfo_t *info, void *context)
{
	const unsigned char *next =
		(const unsigned char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	struct near_lock *lock = stepped.lock;

	stepped.steps++;
	stepped.calls += next[0] == 0x0f && next[1] == 0x05;
	if (lock && word_of(lock) != stepped.before) {
		stepped.after = word_of(lock);
		mprotect(lock, sizeof(*lock), PROT_NONE);
		stepped.lock = NULL;
	}
}

static void unlock_stepwise(struct near_lock *lock)
{
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\t" /* keep off the red zone */
			 "pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
			 "leaq 128(%%rsp), %%rsp" ::
				 : "memory", "cc");
	near_lock_unlock(lock);
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
			 "pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\t"
			 "leaq 128(%%rsp), %%rsp" ::
				 : "memory", "cc");
}

static void check_unlock_stepwise(uint64_t before, uint64_t after, int calls)
{
	struct near_lock *lock = mmap(NULL, sizeof(*lock), PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(lock, MAP_FAILED);
	set_word(lock, before);
	stepped.lock = lock;
	stepped.before = before;
	stepped.steps = stepped.calls = 0;
	unlock_stepwise(lock);
	if (!stepped.steps)
		skip(); /* valgrind and emulators do not trap */
	assert_null(stepped.lock);
	assert_int_equal(stepped.after, after);
	assert_int_equal(stepped.calls, calls);
	munmap(lock, sizeof(*lock));
}

static void unlock_lets_go_with_its_last_access(void **state)
{
	struct sigaction action = {.sa_sigaction = note_step, .sa_flags = SA_SIGINFO};
	struct near_lock warm = {INSIDE(2) | LOCKED};

	need_prompt_signals();
	near_lock_unlock(&warm); /* lets the dynamic linker do its part */
	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	check_unlock_stepwise(INSIDE(1) | LOCKED, 0, 0);
	check_unlock_stepwise(INSIDE(2) | LOCKED, INSIDE(1) | WAKING, 1);
	check_unlock_stepwise(INSIDE(3) | LOCKED | WAKING, INSIDE(2) | WAKING, 0);
}
#endif

/* ---- fork ---- */

static int exit_status(pid_t child)
{
	int status;

	assert_int_not_equal(child, -1);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void the_child_frees_a_lock_with_waiters(void **state)
{
	struct near_lock lock = NEAR_LOCK_INIT;
	struct sleeper sleepers[4];
	int inside = 0;
	pid_t child;

	near_lock_lock(&lock);
	start_sleepers(sleepers, 4, (struct sleeper){.lock = &lock, .inside = &inside});
	child = fork();
	if (child == 0) {
		near_lock_reset_in_child(&lock);
		if (word_of(&lock) != 0)
			_exit(1);
		near_lock_lock(&lock);
		if (near_lock_try_lock(&lock))
			_exit(2);
		near_lock_unlock(&lock);
		_exit(word_of(&lock) == 0 ? 0 : 3);
	}
	assert_int_equal(exit_status(child), 0);
	near_lock_unlock(&lock);
	join_sleepers(sleepers, 4);
	assert_int_equal(inside, 4);
	assert_int_equal(word_of(&lock), 0);
}

static struct near_lock waited;
static bool handler_runs, is_child;

/* As fork's handlers do it, in a thread that waits for the lock: INSIDE(1) is its announcement. */
static void fork_as_waiter(int signal)
{
	int saved = errno;
	pid_t child;

	__atomic_store_n(&handler_runs, true, __ATOMIC_RELEASE);
	near_lock_lock(&waited);
	child = fork();
	if (child == 0) {
		near_lock_reset_in_child(&waited);
		if (word_of(&waited) != INSIDE(1))
			_exit(2);
		is_child = true;
		errno = saved;
		return;
	}
	near_lock_unlock(&waited);
	if (exit_status(child) != 0)
		_exit(3);
	errno = saved;
}

static void *hold_while_main_waits(void *main_thread)
{
	near_lock_lock(&waited);
	__atomic_store_n(&handler_runs, false, __ATOMIC_RELEASE);
	wait_for_word(&waited, INSIDE(2) | LOCKED);
	pthread_kill(*(pthread_t *)main_thread, SIGUSR2);
	while (!__atomic_load_n(&handler_runs, __ATOMIC_ACQUIRE))
		usleep(100);
	near_lock_unlock(&waited);
	return NULL;
}

/* In the child the wait goes on, too. */
static void a_waiter_may_fork_in_a_handler(void **state)
{
	struct sigaction action = {.sa_handler = fork_as_waiter}, old;
	pthread_t self = pthread_self(), holder;

	need_prompt_signals();
	assert_int_equal(sigaction(SIGUSR2, &action, &old), 0);
	__atomic_store_n(&handler_runs, true, __ATOMIC_RELEASE);
	holder = start(hold_while_main_waits, &self);
	while (__atomic_load_n(&handler_runs, __ATOMIC_ACQUIRE))
		usleep(100);
	near_lock_lock(&waited);
	near_lock_unlock(&waited);
	if (is_child)
		_exit(word_of(&waited) != 0);
	join(holder);
	assert_int_equal(word_of(&waited), 0);
	sigaction(SIGUSR2, &old, NULL);
}

static struct near_lock fork_lock;
static unsigned long guarded, guarded_twin;
static bool fork_handlers_on, stop_forking;

static void before_fork(void)
{
	if (fork_handlers_on)
		near_lock_lock(&fork_lock);
}

static void after_fork_in_parent(void)
{
	if (fork_handlers_on)
		near_lock_unlock(&fork_lock);
}

static void after_fork_in_child(void)
{
	if (fork_handlers_on)
		near_lock_reset_in_child(&fork_lock);
}

static void *change_guarded(void *arg)
{
	while (!__atomic_load_n(&stop_forking, __ATOMIC_RELAXED)) {
		near_lock_lock(&fork_lock);
		guarded++;
		guarded_twin++;
		near_lock_unlock(&fork_lock);
	}
	return NULL;
}

/* Each child finds the lock free, and what it guards as a holder left it. */
static void fork_in_a_storm(void **state)
{
	pthread_t threads[4];
	int failed = 0;

	assert_int_equal(pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child), 0);
	fork_handlers_on = true;
	for (size_t i = 0; i < LENGTH(threads); i++)
		threads[i] = start(change_guarded, NULL);
	for (int i = 0; i < 30; i++) {
		pid_t child = fork();

		if (child == 0) {
			near_lock_lock(&fork_lock);
			near_lock_unlock(&fork_lock);
			_exit(word_of(&fork_lock) != 0 || guarded != guarded_twin);
		}
		failed += exit_status(child) != 0;
	}
	__atomic_store_n(&stop_forking, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < LENGTH(threads); i++)
		join(threads[i]);
	fork_handlers_on = false;
	assert_int_equal(failed, 0);
	assert_int_equal(word_of(&fork_lock), 0);
}

/* ---- statistics ---- */

static void stats_tell_how_the_lock_was_got(void **state)
{
	struct near_lock lock = NEAR_LOCK_INIT;
	struct near_lock_stats stats = {0}, seen;
	struct sleeper sleepers[3];
	int inside = 0;

	for (int i = 0; i < 5; i++) {
		near_lock_lock_counted(&lock, &stats);
		near_lock_unlock(&lock);
	}
	/* Free, but somebody is on the way: found so by the first look after a few pauses. */
	set_word(&lock, INSIDE(1) | WAKING);
	near_lock_lock_counted(&lock, &stats);
	set_word(&lock, 0);

	near_lock_lock(&lock);
	start_sleepers(sleepers, 3,
		       (struct sleeper){.lock = &lock, .stats = &stats, .inside = &inside});
	near_lock_unlock(&lock);
	join_sleepers(sleepers, 3);

	near_lock_stats_read(&stats, &seen);
	assert_int_equal(seen.fast, 5);
	assert_int_equal(seen.spun, 1);
	assert_int_equal(seen.yielded, 0);
	assert_int_equal(seen.slept, 3);
}

/* ---- misuse ---- */

static void run_with_stderr(void (*misuse)(void), int fd)
{
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	dup2(fd, 2);
	misuse();
	_exit(0);
}

static void assert_stops(void (*misuse)(void), const char *line)
{
	char text[4096];
	size_t length = 0;
	ssize_t got;
	int ends[2], status;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0)
		run_with_stderr(misuse, ends[1]);
	close(ends[1]);
	while ((got = read(ends[0], text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	close(ends[0]);
	text[length] = '\0';
	status = exit_status(child);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(text, line))
		fail_msg("expected an abort with \"%s\"; status %x, \"%s\"", line, status, text);
}

static void unlock_free(void)
{
	struct near_lock lock = NEAR_LOCK_INIT;

	near_lock_unlock(&lock);
}

static void unlock_twice(void)
{
	struct near_lock lock = NEAR_LOCK_INIT;

	near_lock_lock(&lock);
	near_lock_unlock(&lock);
	near_lock_unlock(&lock);
}

static void unlock_free_with_waiters(void)
{
	struct near_lock lock = {INSIDE(2) | WAKING};

	near_lock_unlock(&lock);
}

static void reset_free(void)
{
	struct near_lock lock = NEAR_LOCK_INIT;

	near_lock_reset_in_child(&lock);
}

static void misuse_stops_the_program(void **state)
{
	static const char not_held[] = "nearcpu: near_lock_unlock: the lock is not held\n";

	assert_stops(unlock_free, not_held);
	assert_stops(unlock_twice, not_held);
	assert_stops(unlock_free_with_waiters, not_held);
	assert_stops(reset_free, "nearcpu: near_lock_reset_in_child: "
				 "the lock was not held at the fork\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zero_is_a_free_lock),
		cmocka_unit_test(lock_and_try_lock_keep_what_they_find),
		cmocka_unit_test(unlock_promises_once_to_wake),
		cmocka_unit_test(every_sleeper_gets_in),
		cmocka_unit_test(a_sleeper_takes_the_promise_with_the_lock),
		cmocka_unit_test(a_sleeper_renews_the_promise_before_it_sleeps),
		cmocka_unit_test(signals_neither_admit_nor_lose_a_sleeper),
		cmocka_unit_test(storms_of_2_to_64_threads),
		cmocka_unit_test(storm_with_signals),
		cmocka_unit_test(the_last_user_frees_the_lock),
#if defined(__x86_64__)
		cmocka_unit_test(unlock_lets_go_with_its_last_access),
#endif
		cmocka_unit_test(the_child_frees_a_lock_with_waiters),
		cmocka_unit_test(a_waiter_may_fork_in_a_handler),
		cmocka_unit_test(fork_in_a_storm),
		cmocka_unit_test(stats_tell_how_the_lock_was_got),
		cmocka_unit_test(misuse_stops_the_program),
	};

	return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
