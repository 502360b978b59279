/* SPDX-License-Identifier: MIT */
/* A signal handler of the only thread forks in the middle of an allocation. */
#include "forks.h"

#include <sys/prctl.h>

#include "fences.h"

static bool is_child;
static unsigned forks;

/* The child continues the interrupted code, and so does the parent after the child has ended. */
static void fork_in_handler(int signal)
{
	int saved = errno;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		is_child = true;
	} else {
		CHECK(unit_wait(child, NULL) == 7);
		forks++;
	}
	errno = saved;
}

static void use_both(void)
{
	exchange_an_object();
	use_some(400000);
}

static void end_as_child(void)
{
	if (!is_child)
		return;
	use_both();
	malloc_trim(0);
	unit_join(unit_start((void *(*)(void *))(void *)pthread_self, NULL));
	use_both();
	_exit(7);
}

/* Interrupts with a lock held: that of the page allocator while the heap grows, that of a drain
 * while it issues a fence. */
static bool armed;

static void interrupt(void)
{
	if (!armed)
		return;
	armed = false;
	raise(SIGUSR1);
}

void *__real_mmap(void *p, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *p, size_t size, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap(void *p, size_t size, int protection, int flags, int fd, off_t offset)
{
	interrupt();
	return __real_mmap(p, size, protection, flags, fd, offset);
}

static void grow(void)
{
	CHECK(malloc(4 * MB));
}

static void trim(void)
{
	free(malloc(100));
	malloc_trim(0);
}

static void (*step)(void);

static void fork_with_a_lock_held(void *unused)
{
	use_both();
	signal(SIGUSR1, fork_in_handler);
	armed = true;
	fence_hook = interrupt;
	for (unsigned i = 0; i < 50 && armed; i++)
		step();
	if (armed)
		_exit(77); /* this mode issues no fence */
	end_as_child();
	CHECK(forks == 1);
	use_both();
}

static void fork_while(void (*run)(void))
{
	skip_if_emulated();
	step = run;
	unit_in_child(fork_with_a_lock_held, NULL);
}

UNIT_TEST(while_the_heap_grows, fork_while(grow))
UNIT_TEST(while_slots_are_emptied, fork_while(trim))

static uint64_t random_state;

/* Another fork, a random time after the handler returns. */
static void set_alarm(void)
{
	struct itimerval once = {{0, 0}, {0, 20 + (long)(unit_random(&random_state) % 300)}};

	setitimer(ITIMER_REAL, &once, NULL);
}

static void fork_now_and_then(int signal)
{
	fork_in_handler(signal);
	if (!is_child)
		set_alarm();
}

/* Blocks with their sizes in them. */
static void churn(size_t **blocks, unsigned n, uint64_t *random)
{
	size_t **p = &blocks[unit_random(random) % n], size;

	CHECK(!*p || (*p)[0] == (*p)[(*p)[0] - 1]);
	free(*p);
	size = 2 + unit_random(random) % (unit_random(random) % 32 ? 200 : 30000);
	*p = malloc(size * sizeof(size_t));
	CHECK(*p);
	(*p)[0] = (*p)[size - 1] = size;
}

static void fork_often(void *unused)
{
	size_t *blocks[512] = {NULL};
	uint64_t random = 1;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* its alarm is taken */
	signal(SIGALRM, fork_now_and_then);
	set_alarm();
	while (forks < unit_scale(200) && !is_child)
		churn(blocks, LENGTH(blocks), &random);
	if (!is_child)
		signal(SIGALRM, SIG_IGN);
	for (unsigned i = 0; i < 2000; i++)
		churn(blocks, LENGTH(blocks), &random);
	end_as_child();
}

static void handlers_at_any_moment(void **state)
{
	skip_if_emulated();
	unit_in_child(fork_often, NULL);
}

UNIT_MAIN(while_the_heap_grows, while_slots_are_emptied, handlers_at_any_moment)
