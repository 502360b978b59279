/* SPDX-License-Identifier: MIT */
/* Memory that comes to an end: by RLIMIT_AS, which limits address space, by RLIMIT_DATA, which
 * limits what may be written to, and without overcommit. Calls return NULL and ENOMEM, blocks keep
 * their content, and the program goes on when there is memory again.
 *
 * The limit of a memory cgroup refuses no memory: the kernel kills a process that touches more. A
 * program that uses much less than the limit must therefore live, whatever sizes it uses in turn:
 * freed memory serves its next requests.
 *
 * usage: malloc_limits_test [--machine]
 *   --machine   the machine is the test's own: its settings may be changed */
#include "team.h"
#include "use.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* ---- resource limits ---- */

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

	CHECK_REFUSED(calloc(1, 512 * MB));
	CHECK_REFUSED(realloc(p, 512 * MB));
	CHECK_REFUSED(memalign(64 * KB, 512 * MB));
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

static void exhaust_limit(void *resource)
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

UNIT_TEST(address_space, limited(exhaust_limit, &(int){RLIMIT_AS}))
UNIT_TEST(memory_to_write_to, limited(exhaust_limit, &(int){RLIMIT_DATA}))

static bool may_begin; /* threads have their stacks by then */

/* At most 10 s: without memory each call empties all caches first. */
static void take_and_free(unsigned number)
{
	time_t end = time(NULL) + 10;

	unit_await(&may_begin);
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
	__atomic_store_n(&may_begin, true, __ATOMIC_RELEASE);
	team_join(&team);
	/* The caches of all slots may hold that much. */
	malloc_trim(0);
	p = malloc(1 * MB);
	CHECK(p);
	free(p);
}

UNIT_TEST(threads_that_want_the_rest, limited(many_want_the_rest, NULL))

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
	may_begin = true;
	team_run(3, take_and_free);
	return 0;
}

static void start_with_little(void *size)
{
	struct rlimit r = {*(size_t *)size, *(size_t *)size};

	CHECK(setrlimit(RLIMIT_AS, &r) == 0);
	execl("/proc/self/exe", "malloc_limits_test", LITTLE, (char *)NULL);
	_exit(9);
}

static void process_that_has_little(void **state)
{
	static size_t sizes[] = {96 * MB, 160 * MB, 512 * MB};

	for (unsigned i = 0; i < LENGTH(sizes); i++)
		limited(start_with_little, &sizes[i]);
}

/* ---- a group ---- */

/* Twelve sizes in turn: enough for what two threads hold and for what stays between the blocks of
 * the sizes before, with glibc 70 MB; not for twelve times what they hold. */
#define LIMIT (112 * MB)
#define HELD (20 * MB) /* by each thread */
#define WORK "--work"

static bool own_machine;

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

static bool write_number(const char *dir, const char *name, unsigned long long n)
{
	char path[256], text[32];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(text, sizeof(text), "%llu", n);
	return write_file(path, text);
}

struct tag {
	const char *root, *limit, *swap;
};
static const struct tag kinds[] = {
	{"/sys/fs/cgroup", "memory.max", "memory.swap.max"},
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"},
	{"/tmp/malloc-limits", "memory.max", "memory.swap.max"},
};

static void mount_groups(void)
{
	const char *root = kinds[2].root;
	char path[256];

	mkdir(root, 0700);
	if (mount("cgroup2", root, "cgroup2", 0, NULL))
		return;
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", root);
	write_file(path, "+memory");
}

/* Makes a group of `limit` bytes. NULL: the machine does not let us. */
static const struct tag *make_group(char dir[128], size_t limit)
{
	for (size_t i = 0; i < LENGTH(kinds); i++) {
		const struct tag *k = &kinds[i];

		snprintf(dir, 128, "%s/nearcpu-test-%d", k->root, getpid());
		if (mkdir(dir, 0755))
			continue;
		if (write_number(dir, k->limit, limit)) {
			write_number(dir, k->swap, k == &kinds[1] ? limit : 0);
			return k;
		}
		rmdir(dir);
	}
	return NULL;
}

/* Takes HELD bytes in blocks of n, uses them, and frees them. */
static void go_through(size_t n)
{
	struct chain *list = NULL, *p;

	for (size_t held = 0; held < HELD; held += n + 8) {
		p = malloc(n);
		CHECK(p);
		memset(p, 1, n);
		p->next = list;
		list = p;
	}
	chain_free(list, 0);
}

static void work(unsigned number)
{
	static const size_t sizes[] = {24,   100,   500,    1000,    3000,   20000,
				       9000, 40000, 300000, 3000000, 100000, 64};

	for (unsigned round = 0; round < 3; round++)
		for (size_t i = 0; i < LENGTH(sizes); i++)
			go_through(sizes[i]);
}

/* Everything that the process has counts, since it begins in the group. */
static void enter_and_work(void *dir)
{
	CHECK(write_number(dir, "cgroup.procs", (unsigned long long)getpid()));
	execl("/proc/self/exe", "malloc_limits_test", WORK, (char *)NULL);
	_exit(9);
}

static void lives_in_a_group(void **state)
{
	char dir[128];
	int signal = 0, status;

	if (unit_emulated())
		skip();
	if (own_machine)
		mount_groups();
	if (!make_group(dir, LIMIT)) {
		print_message("no memory cgroup can be made here\n");
		skip();
	}
	status = unit_wait(unit_fork(enter_and_work, dir), &signal);
	while (rmdir(dir) && errno == EBUSY) /* until the kernel has forgotten it */
		usleep(10000);
	assert_int_equal(signal, 0);
	assert_int_equal(status, 0);
}

/* ---- no overcommit ---- */

#define VM "/proc/sys/vm"

/* The kernel leaves others a part of it. */
static void limit_commitment(size_t more)
{
	unsigned long long now = kernel_number("/proc/meminfo", "Committed_AS:", 0);
	unsigned long long kept = kernel_number(VM "/user_reserve_kbytes", "", UINT64_MAX);

	CHECK(now && kept != UINT64_MAX);
	CHECK(write_number(VM, "overcommit_kbytes", now + kept + more / 1024));
	CHECK(write_file(VM "/overcommit_memory", "2"));
}

static size_t exhaust(size_t size)
{
	struct chain *list = NULL;
	size_t count = chain_take_all(&list, size);

	CHECK(count);
	CHECK_REFUSED(realloc(list, 4 * GB));
	chain_free(list, size);
	return count;
}

static void exhaust_all(void *unused)
{
	static const size_t sizes[] = {MB, 24, 20000, 1000};

	for (size_t i = 0; i < LENGTH(sizes); i++) {
		size_t first = exhaust(sizes[i]);

		CHECK(exhaust(sizes[i]) >= first / 2);
	}
}

static void without_overcommit(void **state)
{
	int status;

	if (!own_machine) {
		print_message("it would change a setting of the whole machine\n");
		skip();
	}
	free(malloc(1));
	limit_commitment(24 * MB);
	status = unit_wait(unit_fork(exhaust_all, NULL), NULL);
	CHECK(write_file(VM "/overcommit_memory", "0"));
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], LITTLE) == 0)
		return live_on_little();
	if (argc == 2 && strcmp(argv[1], WORK) == 0) {
		team_run(2, work);
		return 0;
	}
	own_machine = argc == 2 && strcmp(argv[1], "--machine") == 0;
	return UNIT_TESTS(address_space, memory_to_write_to, threads_that_want_the_rest,
			  process_that_has_little, lives_in_a_group, without_overcommit);
}
