/* SPDX-License-Identifier: MIT */
/* The threads that run concurrently with the workers of the stress test. */
#include "stress.h"

#include "mover.h"
#include "trim.h"

#include <time.h>

#define CHURN_STEPS 400
#define CHILD_STEPS 300
#define VFORK_STEPS 40
#define BURST 200

static bool stopped(void)
{
	return __atomic_load_n(&stress.stop, __ATOMIC_RELAXED);
}

static void note(unsigned *number)
{
	__atomic_fetch_add(number, 1, __ATOMIC_RELAXED);
}

static void rest(uint64_t *random, unsigned us)
{
	struct timespec t = {0, (long)(unit_random(random) % us) * (stress.slow ? 20000 : 1000)};

	nanosleep(&t, NULL);
}

static unsigned steps(unsigned n)
{
	return stress.slow ? n / 20 : n;
}

void stress_set_up(struct stress_worker *w, uint64_t seed)
{
	w->holder = (struct holder){w->blocks, STRESS_HELD, stress.shelves, STRESS_SHELVES, seed};
}

void *stress_work(void *worker)
{
	struct stress_worker *w = worker;

	__atomic_store_n(&w->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
	while (!stopped()) {
		holder_step(&w->holder);
		w->steps++;
	}
	__atomic_store_n(&w->tid, 0, __ATOMIC_RELAXED);
	holder_let_go(&w->holder);
	return NULL;
}

/* ---- threads that come and go ---- */

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* Destructors of threads free and allocate, too, and more than once. */
static void at_exit_of_thread(void *p)
{
	unsigned char *left = p;

	if (left[0]--)
		pthread_setspecific(key, realloc(left, 8 + left[0] * (size_t)100));
	else
		free(left);
}

static void make_key(void)
{
	CHECK(pthread_key_create(&key, at_exit_of_thread) == 0);
}

static void leave_something(void)
{
	unsigned char *left = malloc(8);

	pthread_once(&key_once, make_key);
	left[0] = UNIT_THREAD_SANITIZER ? 1 : 3; /* it has left in the last round */
	CHECK(pthread_setspecific(key, left) == 0);
}

static void *short_lived(void *worker)
{
	struct stress_worker *w = worker;

	leave_something();
	for (unsigned i = 0; i < steps(CHURN_STEPS); i++)
		holder_step(&w->holder);
	/* What it still has stays for the next thread to free. */
	return NULL;
}

void *stress_churn(void *unused)
{
	struct stress_worker *w = stress.churn;

	for (unsigned i = 0; i < STRESS_CHURN; i++)
		stress_set_up(&w[i], 100 + i);
	while (!stopped()) {
		for (unsigned i = 0; i < STRESS_CHURN; i++)
			w[i].thread = unit_start(short_lived, &w[i]);
		for (unsigned i = 0; i < STRESS_CHURN; i++)
			unit_join(w[i].thread);
		__atomic_fetch_add(&stress.churned, STRESS_CHURN, __ATOMIC_RELAXED);
	}
	for (unsigned i = 0; i < STRESS_CHURN; i++)
		holder_let_go(&w[i].holder);
	return NULL;
}

/* ---- children ---- */

/* What is on the shelves was allocated by any thread of the parent. A shelf that was busy at the
 * fork stays so. */
static void clear_shelves(void)
{
	for (unsigned i = 0; i < STRESS_SHELVES; i++) {
		struct block b = {NULL, 0, 0};

		if (shelf_exchange(&stress.shelves[i], &b))
			blocks_free(&b);
	}
}

static void be_forked(void *seed)
{
	static struct stress_worker alone, beside;
	pthread_t thread;

	stress_set_up(&alone, *(uint64_t *)seed);
	stress_set_up(&beside, *(uint64_t *)seed + 1);
	clear_shelves();
	if (!UNIT_THREAD_SANITIZER) /* which allows no thread there */
		thread = unit_start(short_lived, &beside);
	for (unsigned i = 0; i < steps(CHILD_STEPS); i++)
		holder_step(&alone.holder);
	if (!UNIT_THREAD_SANITIZER)
		unit_join(thread);
	malloc_trim(0);
	holder_let_go(&alone.holder);
	holder_let_go(&beside.holder);
	clear_shelves();
}

/* unit_fork flushes stdio and has an alarm; its exit status reports a fault in the child. */
void *stress_fork(void *unused)
{
	uint64_t random = 3;
	int signal, status;

	while (!stopped()) {
		signal = 0;
		status = unit_wait(unit_fork(be_forked, &random), &signal);
		if (status) {
			fprintf(stderr, "a forked child ended with %d, signal %d\n", status,
				signal);
			_exit(1);
		}
		note(&stress.forked);
		rest(&random, 3000);
	}
	return unused;
}

/* In the child: this thread's blocks, in the parent's memory, without a slot. */
static int be_vforked(struct stress_worker *w)
{
	for (unsigned i = 0; i < steps(VFORK_STEPS) + 2; i++)
		holder_step(&w->holder);
	if (unit_random(&w->holder.random) % 4 == 0)
		execl("/proc/self/exe", "stress", STRESS_NOTHING, (char *)NULL);
	return 0;
}

__attribute__((noinline)) static pid_t start_vforked(struct stress_worker *w)
{
	pid_t child = vfork();

	/* Not _exit: ThreadSanitizer would wait for the threads of its parent. */
	if (child == 0)
		syscall(SYS_exit_group, be_vforked(w));
	return child;
}

void *stress_vfork(void *worker)
{
	struct stress_worker *w = worker;
	pid_t child;

	while (!stopped()) {
		child = start_vforked(w);
		CHECK(child > 0 && unit_wait(child, NULL) == 0);
		note(&stress.vforked);
		for (unsigned i = 0; i < steps(VFORK_STEPS); i++)
			holder_step(&w->holder);
		rest(&w->holder.random, 2000);
	}
	holder_let_go(&w->holder);
	return NULL;
}

/* ---- others ---- */

/* Now one, now many in a row: what a drain may lose is lost within some ten nanoseconds. */
void *stress_trim(void *unused)
{
	uint64_t random = 4;

	while (!stopped()) {
		unsigned n = stress.slow || unit_random(&random) % 2 ? 1 : BURST;

		for (unsigned i = 0; i < n && !stopped(); i++) {
			malloc_trim(0);
			note(&stress.trimmed);
		}
		rest(&random, 1500);
	}
	return unused;
}

static pid_t any_worker(uint64_t *random)
{
	const pid_t *tid = &stress.workers[unit_random(random) % stress.n_workers].tid;

	return __atomic_load_n(tid, __ATOMIC_RELAXED);
}

void *stress_move(void *unused)
{
	struct mover m;
	pid_t tid;

	mover_begin(&m, 5);
	while (!stopped()) {
		tid = any_worker(&m.random);
		if (mover_bind(&m, tid))
			note(&stress.moved);
		rest(&m.random, 300);
		mover_release(&m, tid, 4);
	}
	return unused;
}

/* A handler may not allocate; that it runs is what aborts sequences. Now and then it stays, so that
 * the interrupted thread comes back on another CPU. */
static void on_signal(int signal)
{
	int saved = errno;
	unsigned n = __atomic_add_fetch(&stress.signals, 1, __ATOMIC_RELAXED);

	if (n % 8 == 0)
		sched_yield();
	errno = saved;
}

void stress_catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

void *stress_signal(void *unused)
{
	uint64_t random = 6;

	while (!stopped()) {
		pid_t tid = any_worker(&random);

		if (tid && syscall(SYS_tgkill, getpid(), tid, SIGUSR1) == 0)
			note(&stress.sent);
		if (unit_random(&random) % 4 == 0)
			rest(&random, 200);
	}
	return unused;
}
