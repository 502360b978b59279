/* SPDX-License-Identifier: MIT */
/* Processes that are killed while their threads add to a shared region. */

#include "stress.h"

#include <fcntl.h>
#include <sys/prctl.h>

#define PROCESSES 6
#define THREADS 2
#define OFFSET 16

/* Of one thread, in memory that outlives its process. A process is killed before, inside or
 * after at most one add. Its successor goes on with the same numbers. */
struct tally {
	uint64_t started, done;
};

struct board {
	struct tally tallies[PROCESSES * THREADS];
	bool stop;
};

static struct adder {
	struct near_shared region;
	struct board *board;
	unsigned first;
} adder;

static void store(uint64_t *p, uint64_t value)
{
	__atomic_store_n(p, value, __ATOMIC_RELAXED);
}

static void *add(void *number)
{
	struct tally *t = &adder.board->tallies[adder.first + (unsigned)(uintptr_t)number];
	uint64_t started = t->started, done = t->done;

	while (!__atomic_load_n(&adder.board->stop, __ATOMIC_RELAXED)) {
		store(&t->started, ++started);
		near_shared_add(&adder.region, OFFSET, 1);
		store(&t->done, ++done);
	}
	return NULL;
}

static struct board *map_board(int fd)
{
	void *m = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(m != MAP_FAILED);
	return m;
}

int killed_adder(char **args)
{
	pthread_t thread;

	/* A test that is killed leaves no process behind that adds forever. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CHECK(near_shared_attach(&adder.region, atoi(args[0])) == 0);
	adder.board = map_board(atoi(args[1]));
	adder.first = (unsigned)atoi(args[2]) * THREADS;
	thread = unit_start(add, (void *)1);
	add((void *)0);
	unit_join(thread);
	return 0;
}

static void exec_adder(const int *fds, unsigned number)
{
	char region[16], board[16], number_text[16];

	snprintf(region, sizeof(region), "%d", fds[0]);
	snprintf(board, sizeof(board), "%d", fds[1]);
	snprintf(number_text, sizeof(number_text), "%u", number);
	if (number % 3 == 0)
		setenv("NEAR_CONF", "rseq:off", 1);
	execl("/proc/self/exe", "storm_test", KILLED_ADDER, region, board, number_text,
	      (char *)NULL);
	_exit(1);
}

static pid_t start_adder(const int *fds, unsigned number)
{
	pid_t child = fork();

	if (child == 0)
		exec_adder(fds, number);
	assert_true(child > 0);
	return child;
}

/* Sleeps, kills one, starts another in its place. */
static void replace_one(pid_t *children, const int *fds, uint64_t *random)
{
	unsigned victim = unit_random(random) % PROCESSES;
	int signal = 0;

	usleep(1000);
	stress_rest(random, 10000000);
	kill(children[victim], SIGKILL);
	assert_int_equal(unit_wait(children[victim], &signal), -1);
	assert_int_equal(signal, SIGKILL);
	children[victim] = start_adder(fds, victim);
}

static void check_total(const struct board *board, int64_t total, unsigned killed)
{
	uint64_t least = 0, most = 0;

	for (unsigned i = 0; i < PROCESSES * THREADS; i++) {
		least += board->tallies[i].done;
		most += board->tallies[i].started;
	}
	print_message("%llu to %llu added, %lld counted\n", (unsigned long long)least,
		      (unsigned long long)most, (long long)total);
	assert_true(most - least <= (uint64_t)killed * THREADS);
	assert_true(least <= (uint64_t)total && (uint64_t)total <= most);
}

unsigned killed_stress(unsigned ms)
{
	uint64_t end = stress_now() + ms;
	pid_t children[PROCESSES];
	struct near_shared region;
	struct board *board;
	uint64_t random = 6;
	unsigned killed = 0;
	int64_t taken = 0;
	int fds[2];

	assert_int_equal(near_shared_create(&region, 64), 0);
	fds[0] = fcntl(region.fd, F_DUPFD, 100);
	fds[1] = memfd_create("board", 0);
	assert_true(fds[0] >= 0 && fds[1] >= 0);
	assert_int_equal(ftruncate(fds[1], sizeof(*board)), 0);
	board = map_board(fds[1]);
	for (unsigned i = 0; i < PROCESSES; i++)
		children[i] = start_adder(fds, i);
	for (; killed == 0 || stress_now() < end; killed++) {
		replace_one(children, fds, &random);
		taken += near_shared_reset(&region, OFFSET);
	}
	__atomic_store_n(&board->stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < PROCESSES; i++)
		assert_int_equal(unit_wait(children[i], NULL), 0);
	check_total(board, taken + near_shared_read(&region, OFFSET), killed);
	near_shared_close(&region);
	munmap(board, sizeof(*board));
	close(fds[0]);
	close(fds[1]);
	return killed;
}
