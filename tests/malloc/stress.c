/* SPDX-License-Identifier: MIT */
/* The stress test: its workers, and the threads that run concurrently with them. */
#include "stress.h"

#include "blocks.h"
#include "mover.h"
#include "use.h"

#define CHURN 6 /* threads at a time that come and go */
#define HELD 96
#define SHELVES 64

struct worker {
	struct holder holder;
	struct block blocks[HELD];
	pthread_t thread;
	pid_t tid; /* atomic: for the threads that move and signal it */
	uint64_t steps;
};

static struct {
	struct worker workers[STRESS_WORKERS], churn[CHURN], vforks;
	struct shelf shelves[SHELVES];
	unsigned n_workers;
	bool stop, slow;
	/* How often. Signals are counted by their handler. */
	unsigned churned, forked, vforked, trimmed, moved, signals;
} stress;

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

static void set_up(struct worker *w, uint64_t seed)
{
	w->holder = (struct holder){w->blocks, HELD, stress.shelves, SHELVES, seed};
}

static void work(struct worker *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		holder_step(&w->holder);
}

static void *work_on(void *worker)
{
	struct worker *w = worker;

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
	leave_something();
	work(worker, steps(CHURN_STEPS));
	/* What it still has stays for the next thread to free. */
	return NULL;
}

static void churn(uint64_t *unused)
{
	struct worker *w = stress.churn;

	for (unsigned i = 0; i < CHURN; i++)
		w[i].thread = unit_start(short_lived, &w[i]);
	for (unsigned i = 0; i < CHURN; i++)
		unit_join(w[i].thread);
	__atomic_fetch_add(&stress.churned, CHURN, __ATOMIC_RELAXED);
}

/* ---- children ---- */

/* What is on the shelves was allocated by any thread of the parent. A shelf that was busy at the
 * fork stays so. */
static void clear_shelves(void)
{
	for (unsigned i = 0; i < SHELVES; i++) {
		struct block b = {NULL, 0, 0};

		if (shelf_exchange(&stress.shelves[i], &b))
			blocks_free(&b);
	}
}

static void be_forked(void *seed)
{
	static struct worker alone, beside;
	pthread_t thread;

	set_up(&alone, *(uint64_t *)seed);
	set_up(&beside, *(uint64_t *)seed + 1);
	clear_shelves();
	if (!UNIT_THREAD_SANITIZER) /* which allows no thread there */
		thread = unit_start(short_lived, &beside);
	work(&alone, steps(CHILD_STEPS));
	if (!UNIT_THREAD_SANITIZER)
		unit_join(thread);
	malloc_trim(0);
	holder_let_go(&alone.holder);
	holder_let_go(&beside.holder);
	clear_shelves();
}

/* unit_fork flushes stdio and has an alarm; its exit status reports a fault in the child. */
static void fork_one(uint64_t *random)
{
	int signal = 0, status = unit_wait(unit_fork(be_forked, random), &signal);

	if (status) {
		fprintf(stderr, "a forked child ended with %d, signal %d\n", status, signal);
		_exit(1);
	}
	note(&stress.forked);
	rest(random, 3000);
}

/* In the child: this thread's blocks, in the parent's memory, without a slot. */
static int be_vforked(struct worker *w)
{
	work(w, steps(VFORK_STEPS) + 2);
	if (unit_random(&w->holder.random) % 4 == 0)
		execl("/proc/self/exe", "stress", STRESS_NOTHING, (char *)NULL);
	return 0;
}

__attribute__((noinline)) static pid_t start_vforked(struct worker *w)
{
	pid_t child = vfork();

	/* Not _exit: ThreadSanitizer would wait for the threads of its parent. */
	if (child == 0)
		syscall(SYS_exit_group, be_vforked(w));
	return child;
}

static void vfork_one(uint64_t *random)
{
	pid_t child = start_vforked(&stress.vforks);

	CHECK(child > 0 && unit_wait(child, NULL) == 0);
	note(&stress.vforked);
	work(&stress.vforks, steps(VFORK_STEPS));
	rest(random, 2000);
}

/* ---- others ---- */

/* Now one, now many in a row: what a drain may lose is lost within some ten nanoseconds. */
static void trim(uint64_t *random)
{
	unsigned n = stress.slow || unit_random(random) % 2 ? 1 : BURST;

	for (unsigned i = 0; i < n && !stopped(); i++) {
		malloc_trim(0);
		note(&stress.trimmed);
	}
	rest(random, 1500);
}

static struct mover mover;

static pid_t any_worker(uint64_t *random)
{
	const pid_t *tid = &stress.workers[unit_random(random) % stress.n_workers].tid;

	return __atomic_load_n(tid, __ATOMIC_RELAXED);
}

static void move_one(uint64_t *random)
{
	pid_t tid = any_worker(random);

	if (mover_bind(&mover, tid))
		note(&stress.moved);
	rest(random, 300);
	mover_release(&mover, tid, 4);
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

static void signal_one(uint64_t *random)
{
	pid_t tid = any_worker(random);

	if (tid)
		syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
	if (unit_random(random) % 4 == 0)
		rest(random, 200);
}

/* ---- all of them ---- */

static void sleep_on(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static void print_stress(void)
{
	unsigned long steps = 0;

	for (unsigned i = 0; i < stress.n_workers; i++)
		steps += stress.workers[i].steps;
	print_message("%lu steps, %u signals, %u threads came and went, %u moved, %u forks, "
		      "%u vforks, %u trims\n",
		      steps, stress.signals, stress.churned, stress.moved, stress.forked,
		      stress.vforked, stress.trimmed);
}

static void begin(unsigned n, uint64_t seed)
{
	memset(&stress, 0, sizeof(stress));
	stress.slow = blocks_slow = getenv("NEAR_TEST_SLOW") || unit_emulated();
	stress.n_workers = n;
	signal(SIGUSR1, on_signal);
	mover_begin(&mover, 5);
	set_up(&stress.vforks, seed);
	for (unsigned i = 0; i < CHURN; i++)
		set_up(&stress.churn[i], 100 + i);
	for (unsigned i = 0; i < n; i++) {
		set_up(&stress.workers[i], seed * 1000 + i);
		stress.workers[i].thread = unit_start(work_on, &stress.workers[i]);
	}
}

/* What a thread of its own does over and over. ThreadSanitizer knows no child of vfork that does
 * more than exec. */
static void (*const tasks[])(uint64_t *random) = {
	churn,    trim,       move_one,
	fork_one, signal_one, UNIT_THREAD_SANITIZER ? signal_one : vfork_one};

static void *repeat(void *arg)
{
	void (*const *task)(uint64_t * random) = arg;
	uint64_t random = (uint64_t)(task - tasks);

	while (!stopped())
		(*task)(&random);
	return NULL;
}

static void on_hang(int signal)
{
	static const char line[] = "the stress does not end: a thread or a child hangs\n";

	if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
		_exit(3);
	_exit(1);
}

/* This detects children that hang, too, since a thread waits for them. */
static void watch(unsigned ms)
{
	signal(SIGALRM, on_hang);
	alarm(2 * ms / 1000 + (stress.slow ? 200 : 30));
}

void stress_run(unsigned workers, unsigned ms)
{
	static uint64_t seed;
	pthread_t threads[LENGTH(tasks)];

	begin(workers, ++seed);
	watch(ms);
	for (size_t i = 0; i < LENGTH(tasks); i++)
		threads[i] = unit_start(repeat, (void *)(uintptr_t)&tasks[i]);
	sleep_on(ms);
	__atomic_store_n(&stress.stop, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < LENGTH(tasks); i++)
		unit_join(threads[i]);
	for (unsigned i = 0; i < workers; i++)
		unit_join(stress.workers[i].thread);
	alarm(0);
	for (unsigned i = 0; i < CHURN; i++)
		holder_let_go(&stress.churn[i].holder);
	holder_let_go(&stress.vforks.holder);
	clear_shelves();
	print_stress();
}
