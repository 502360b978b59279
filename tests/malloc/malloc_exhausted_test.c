/* SPDX-License-Identifier: MIT */
/* Memory that comes to an end: NULL and ENOMEM, what is there stays, and the program goes on when
 * there is memory again. By RLIMIT_AS, which limits address space, and by RLIMIT_DATA, which limits
 * what may be written to, as strict overcommit does. */
#include "team.h"
#include "use.h"

static void limit(int resource, size_t more)
{
	size_t now = KB * kernel_number("/proc/self/status",
					resource == RLIMIT_AS ? "VmSize:" : "VmData:", 0);
	struct rlimit r = {now + more, RLIM_INFINITY};

	CHECK(now > 0 && setrlimit(resource, &r) == 0);
}

/* With no memory left: each allocating function, and a block that should grow. */
static void allocate_in_vain(struct chain *p)
{
	void *out = p;
	struct chain *next = p->next;

	errno = 0;
	CHECK(!calloc(1, 512 * MB) && errno == ENOMEM);
	errno = 0;
	CHECK(!realloc(p, 512 * MB) && errno == ENOMEM);
	errno = 0;
	CHECK(!memalign(64 * KB, 512 * MB) && errno == ENOMEM);
	CHECK(posix_memalign(&out, 4096, 512 * MB) == ENOMEM && out == p);
	CHECK(p->next == next);
}

static void exhaust_with(int resource, size_t size)
{
	struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	struct chain *list = NULL;
	size_t first;
	void *p;

	limit(resource, 6 * MB);
	first = chain_take_all(&list, size);
	CHECK(first);
	allocate_in_vain(list);
	chain_free(list, size);
	/* No other process took it: most of it is there. */
	list = NULL;
	CHECK(chain_take_all(&list, size) >= first / 2);
	chain_free(list, size);
	malloc_trim(0);
	CHECK(setrlimit(resource, &none) == 0);
	p = calloc(1, 12 * MB);
	CHECK(p);
	free(p);
}

static void exhaust(void *resource)
{
	static const size_t sizes[] = {1 * MB, 24, 20 * KB, 300 * KB, 1000, 8};

	free(malloc(1));
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < LENGTH(sizes); i++)
			if (sizes[i] > 100 || !getenv("NEAR_TEST_SLOW"))
				exhaust_with(*(int *)resource, sizes[i]);
}

static void limited(void (*run)(void *), void *arg)
{
	if (unit_emulated())
		skip(); /* the emulator's own memory would be limited */
	unit_in_child(run, arg);
}

static void address_space(void **state)
{
	limited(exhaust, &(int){RLIMIT_AS});
}

static void memory_to_write_to(void **state)
{
	limited(exhaust, &(int){RLIMIT_DATA});
}

static unsigned may_begin; /* threads have their stacks by then */

/* At most 10 s: without memory each call empties all caches first. */
static void take_and_free(unsigned number)
{
	time_t end = time(NULL) + 10;

	while (!__atomic_load_n(&may_begin, __ATOMIC_ACQUIRE))
		sched_yield();
	for (unsigned round = 0; round < 200 && time(NULL) <= end; round++) {
		void *mine[50];

		for (unsigned i = 0; i < LENGTH(mine); i++) {
			mine[i] = malloc(round % 5 ? 3000 : 200 * KB);
			if (mine[i])
				memset(mine[i], 1, 3000);
			else
				CHECK(errno == ENOMEM);
		}
		for (unsigned i = 0; i < LENGTH(mine); i++)
			free(mine[i]);
	}
}

static void many_want_the_rest(void *unused)
{
	struct team team;
	void *p;

	free(malloc(1));
	team_start(&team, 4, take_and_free);
	limit(RLIMIT_AS, 24 * MB); /* the memory of each node takes one for its tables */
	__atomic_store_n(&may_begin, 1, __ATOMIC_RELEASE);
	team_join(&team);
	/* The caches of all slots may hold that much. */
	malloc_trim(0);
	p = malloc(1 * MB);
	CHECK(p);
	free(p);
}

static void threads_that_want_the_rest(void **state)
{
	limited(many_want_the_rest, NULL);
}

#define LITTLE "--little"

/* Of a process that has little from the start, and threads. */
static int live_on_little(void)
{
	static void *blocks[200];
	size_t n = 0;

	while (n < LENGTH(blocks) && (blocks[n] = malloc(100 * KB)))
		n++;
	if (n < 50)
		return 1;
	while (n)
		free(blocks[--n]);
	may_begin = 1;
	team_run(3, take_and_free);
	return 0;
}

static void start_with_little(void *size)
{
	struct rlimit r = {*(size_t *)size, *(size_t *)size};

	CHECK(setrlimit(RLIMIT_AS, &r) == 0);
	execl("/proc/self/exe", "malloc_exhausted_test", LITTLE, (char *)NULL);
	_exit(9);
}

static void process_that_has_little(void **state)
{
	static size_t sizes[] = {96 * MB, 160 * MB, 512 * MB};

	for (unsigned i = 0; i < LENGTH(sizes); i++)
		limited(start_with_little, &sizes[i]);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], LITTLE) == 0)
		return live_on_little();
	return UNIT_TESTS(address_space, memory_to_write_to, threads_that_want_the_rest,
			  process_that_has_little);
}
