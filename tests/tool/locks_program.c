/* SPDX-License-Identifier: MIT */
/* Waits that nearcpu locks is to find: each scenario prints nothing, and waits a known number of
 * times, in functions of its own, for at least the time that is named.
 *
 * A thread waits as soon as it has tried to take what another one holds: the holder sleeps on from
 * when the waiter is known to be asleep in the kernel. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 20
#define PLACE __attribute__((noinline, noclone))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static _Atomic pid_t waiter;

static void check(int is_right, int line)
{
	if (!is_right) {
		fprintf(stderr, "line %d: %s\n", line, strerror(errno));
		_exit(9);
	}
}
#define CHECK(x) check(x, __LINE__)

static void sleep_ms(long ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&ts, &ts))
		;
}

static struct timespec after_ms(clockid_t clock, long ms)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	ts.tv_nsec += ms * 1000000;
	ts.tv_sec += ts.tv_nsec / 1000000000;
	ts.tv_nsec %= 1000000000;
	return ts;
}

/* Until the waiter sleeps, and then WAIT_MS more. */
static void let_wait(void)
{
	char path[64], state = 0;

	while (state != 'S') {
		FILE *f;

		sleep_ms(1);
		if (!atomic_load(&waiter))
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)atomic_load(&waiter));
		f = fopen(path, "r");
		CHECK(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1);
		fclose(f);
	}
	sleep_ms(WAIT_MS);
}

static pthread_t waits(void *(*function)(void *))
{
	pthread_t t;

	atomic_store(&waiter, 0);
	CHECK(!pthread_create(&t, NULL, function, NULL));
	return t;
}

static void begins(void)
{
	atomic_store(&waiter, (pid_t)syscall(SYS_gettid));
}

/* A malloc that locks, before any constructor. It never waits. */
void *__libc_malloc(size_t size);

void *malloc(size_t size)
{
	static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;
	void *block;

	while (pthread_mutex_trylock(&heap))
		;
	block = __libc_malloc(size);
	pthread_mutex_unlock(&heap);
	return block;
}

/* ---- mutexes ---- */

PLACE static void *mutex_place(void *unused)
{
	pthread_setname_np(pthread_self(), "mutex waiter");
	begins();
	CHECK(!pthread_mutex_lock(&mutex));
	CHECK(!pthread_mutex_unlock(&mutex));
	return unused;
}

PLACE static void mutex_holder(int n)
{
	while (n--) {
		pthread_t t;

		CHECK(!pthread_mutex_lock(&mutex));
		t = waits(mutex_place);
		let_wait();
		CHECK(!pthread_mutex_unlock(&mutex));
		CHECK(!pthread_join(t, NULL));
	}
}

/* Each kind of mutex: what it returns is as ever, and it is waited for once. */
static void mutex_kind(int type, int robust, int protocol, int shared)
{
	pthread_mutexattr_t a;

	CHECK(!pthread_mutexattr_init(&a) && !pthread_mutexattr_settype(&a, type) &&
	      !pthread_mutexattr_setrobust(&a, robust) &&
	      !pthread_mutexattr_setprotocol(&a, protocol) &&
	      !pthread_mutexattr_setpshared(&a, shared) && !pthread_mutex_init(&mutex, &a));
	CHECK(!pthread_mutex_lock(&mutex));
	if (type == PTHREAD_MUTEX_ERRORCHECK)
		CHECK(pthread_mutex_lock(&mutex) == EDEADLK);
	if (type == PTHREAD_MUTEX_RECURSIVE)
		CHECK(!pthread_mutex_lock(&mutex) && !pthread_mutex_unlock(&mutex));
	CHECK(!pthread_mutex_unlock(&mutex));
	if (type == PTHREAD_MUTEX_ERRORCHECK)
		CHECK(pthread_mutex_unlock(&mutex) == EPERM);
	mutex_holder(1);
}

static void mutex_kinds(void)
{
	mutex_kind(PTHREAD_MUTEX_NORMAL, 0, PTHREAD_PRIO_NONE, 1);
	mutex_kind(PTHREAD_MUTEX_RECURSIVE, 0, PTHREAD_PRIO_NONE, 0);
	mutex_kind(PTHREAD_MUTEX_ERRORCHECK, 0, PTHREAD_PRIO_NONE, 0);
	mutex_kind(PTHREAD_MUTEX_ADAPTIVE_NP, 0, PTHREAD_PRIO_NONE, 0);
	mutex_kind(PTHREAD_MUTEX_NORMAL, 1, PTHREAD_PRIO_NONE, 0);
	mutex_kind(PTHREAD_MUTEX_NORMAL, 0, PTHREAD_PRIO_INHERIT, 0);
}

/* Its owner dies while this thread waits. */
static _Atomic int is_locked;

static void *dies(void *unused)
{
	CHECK(!pthread_mutex_lock(&mutex));
	atomic_store(&is_locked, 1);
	let_wait();
	return unused;
}

static void mutex_robust(void)
{
	pthread_mutexattr_t a;
	pthread_t t;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&mutex, &a);
	t = waits(dies);
	while (!atomic_load(&is_locked))
		sleep_ms(1);
	begins();
	CHECK(pthread_mutex_lock(&mutex) == EOWNERDEAD);
	CHECK(!pthread_mutex_consistent(&mutex) && !pthread_mutex_unlock(&mutex));
	pthread_join(t, NULL);
}

PLACE static void *timed_place(void *unused)
{
	struct timespec at = after_ms(CLOCK_REALTIME, WAIT_MS);

	CHECK(pthread_mutex_timedlock(&mutex, &at) == ETIMEDOUT);
	at = after_ms(CLOCK_MONOTONIC, WAIT_MS);
	CHECK(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &at) == ETIMEDOUT);
	return unused;
}

static void mutex_timed(void)
{
	CHECK(!pthread_mutex_lock(&mutex));
	CHECK(!pthread_join(waits(timed_place), NULL));
	CHECK(!pthread_mutex_unlock(&mutex));
}

/* ---- rwlocks, condition variables, semaphores ---- */

PLACE static void *read_place(void *unused)
{
	begins();
	CHECK(!pthread_rwlock_rdlock(&rwlock));
	CHECK(!pthread_rwlock_unlock(&rwlock));
	return unused;
}

PLACE static void *write_place(void *unused)
{
	begins();
	CHECK(!pthread_rwlock_wrlock(&rwlock));
	CHECK(!pthread_rwlock_unlock(&rwlock));
	return unused;
}

static void rwlocks(void)
{
	pthread_t t;

	CHECK(!pthread_rwlock_wrlock(&rwlock));
	CHECK(pthread_rwlock_rdlock(&rwlock) == EDEADLK);
	t = waits(read_place);
	let_wait();
	CHECK(!pthread_rwlock_unlock(&rwlock) && !pthread_join(t, NULL));
	CHECK(!pthread_rwlock_rdlock(&rwlock) && !pthread_rwlock_rdlock(&rwlock));
	CHECK(!pthread_rwlock_unlock(&rwlock));
	t = waits(write_place);
	let_wait();
	CHECK(!pthread_rwlock_unlock(&rwlock) && !pthread_join(t, NULL));
}

static void cond_unlock(void *m)
{
	CHECK(!pthread_mutex_unlock(m));
}

PLACE static void *cond_place(void *unused)
{
	CHECK(!pthread_mutex_lock(&mutex));
	pthread_cleanup_push(cond_unlock, &mutex);
	begins();
	CHECK(!pthread_cond_wait(&cond, &mutex));
	pthread_cleanup_pop(1);
	return unused;
}

static void conds(void)
{
	struct timespec at;
	pthread_t t = waits(cond_place);

	let_wait();
	CHECK(!pthread_mutex_lock(&mutex) && !pthread_cond_signal(&cond) &&
	      !pthread_mutex_unlock(&mutex));
	CHECK(!pthread_join(t, NULL));
	CHECK(!pthread_mutex_lock(&mutex));
	at = after_ms(CLOCK_REALTIME, WAIT_MS);
	CHECK(pthread_cond_timedwait(&cond, &mutex, &at) == ETIMEDOUT);
	at = after_ms(CLOCK_MONOTONIC, WAIT_MS);
	CHECK(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &at) == ETIMEDOUT);
	CHECK(!pthread_mutex_unlock(&mutex));
}

PLACE static void *sem_place(void *unused)
{
	begins();
	CHECK(!sem_wait(&sem));
	return unused;
}

static void sems(void)
{
	struct timespec at;
	pthread_t t;

	CHECK(!sem_init(&sem, 0, 1));
	errno = EXDEV;
	CHECK(!sem_wait(&sem) && errno == EXDEV);
	t = waits(sem_place);
	let_wait();
	CHECK(!sem_post(&sem) && !pthread_join(t, NULL));
	at = after_ms(CLOCK_REALTIME, WAIT_MS);
	CHECK(sem_timedwait(&sem, &at) == -1 && errno == ETIMEDOUT);
	at = after_ms(CLOCK_MONOTONIC, WAIT_MS);
	CHECK(sem_clockwait(&sem, CLOCK_MONOTONIC, &at) == -1 && errno == ETIMEDOUT);
	at.tv_nsec = -1;
	CHECK(sem_timedwait(&sem, &at) == -1 && errno == EINVAL);
}

/* ---- what ends a wait otherwise ---- */

static void cancel_one(void *(*place)(void *))
{
	pthread_t t = waits(place);
	void *result;

	let_wait();
	CHECK(!pthread_cancel(t) && !pthread_join(t, &result) && result == PTHREAD_CANCELED);
}

static void cancels(void)
{
	CHECK(!sem_init(&sem, 0, 0));
	cancel_one(cond_place);
	cancel_one(sem_place);
	mutex_holder(1);
}

/* A handler waits while its thread waits. */
static void handler(int sig)
{
	struct timespec at = after_ms(CLOCK_REALTIME, WAIT_MS);

	(void)sig;
	CHECK(sem_timedwait(&sem, &at) == -1 && errno == ETIMEDOUT);
	errno = 0;
}

static void handlers(void)
{
	pthread_t t;

	CHECK(!sem_init(&sem, 0, 0));
	signal(SIGUSR1, handler);
	CHECK(!pthread_mutex_lock(&mutex));
	t = waits(mutex_place);
	let_wait();
	CHECK(!pthread_kill(t, SIGUSR1));
	sleep_ms(3 * WAIT_MS);
	CHECK(!pthread_mutex_unlock(&mutex) && !pthread_join(t, NULL));
}

static void forks(void)
{
	pid_t pid;

	mutex_holder(1);
	pid = fork();
	if (!pid) {
		mutex_holder(2);
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	mutex_holder(1);
}

static void killed(void)
{
	mutex_holder(2);
	raise(SIGKILL);
}

/* Until standard input ends: a line has one wait, and is answered. */
static void lines(void)
{
	char line[100];

	while (fgets(line, sizeof(line), stdin)) {
		mutex_holder(1);
		puts("done");
		fflush(stdout);
	}
}

static void free_locks(void)
{
	for (int i = 0; i < 1000; i++) {
		CHECK(!pthread_mutex_lock(&mutex) && !pthread_mutex_unlock(&mutex));
		CHECK(!pthread_rwlock_rdlock(&rwlock) && !pthread_rwlock_unlock(&rwlock));
		CHECK(!pthread_rwlock_wrlock(&rwlock) && !pthread_rwlock_unlock(&rwlock));
	}
}

/* Each of many mutexes is waited for once: more than the table has room for. */
static void many(void)
{
	for (int i = 0; i < 6000; i++) {
		struct timespec past = {1, 0};
		pthread_mutex_t *m = calloc(1, sizeof(*m));

		CHECK(m && !pthread_mutex_lock(m));
		CHECK(pthread_mutex_timedlock(m, &past) == ETIMEDOUT);
	}
}

/* More threads than have sums of their own, one after the other. */
static void *one_failure(void *unused)
{
	struct timespec past = {1, 0};

	CHECK(pthread_mutex_timedlock(&mutex, &past) == ETIMEDOUT);
	return unused;
}

static void threads(void)
{
	CHECK(!pthread_mutex_lock(&mutex));
	for (int i = 0; i < 3000; i++)
		CHECK(!pthread_join(waits(one_failure), NULL));
}

/* What is refused where nothing has to wait, as without the library. */
static void refused(void)
{
	const struct timespec bad = {1, -1}, good = {1, 0};

	CHECK(!sem_init(&sem, 0, 1));
	CHECK(sem_timedwait(&sem, &bad) == -1 && errno == EINVAL);
	CHECK(sem_clockwait(&sem, CLOCK_BOOTTIME, &good) == -1 && errno == EINVAL);
	CHECK(!sem_timedwait(&sem, &good));
	CHECK(pthread_rwlock_timedrdlock(&rwlock, &bad) == EINVAL);
	CHECK(pthread_rwlock_timedwrlock(&rwlock, &bad) == EINVAL);
	CHECK(pthread_rwlock_clockrdlock(&rwlock, CLOCK_BOOTTIME, &good) == EINVAL);
	CHECK(pthread_rwlock_clockwrlock(&rwlock, CLOCK_BOOTTIME, &good) == EINVAL);
	CHECK(pthread_mutex_clocklock(&mutex, CLOCK_BOOTTIME, &good) == EINVAL);
	CHECK(!pthread_mutex_timedlock(&mutex, &bad) && !pthread_mutex_unlock(&mutex));
}

static void mutex_three(void)
{
	mutex_holder(3);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {{"mutex", mutex_three}, {"kinds", mutex_kinds}, {"robust", mutex_robust},
		   {"timed", mutex_timed}, {"rwlocks", rwlocks},   {"conds", conds},
		   {"sems", sems},         {"cancels", cancels},   {"handlers", handlers},
		   {"forks", forks},       {"killed", killed},     {"lines", lines},
		   {"free", free_locks},   {"many", many},         {"threads", threads},
		   {"refused", refused}};

	for (size_t i = 0; argc == 2 && i < sizeof(all) / sizeof(*all); i++)
		if (strcmp(argv[1], all[i].name) == 0) {
			all[i].run();
			return 0;
		}
	return 2;
}
