/* SPDX-License-Identifier: MIT */
/* Processes that are killed while their threads add to a counter and record in a histogram, both in
 * one region. */

#include "stress.h"

#include <fcntl.h>
#include <sys/prctl.h>

#define PROCESSES 6
#define THREADS 2
#define INDEX 2
#define VALUE 10

/* Of one thread, in memory that outlives its process. A process is killed before, inside or
 * after at most one add and one record. Its successor goes on with the same numbers. */
struct tally {
	uint64_t started, done;
};

struct board {
	struct tally tallies[PROCESSES * THREADS];
	bool stop;
};

static struct adder {
	struct near_region region;
	struct near_shared_counters count;
	struct near_histogram values;
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
		near_shared_counters_add(&adder.count, INDEX, 1);
		near_histogram_record(&adder.values, VALUE);
		store(&t->done, ++done);
	}
	return NULL;
}

static int define(struct adder *a)
{
	const struct near_shared_counters_options eight = {.count = 8};
	struct near_histogram_options options = {.max = 100, .exact_sum = true};
	int err = near_shared_counters_open(&a->count, &a->region, "adds", NULL, &eight);

	return err ? err : near_histogram_open(&a->values, &a->region, "values", NULL, &options);
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
	CHECK(near_region_open_fd(&adder.region, atoi(args[0])) == 0);
	CHECK(define(&adder) == 0);
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

/* What the resets returned, and what is left. */
struct totals {
	uint64_t adds, values, sum;
};

static void take_all(struct adder *a, struct totals *t)
{
	struct near_histogram_snapshot s;

	t->adds += (uint64_t)near_shared_counters_reset(&a->count, INDEX);
	assert_int_equal(near_histogram_reset(&a->values, &s), 0);
	t->values += s.count;
	t->sum += s.exact_sum;
	near_histogram_snapshot_free(&s);
}

static void check_totals(const struct board *board, const struct totals *t, unsigned killed)
{
	uint64_t least = 0, most = 0;

	for (unsigned i = 0; i < PROCESSES * THREADS; i++) {
		least += board->tallies[i].done;
		most += board->tallies[i].started;
	}
	print_message("%llu to %llu added, %llu counted\n", (unsigned long long)least,
		      (unsigned long long)most, (unsigned long long)t->adds);
	assert_true(most - least <= (uint64_t)killed * THREADS);
	assert_true(least <= t->adds && t->adds <= most);
	assert_true(least <= t->values && t->values <= t->adds);
	assert_true(t->sum % VALUE == 0);
	assert_true(least * VALUE <= t->sum && t->sum <= t->values * VALUE);
}

unsigned killed_stress(unsigned ms)
{
	uint64_t end = stress_now() + ms;
	pid_t children[PROCESSES];
	struct totals totals = {0};
	struct board *board;
	struct adder own;
	uint64_t random = 6;
	unsigned killed = 0;
	int fds[2];

	assert_int_equal(near_region_open(&own.region, NULL, NULL), 0);
	assert_int_equal(define(&own), 0);
	fds[0] = fcntl(own.region.fd, F_DUPFD, 100);
	fds[1] = memfd_create("board", 0);
	assert_true(fds[0] >= 0 && fds[1] >= 0);
	assert_int_equal(ftruncate(fds[1], sizeof(*board)), 0);
	board = map_board(fds[1]);
	for (unsigned i = 0; i < PROCESSES; i++)
		children[i] = start_adder(fds, i);
	for (; killed == 0 || stress_now() < end; killed++) {
		replace_one(children, fds, &random);
		take_all(&own, &totals);
	}
	__atomic_store_n(&board->stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < PROCESSES; i++)
		assert_int_equal(unit_wait(children[i], NULL), 0);
	take_all(&own, &totals);
	check_totals(board, &totals, killed);
	near_region_close(&own.region);
	munmap(board, sizeof(*board));
	close(fds[0]);
	close(fds[1]);
	return killed;
}
