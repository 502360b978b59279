/* SPDX-License-Identifier: MIT */
/* Processes that fork while threads are within atomic operations: the objects of the child are
 * whole, and its locks are free. */
#include "steps.h"
#include "team.h"
#include "words.h"

#define THREADS 3u

/* Words of an object all hold the same count. */
static struct {
	uint64_t small[3], gap[5], lines[25], page[512];
	uint64_t two[2] __attribute__((aligned(16)));
	uint64_t one;
} all __attribute__((aligned(64)));

static const struct {
	uint64_t *object;
	unsigned n;
} objects[] = {{all.small, 3}, {all.lines, 25}, {all.page, 512}, {all.two, 2}, {&all.one, 1}};

static void add_one(unsigned i)
{
	words_add(objects[i].object, objects[i].n);
}

static uint64_t count_of(unsigned i)
{
	return words_get(objects[i].object, objects[i].n);
}

/* In a process of one thread: each object counts as it should, by each operation. */
static void use_all(void)
{
	for (unsigned i = 0; i < LENGTH(objects); i++) {
		uint64_t *object = objects[i].object, count = count_of(i);
		unsigned n = objects[i].n;

		add_one(i);
		CHECK(count_of(i) == count + 1);
		CHECK(words_exchange(object, n, count + 2) == count + 1);
		words_store(object, n, count + 3);
		CHECK(words_load(object, n) == count + 3 && count_of(i) == count + 3);
	}
}

/* ---- threads that are inside while others fork ---- */

static bool stop;
static struct team team;

static void add_anywhere(unsigned number)
{
	uint64_t random = number;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		add_one(unit_random(&random) % LENGTH(objects));
}

static void start_threads(void)
{
	stop = false;
	team_start(&team, THREADS, add_anywhere);
}

static void stop_threads(void)
{
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	team_join(&team);
	use_all();
}

/* In both processes, after a fork. The child forks in turn for each level, and ends. */
static void use_in_child(pid_t child, unsigned levels)
{
	CHECK(child >= 0);
	if (child == 0) {
		use_all();
		if (levels)
			use_in_child(fork(), levels - 1);
		use_all();
		_exit(0);
	}
	CHECK(unit_wait(child, NULL) == 0);
}

static void a_child_is_whole(void **state)
{
	start_threads();
	for (unsigned i = 0; i < unit_scale(60); i++) {
		use_in_child(fork(), i % 3);
		add_one(i % LENGTH(objects));
		if (i % 4 == 0)
			usleep(50);
	}
	stop_threads();
}

static void fork_often(unsigned number)
{
	for (unsigned i = 0; i < unit_scale(100); i++)
		use_in_child(fork(), 0);
}

static void threads_fork_at_the_same_time(void **state)
{
	start_threads();
	team_run(3, fork_often);
	stop_threads();
}

/* The child shares the memory, and its parent waits. Emulators silently copy it instead. */
static void a_child_of_vfork_shares(void **state)
{
	if (unit_emulated())
		return;
	start_threads();
	for (unsigned i = 0; i < unit_scale(100); i++) {
		pid_t child = vfork();

		if (child == 0) {
			for (unsigned k = 0; k < LENGTH(objects); k++)
				add_one(k);
			_exit(0);
		}
		CHECK(unit_wait(child, NULL) == 0);
	}
	stop_threads();
}

/* No handlers run. It is the caller's to see to it that nobody is inside. */
extern pid_t _Fork(void) __attribute__((weak));

static void a_child_of_bare_fork_works(void **state)
{
	if (!_Fork)
		return;
	start_threads();
	stop_threads();
	for (unsigned i = 0; i < 20; i++)
		use_in_child(_Fork(), 0);
}

/* ---- handlers of the program, before and behind the library's ---- */

static unsigned handled;
static bool counts;

static void handle(void)
{
	if (!counts)
		return;
	for (unsigned i = 0; i < LENGTH(objects); i++)
		add_one(i);
	__atomic_fetch_add(&handled, 1, SEQ_CST);
}

/* Linked before the library's constructor of this priority: its `prepare` runs while the library's
 * locks are held. */
__attribute__((constructor(101))) static void come_first(void)
{
	pthread_atfork(handle, handle, handle);
}

static void fork_with_handlers(unsigned number)
{
	for (unsigned i = 0; i < unit_scale(100); i++) {
		unsigned before = __atomic_load_n(&handled, SEQ_CST);
		pid_t child = fork();

		if (child == 0) {
			counts = false;
			CHECK(handled >= before + 4);
		}
		use_in_child(child, 0);
	}
}

static void count_handlers(void)
{
	counts = true;
	team_run(2, fork_with_handlers);
	counts = false;
}

static void handlers_of_the_program_count(void **state)
{
	pthread_atfork(handle, handle, handle);
	memset(&all, 0, sizeof(all));
	count_handlers();
	for (unsigned i = 0; i < LENGTH(objects); i++)
		assert_int_equal(count_of(i), handled);
	start_threads();
	count_handlers();
	stop_threads();
}

/* ---- a signal handler that forks in the midst of an operation ---- */

static pid_t forked;

static void fork_here(struct steps *steps)
{
	forked = fork();
}

/* Both processes go on with the handler, and with what it interrupted. */
static bool fork_within(const struct operation *planned, unsigned at)
{
	static unsigned char before[STEPS_ARENA], memory[STEPS_ARENA] __attribute__((aligned(64)));
	static struct steps steps;
	const struct operation *plans[2] = {planned, planned + 1};
	const struct operation *done[2] = {steps.ops, steps.ops + 1};

	for (unsigned i = 0; i < STEPS_ARENA; i++)
		before[i] = memory[i] = (unsigned char)(i * 3);
	steps = (struct steps){
		.depth = 2, .ops = {planned[0], planned[1]}, .at = {at}, .wait = fork_here};
	forked = -1;
	steps_run(&steps, memory);
	CHECK(steps_in_any_order(plans, done, 1 + steps.met[0], before, memory));
	use_all();
	if (forked == 0)
		_exit(0);
	CHECK(!steps.met[0] || unit_wait(forked, NULL) == 0);
	return steps.met[0];
}

static void fork_everywhere(void *unused)
{
	static struct operation planned[2] = {{.kind = OP_EXCHANGE, .at = 64, .size = 24},
					      {.kind = OP_STORE, .at = 64, .size = 24}};

	steps_open();
	memset(planned[0].value, 1, 24);
	memset(planned[1].value, 2, 24);
	for (unsigned at = 1; fork_within(planned, at); at++)
		;
	planned[0].size = 100; /* over two lines */
	for (unsigned at = 60; at < 200 && fork_within(planned, at); at += 2)
		;
}

static void handlers_fork_in_sections(void **state)
{
	if (steps_possible())
		unit_in_child(fork_everywhere, NULL);
}

/* ---- threads that end ---- */

static void *end_by_turns(void *number)
{
	unsigned how = *(unsigned *)number;

	for (unsigned i = 0; i < 1000; i++) {
		add_one(i % LENGTH(objects));
		if (how && i > 100)
			pthread_testcancel();
	}
	if (how)
		pause();
	pthread_exit(NULL);
}

static void threads_end(void **state)
{
	static unsigned how[2] = {0, 1};

	for (unsigned i = 0; i < unit_scale(40); i++) {
		pthread_t ends = unit_start(end_by_turns, &how[0]);
		pthread_t is_cancelled = unit_start(end_by_turns, &how[1]);

		use_in_child(fork(), 0);
		pthread_cancel(is_cancelled);
		unit_join(ends);
		unit_join(is_cancelled);
		use_all();
	}
}

UNIT_MAIN(a_child_is_whole, threads_fork_at_the_same_time, a_child_of_vfork_shares,
	  a_child_of_bare_fork_works, handlers_of_the_program_count, handlers_fork_in_sections,
	  threads_end)
