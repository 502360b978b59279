/* SPDX-License-Identifier: MIT */
/* The allocator in the life of a process: before main, in threads that end, in children, while all
 * caches are emptied, and after main. */
#include "team.h"
#include "use.h"

#include "malloc/central/central.h"
#include "malloc/base/heap.h"

/* ---- before main ---- */

static char *early[64];

__attribute__((constructor(101))) static void before_others(void)
{
	for (unsigned i = 0; i < LENGTH(early); i++) {
		early[i] = malloc(i * i + 1);
		early[i][i * i] = (char)i;
	}
}

static void blocks_from_before_main(void **state)
{
	for (unsigned i = 0; i < LENGTH(early); i++) {
		assert_int_equal(early[i][i * i], i);
		early[i] = realloc(early[i], 40000);
		assert_int_equal(early[i][i * i], i);
		free(early[i]);
	}
}

/* ---- after main ---- */

static bool is_last;

static void use(void)
{
	use_some(200000);
}

/* Runs after the functions of atexit. */
__attribute__((destructor)) static void after_others(void)
{
	use();
	if (is_last)
		_exit(3);
}

static void leave(void *unused)
{
	is_last = true;
	CHECK(atexit(use) == 0);
	exit(9);
}

UNIT_TEST(blocks_after_main, assert_int_equal(unit_wait(unit_fork(leave, NULL), NULL), 3))

/* ---- threads that end ---- */

#define KEPT 300
#define CLASS 7u

static pthread_key_t key;

static void at_end(void *p)
{
	free(p);
	use();
}

static void come_and_go(unsigned number)
{
	void *kept[KEPT];

	for (unsigned i = 0; i < KEPT; i++)
		kept[i] = malloc(near__sizes[CLASS].size);
	for (unsigned i = 0; i < KEPT; i++)
		free(kept[i]);
	CHECK(pthread_setspecific(key, calloc(1, 100)) == 0);
}

static uint64_t blocks_out(void)
{
	struct near__central_stats s;

	malloc_trim(0);
	near__central_stats(CLASS, &s);
	return s.out;
}

/* What their lists had comes back, and does not add up. */
static void blocks_of_threads_that_ended(void **state)
{
	uint64_t first = 0;

	assert_int_equal(pthread_key_create(&key, at_end), 0);
	for (unsigned i = 0; i < unit_scale(150); i++) {
		team_run(3, come_and_go);
		if (i == 10)
			first = blocks_out();
	}
	/* The shared lists, for threads without a slot, may have some. */
	assert_true(blocks_out() <= first + 2u * near__sizes[CLASS].batch);
	pthread_key_delete(key);
}

/* ---- children ---- */

static bool stop;

static void busy(unsigned number)
{
	uint64_t random = number + 1;
	void *mine[64] = {NULL};

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		void **p = &mine[unit_random(&random) % LENGTH(mine)];

		free(*p);
		*p = malloc(unit_random(&random) % 16 ? unit_random(&random) % 2000
						      : unit_random(&random) % 300000);
		CHECK(*p);
	}
	for (unsigned i = 0; i < LENGTH(mine); i++)
		free(mine[i]);
}

static void with_busy_threads(void (*run)(void))
{
	struct team team;

	stop = false;
	team_start(&team, 4, busy);
	run();
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	team_join(&team);
}

static void be_child(void *p)
{
	free(p);
	use();
	malloc_trim(0);
	use();
}

static void fork_often(void)
{
	for (unsigned i = 0; i < unit_scale(200); i++) {
		char *p = malloc(i);

		CHECK(p);
		unit_in_child(be_child, p);
		memset(p, 1, i);
		free(p);
	}
}

UNIT_TEST(children_of_busy_processes, with_busy_threads(fork_often))

/* Children that have the parent's memory, and exchange this block of it for one of 1,000 bytes. */
static char *volatile exchanged;

__attribute__((noinline)) static pid_t start_vforked(void)
{
	pid_t child = vfork();

	if (child == 0) {
		free(exchanged);
		use();
		exchanged = malloc(1000);
		_exit(exchanged ? 0 : 1);
	}
	return child;
}

static int use_as_clone(void *unused)
{
	for (unsigned i = 0; i < 20; i++)
		use();
	free(exchanged);
	exchanged = malloc(1000);
	syscall(SYS_exit_group, exchanged ? 0 : 1);
	return 1;
}

static pid_t start_cloned(void)
{
	static char stack[128 << 10];

	return clone(use_as_clone, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
}

static pid_t (*start_child)(void);

static void exchange_often(void)
{
	exchanged = malloc(10);
	for (unsigned i = 0; i < unit_scale(200); i++) {
		pid_t child = start_child();

		assert_true(child > 0);
		assert_int_equal(unit_wait(child, NULL), 0);
		memset(exchanged, 1, 1000);
	}
	free(exchanged);
}

static void children_in_the_parents_memory(pid_t (*start)(void))
{
	if (unit_emulated())
		skip(); /* there they have a copy of it */
	start_child = start;
	with_busy_threads(exchange_often);
}

UNIT_TEST(children_of_vfork, children_in_the_parents_memory(start_vforked))

/* They run on their parent's thread-local storage, too, where they find its registration. */
UNIT_TEST(children_of_clone, children_in_the_parents_memory(start_cloned))

/* ---- trim ---- */

/* No longer than 20 s: on machines that are emulated each interrupts CPUs that hardly run. */
static void trim_often(unsigned number)
{
	time_t end = time(NULL) + 20;

	for (unsigned i = 0; i < unit_scale(300) && (i < 10 || time(NULL) < end); i++)
		malloc_trim(0);
}

static void trim_together(void)
{
	team_run(3, trim_often);
}

UNIT_TEST(several_trim, with_busy_threads(trim_together))

UNIT_MAIN(blocks_from_before_main, blocks_after_main, blocks_of_threads_that_ended,
	  children_of_busy_processes, children_of_vfork, children_of_clone, several_trim)
