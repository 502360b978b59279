/* SPDX-License-Identifier: MIT */
/* Programs with and without the background thread; background_test.py runs them. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			printf("%s:%d: %s is false\n", __FILE__, __LINE__, #x);                    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define BLOCKS 40000
#define SIZE 1000
#define LARGE 5000

/* More than a small stack has. */
static __thread char storage[(size_t)256 << 10];

static void *much[BLOCKS];

static unsigned threads(void)
{
	struct stat s;

	CHECK(stat("/proc/self/task", &s) == 0);
	return s.st_nlink - 2;
}

static long resident(void)
{
	long all, resident;
	FILE *f = fopen("/proc/self/statm", "r");

	CHECK(f && fscanf(f, "%ld %ld", &all, &resident) == 2);
	fclose(f);
	return resident * sysconf(_SC_PAGESIZE);
}

static void *work(void *arg)
{
	void **block = malloc(BLOCKS * sizeof(*block));

	for (int i = 0; i < BLOCKS; i++)
		block[i] = memset(malloc(SIZE), 1, SIZE);
	for (int i = 0; i < BLOCKS; i++)
		free(block[i]);
	free(block);
	memset(storage, 1, sizeof(storage));
	return NULL;
}

static void run_thread(void)
{
	pthread_t t;

	CHECK(pthread_create(&t, NULL, work, NULL) == 0);
	CHECK(pthread_join(t, NULL) == 0);
	/* The kernel counts it for a moment. */
}

static void wait_for_threads(unsigned n)
{
	while (threads() != n)
		usleep(1000);
}

/* Without a deadline: the time limit of the test applies. */
static void idle(void)
{
	run_thread();
	CHECK(resident() > BLOCKS * SIZE / 2);
	while (resident() > BLOCKS * SIZE / 2)
		usleep(10000);
}

static void single(void)
{
	work(NULL);
	CHECK(threads() == 1);
}

static void none(void)
{
	run_thread();
	wait_for_threads(1);
}

static void child(void)
{
	int status;

	run_thread();
	wait_for_threads(2);
	if (fork() == 0) {
		CHECK(threads() == 1);
		run_thread();
		wait_for_threads(1);
		exit(0);
	}
	CHECK(wait(&status) > 0 && status == 0);
}

static void *work_much(void *unused)
{
	for (int i = 0; i < BLOCKS; i++)
		much[i] = memset(malloc(LARGE), 1, LARGE);
	for (int i = 0; i < BLOCKS; i++)
		free(much[i]);
	return unused;
}

/* A child of fork with several threads, as a daemon, keeps what the limit allows: 64 MiB. */
static void daemon_child(void)
{
	pthread_t t;
	int status;

	if (fork() == 0) {
		CHECK(pthread_create(&t, NULL, work_much, NULL) == 0);
		CHECK(pthread_join(t, NULL) == 0);
		CHECK(resident() < BLOCKS * LARGE / 2);
		exit(0);
	}
	CHECK(wait(&status) > 0 && status == 0);
}

/* A child without the fork handlers. If this is the first process of a pid namespace, so is it. */
static long copy_process(void)
{
	return syscall(SYS_clone, SIGCHLD | (getpid() == 1 ? CLONE_NEWPID : 0), 0, 0, 0, 0);
}

static void copy(void)
{
	int status;

	run_thread();
	wait_for_threads(2);
	if (copy_process() == 0)
		_exit(unshare(CLONE_THREAD));
	CHECK(wait(&status) > 0 && status == 0);
	wait_for_threads(2);
}

/* The statistics are those of this process. */
static void copy_exits(void)
{
	const char *file = getenv("STATISTICS");
	int status;

	work(NULL);
	if (copy_process() == 0)
		exit(0);
	CHECK(wait(&status) > 0 && status == 0);
	CHECK(file && access(file, F_OK) && errno == ENOENT);
}

static void single_again(void)
{
	run_thread();
	wait_for_threads(2);
	CHECK(setns(-1, 0) == -1 && errno == EBADF);
	CHECK(threads() == 1);
	run_thread();
	wait_for_threads(2);
	CHECK(unshare(CLONE_THREAD) == 0); /* EINVAL in a process with several threads */
	CHECK(threads() == 1);
	run_thread();
	wait_for_threads(2);
}

static void *last(void *main_thread)
{
	pthread_join(*(pthread_t *)main_thread, NULL);
	run_thread();
	return NULL;
}

/* The process ends with its last thread. */
static void without_main(void)
{
	static pthread_t self;
	pthread_t t;

	self = pthread_self();
	CHECK(pthread_create(&t, NULL, last, &self) == 0);
	pthread_exit(NULL);
}

/* Only the background thread could take it. */
static void signals(void)
{
	sigset_t set;

	run_thread();
	wait_for_threads(2);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	kill(getpid(), SIGUSR1); /* ends the process if it is not blocked */
	usleep(10000);
	sigpending(&set);
	CHECK(sigismember(&set, SIGUSR1));
}

/* Runs the program as the first process of a pid namespace. Returns 77 where the system makes
 * none. */
static int be_first(char **argv)
{
	int status;
	pid_t child;

	if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID))
		return 77;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execv("/proc/self/exe", argv);
		_exit(1);
	}
	alarm(30);
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"idle", idle},
		     {"single", single},
		     {"none", none},
		     {"child", child},
		     {"copy", copy},
		     {"copy_exits", copy_exits},
		     {"daemon", daemon_child},
		     {"signals", signals},
		     {"single_again", single_again},
		     {"without_main", without_main}};

	if (argc == 3 && strcmp(argv[1], "first") == 0)
		return be_first(argv + 1);
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(cases[i].name, argv[1]) == 0) {
			cases[i].run();
			return 0;
		}
	return 2;
}
