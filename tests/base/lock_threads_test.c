/* SPDX-License-Identifier: MIT */
/* near_lock with many threads: stress tests, the last user frees the lock, unlocks one instruction
 * at a time, forks. */
#include "sleepers.h"

#include <ucontext.h>

#include "team.h"

/* ---- stress ---- */

static struct stress {
	pthread_barrier_t begin;
	struct near_lock lock;
	int sections;
	bool with_signals;
	unsigned long inside; /* guarded by lock, not atomic */
	int overlaps;         /* times that another thread was inside too */
	int occupied;
} stress;

static void visit(void)
{
	if (__atomic_exchange_n(&stress.occupied, 1, __ATOMIC_RELAXED))
		__atomic_fetch_add(&stress.overlaps, 1, __ATOMIC_RELAXED);
	stress.inside++;
	__atomic_store_n(&stress.occupied, 0, __ATOMIC_RELAXED);
}

static void enter_often(unsigned number)
{
	pthread_barrier_wait(&stress.begin);
	for (int i = 0; i < stress.sections; i++) {
		if (i % 4 != 3 || !near_lock_try_lock(&stress.lock))
			near_lock_lock(&stress.lock);
		visit();
		/* A holder that is switched out, now and then, drives the others to sleep. */
		if (i % 64 == 0)
			sched_yield();
		near_lock_unlock(&stress.lock);
		if (stress.with_signals && i % 16 == 0)
			raise(SIGUSR1);
	}
}

/* An emulated machine is 20 to 50 times slower. */
static int scaled(int n)
{
	return getenv("NEAR_TEST_SLOW") ? n / 20 : n;
}

static void run_stress(unsigned threads, int sections, bool with_signals)
{
	struct team team;

	stress = (struct stress){.sections = sections, .with_signals = with_signals};
	assert_int_equal(pthread_barrier_init(&stress.begin, NULL, threads), 0);
	team_start(&team, threads, enter_often);
	team_join(&team);
	pthread_barrier_destroy(&stress.begin);
	assert_int_equal(stress.overlaps, 0);
	assert_int_equal(stress.inside, (unsigned long)threads * sections);
	assert_int_equal(word_of(&stress.lock), 0);
}

static void stress_of_2_to_64_threads(void **state)
{
	static const int threads[] = {2, 3, 4, 8, 16, 64};

	for (size_t i = 0; i < LENGTH(threads); i++)
		run_stress(threads[i], scaled(300000) / threads[i], false);
}

static void stress_with_signals(void **state)
{
	catch_signals(0);
	run_stress(8, scaled(10000), true);
}

/* ---- freeing ---- */

struct object {
	struct near_lock lock;
	int users; /* guarded by lock */
	bool mapped;
};

#define USERS 4
#define ROUNDS 2000
static pthread_barrier_t turn;
static struct object *object; /* of this round */

static struct object *new_object(bool mapped)
{
	struct object *o = mapped ? unit_map(sizeof(*o), MAP_PRIVATE) : malloc(sizeof(*o));

	CHECK(o);
	*o = (struct object){.users = USERS, .mapped = mapped};
	return o;
}

static void put_object(struct object *o)
{
	bool mapped, last;

	near_lock_lock(&o->lock);
	mapped = o->mapped;
	last = --o->users == 0;
	near_lock_unlock(&o->lock);
	if (last && mapped)
		munmap(o, sizeof(*o));
	else if (last)
		free(o);
}

static void use_and_put(unsigned number)
{
	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&turn);
		put_object(object);
		pthread_barrier_wait(&turn);
	}
}

/* An access after the unlocking instruction is a fault in the mapped rounds and a report of
 * AddressSanitizer in the others. */
static void the_last_user_frees_the_lock(void **state)
{
	struct team team;

	assert_int_equal(pthread_barrier_init(&turn, NULL, USERS + 1), 0);
	team_start(&team, USERS, use_and_put);
	for (int round = 0; round < ROUNDS; round++) {
		object = new_object(round % 2);
		pthread_barrier_wait(&turn);
		pthread_barrier_wait(&turn);
	}
	team_join(&team);
	pthread_barrier_destroy(&turn);
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

/* Sets or clears the flag that traps after each instruction. Keeps off the red zone. */
#define CHANGE_TRAP_FLAG(change)                                                                   \
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"                                             \
			 "pushfq\n\t" change ", (%%rsp)\n\tpopfq\n\t"                              \
			 "leaq 128(%%rsp), %%rsp" ::                                               \
				 : "memory", "cc")

static void unlock_stepwise(struct near_lock *lock)
{
	CHANGE_TRAP_FLAG("orq $0x100");
	near_lock_unlock(lock);
	CHANGE_TRAP_FLAG("andq $~0x100");
}

static void check_unlock_stepwise(uint64_t before, uint64_t after, int calls)
{
	struct near_lock *lock = unit_map(sizeof(*lock), MAP_PRIVATE);

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

static void unlock_releases_with_its_last_access(void **state)
{
	struct sigaction action = {.sa_sigaction = note_step, .sa_flags = SA_SIGINFO};
	struct near_lock warm = {INSIDE(2) | LOCKED};

	need_prompt_signals();
	near_lock_unlock(&warm); /* the dynamic linker resolves it */
	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	check_unlock_stepwise(INSIDE(1) | LOCKED, 0, 0);
	check_unlock_stepwise(INSIDE(2) | LOCKED, INSIDE(1) | WAKING, 1);
	check_unlock_stepwise(INSIDE(3) | LOCKED | WAKING, INSIDE(2) | WAKING, 0);
}
#else
static void unlock_releases_with_its_last_access(void **state)
{
	skip();
}
#endif

/* ---- fork ---- */

static void the_child_frees_a_lock_with_waiters(void **state)
{
	start_sleepers(4);
	IN_CHILD() {
		near_lock_reset_in_child(&shared.lock);
		CHECK(word_of(&shared.lock) == 0);
		near_lock_lock(&shared.lock);
		CHECK(!near_lock_try_lock(&shared.lock));
		near_lock_unlock(&shared.lock);
		CHECK(word_of(&shared.lock) == 0);
	}
	wake_sleepers(4);
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
	if (unit_wait(child, NULL) != 0)
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
	struct sigaction action = {.sa_handler = fork_as_waiter};
	pthread_t self = pthread_self(), holder;

	need_prompt_signals();
	assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
	__atomic_store_n(&handler_runs, true, __ATOMIC_RELEASE);
	holder = unit_start(hold_while_main_waits, &self);
	while (__atomic_load_n(&handler_runs, __ATOMIC_ACQUIRE))
		usleep(100);
	near_lock_lock(&waited);
	near_lock_unlock(&waited);
	if (is_child)
		_exit(word_of(&waited) != 0);
	unit_join(holder);
	assert_int_equal(word_of(&waited), 0);
	unit_on_signal(SIGUSR2, SIG_DFL);
}

static struct near_lock fork_lock;
static unsigned long guarded, guarded_twin;
static bool fork_handlers_on;

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

static void change_guarded(unsigned number)
{
	while (team_continues()) {
		near_lock_lock(&fork_lock);
		guarded++;
		guarded_twin++;
		near_lock_unlock(&fork_lock);
	}
}

/* Each child finds the lock free, and what it guards as a holder left it. */
static void fork_under_stress(void **state)
{
	struct team team;

	assert_int_equal(pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child), 0);
	fork_handlers_on = true;
	team_start(&team, 4, change_guarded);
	for (int i = 0; i < 30; i++)
		IN_CHILD() {
			near_lock_lock(&fork_lock);
			near_lock_unlock(&fork_lock);
			CHECK(word_of(&fork_lock) == 0 && guarded == guarded_twin);
		}
	team_stop(&team);
	fork_handlers_on = false;
	assert_int_equal(word_of(&fork_lock), 0);
}

UNIT_MAIN(stress_of_2_to_64_threads, stress_with_signals, the_last_user_frees_the_lock,
	  unlock_releases_with_its_last_access, the_child_frees_a_lock_with_waiters,
	  a_waiter_may_fork_in_a_handler, fork_under_stress)
