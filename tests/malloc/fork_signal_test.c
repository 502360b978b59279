/* SPDX-License-Identifier: MIT */
/* A signal handler of the only thread forks in the middle of an allocation. */
#include "unit.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#include "atomic/calls.h"
#include "malloc/trim.h"

static bool is_emulated(void)
{
	if (unit_emulated())
		print_message("skipped: emulators show threads and forks in their own way\n");
	return unit_emulated();
}

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
		alarm(40);
	} else {
		CHECK(unit_wait(child, NULL) == 7);
		forks++;
	}
	errno = saved;
}

static void use_some(void)
{
	static uint64_t object[4];
	uint64_t value[4] = {1, 2, 3, 4}, old[4];

	call_exchange(sizeof(object), object, value, old, __ATOMIC_SEQ_CST);
	for (size_t n = 1; n < 400000; n = n * 3 + 1) {
		unsigned char *p = malloc(n), *q;

		CHECK(p);
		memset(p, 5, n);
		q = realloc(p, n * 2);
		CHECK(q && q[n - 1] == 5);
		free(q);
	}
}

static void end_as_child(void)
{
	if (!is_child)
		return;
	use_some();
	malloc_trim(0);
	unit_join(unit_start((void *(*)(void *))(void *)pthread_self, NULL));
	use_some();
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

void __real_near__fence(void);
void __wrap_near__fence(void);

void __wrap_near__fence(void)
{
	interrupt();
	__real_near__fence();
}

static void grow(void)
{
	CHECK(malloc((size_t)4 << 20));
}

static void trim(void)
{
	free(malloc(100));
	malloc_trim(0);
}

static void fork_with_a_lock_held(void *step)
{
	void (*run)(void);

	*(void **)&run = step;
	use_some();
	alarm(40);
	signal(SIGUSR1, fork_in_handler);
	armed = true;
	for (unsigned i = 0; i < 50 && armed; i++)
		run();
	if (armed)
		_exit(77); /* this mode issues no fence */
	end_as_child();
	CHECK(forks == 1);
	use_some();
}

static void forks_with_a_lock_held(void **run)
{
	int status;

	if (is_emulated())
		skip();
	status = unit_wait(unit_fork(fork_with_a_lock_held, *run), NULL);
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

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
	if (is_emulated())
		skip();
	unit_in_child(fork_often, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{"while_the_heap_grows", forks_with_a_lock_held, NULL, NULL, (void *)grow},
		{"while_slots_are_emptied", forks_with_a_lock_held, NULL, NULL, (void *)trim},
		cmocka_unit_test(handlers_at_any_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
