/* SPDX-License-Identifier: MIT */
/* A process that misses or is refused something, from the start or the longer it runs: memory,
 * mappings, system calls, files, keys. The library reports what, and works. What was begun
 * continues with what there is, or the program stops with a line that gives the reason. Each test
 * runs in a child; those of what is missing from the start come first, while the main process has
 * not used the library. */
#include "filter.h"
#include "base/topology.h"
#include "live.h"
#include "proc.h"
#include "team.h"
#include "use_all.h"

/* ---- missing from the start ---- */

static void use_with_reason(const char *why)
{
	struct near_rseq_status status;

	unsetenv("NEAR_CONF");
	status = status_now();
	CHECK(!status.live && (!NEAR__HAS_SEQ || strstr(status.why, why)));
	use_all(NULL);
}

UNIT_CHILD(use_without_rseq, unit_emulated())
{
	if (!filter_out(NEAR__SYS_RSEQ, ENOSYS))
		_exit(77);
	use_with_reason("no rseq");
}

/* As containers do it: the filter is there before the program, so that the C library cannot
 * register its threads either. */
UNIT_CHILD(use_where_rseq_is_denied, unit_emulated())
{
	if (!filter_out(NEAR__SYS_RSEQ, EPERM))
		_exit(77);
	unsetenv("NEAR_CONF");
	execl("/proc/self/exe", "refuse_test", "denied", NULL);
	CHECK(!"exec");
}

UNIT_CHILD(use_without_membarrier, unit_emulated())
{
	if (!filter_out(NEAR__SYS_MEMBARRIER, ENOSYS))
		_exit(77);
	use_with_reason("no membarrier");
}

/* The vDSO still answers; the raw system call does not. */
UNIT_CHILD(use_without_getcpu, unit_emulated())
{
	if (!filter_out(SYS_getcpu, ENOSYS))
		_exit(77);
	use_all(unused);
}

/* A kernel list cannot be read: the size of the kernel's masks is taken. */
UNIT_CHILD(use_without_files, unit_emulated())
{
	struct rlimit none = {0, 0};

	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHECK(near_cpus() >= near__topology_cpus());
	CHECK(near_cpus() > 0);
	use_all(unused);
}

/* Threads that the library registers need no pthread key. */
UNIT_CHILD(use_without_keys, unit_emulated())
{
	pthread_key_t key;

	while (pthread_key_create(&key, NULL) == 0)
		;
	CHECK(is_live() == near__process.usable);
	use_all(unused);
}

UNIT_CHILD(without_address_space_the_error_is_enomem, unit_emulated() || UNIT_THREAD_SANITIZER)
{
	struct rlimit limit, none = {0, 0};
	struct near_counter c;

	CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
	none.rlim_max = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_AS, &none) == 0);
	KEEPS_ERRNO(CHECK(near_counter_init(&c) == -ENOMEM));
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	use_all(unused);
}

/* ---- refused from now on ---- */

#define THREADS 4
#define TIMES 500

static struct {
	struct near_counter count;
	struct near_stack stack;
	struct near_refcount ref;
	struct near_stack_node nodes[THREADS];
	unsigned released;
} all;

static void released(struct near_refcount *r)
{
	all.released++;
}

/* These take memory of their own, and cannot go on without. */
static bool cannot_refuse(void)
{
	return unit_emulated() || UNIT_SANITIZED;
}

static void begin(void)
{
	CHECK(near_counter_init(&all.count) == 0);
	CHECK(near_stack_init(&all.stack) == 0);
	CHECK(near_refcount_init(&all.ref, released) == 0);
}

static void use(unsigned number)
{
	struct near_stack_node *mine = &all.nodes[number];

	for (int i = 0; i < TIMES; i++) {
		near_counter_add(&all.count, 1);
		near_refcount_get(&all.ref);
		near_stack_push(&all.stack, mine);
		do
			mine = near_stack_steal(&all.stack);
		while (!mine);
		near_refcount_put(&all.ref);
	}
	near_stack_push(&all.stack, mine);
}

static void add_some(unsigned number)
{
	for (int i = 0; i < TIMES; i++)
		near_counter_add(&all.count, 1);
}

/* After `begin`, under whatever was taken away since. */
static void use_by_threads(void)
{
	team_run(THREADS, use);
	CHECK(near_counter_read(&all.count) == THREADS * TIMES);
	CHECK(near_counter_reset(&all.count) == THREADS * TIMES);
	CHECK(list_length(near_stack_drain(&all.stack)) == THREADS);
	CHECK(all.released == 0);
	near_refcount_kill(&all.ref);
	CHECK(all.released == 1);
	near_refcount_revive(&all.ref);
	near_refcount_put(&all.ref); /* the new initial reference, dropped early */
	near_refcount_get(&all.ref);
	near_refcount_kill(&all.ref);
	CHECK(all.released == 2);
}

static unsigned slots_in_use(const void *p)
{
	unsigned n = 0;

	for (unsigned s = 0; near_percpu_next(p, &s); s++)
		n++;
	return n;
}

/* No slot can be opened any more; the first fallback slot was open from the start. */
UNIT_CHILD(no_slot_can_be_opened, cannot_refuse())
{
	begin();
	if (!filter_out(SYS_mprotect, ENOMEM))
		_exit(77);
	for (int i = 0; i < TIMES; i++) {
		near_counter_add(&all.count, 1);
		near_stack_push(&all.stack, &all.nodes[0]);
		CHECK(near_stack_pop(&all.stack) == &all.nodes[0]);
		near_refcount_get(&all.ref);
		near_refcount_put(&all.ref);
	}
	CHECK(near_counter_read(&all.count) == TIMES);
	CHECK(slots_in_use(all.count.p) == 1);
	near_refcount_kill(&all.ref);
	CHECK(all.released == 1);
}

static size_t data_in_use(void)
{
	return (size_t)kernel_number("/proc/self/status", "VmData:", 0) << 10;
}

/* On a busy machine threads may run one after the other for a while, in one slot. */
static void use_more_slots(void)
{
	for (int i = 0; i < 1000 && slots_in_use(all.count.p) == 1; i++)
		team_run(THREADS, add_some);
}

/* Room for the stacks of the threads, not for slots of a MiB each. */
UNIT_CHILD(data_is_limited, cannot_refuse())
{
	struct rlimit limit;
	unsigned cpus = 0;

	begin();
	CHECK(getrlimit(RLIMIT_DATA, &limit) == 0);
	limit.rlim_cur = data_in_use() + ((rlim_t)900 << 10);
	if (data_in_use() == 0 || setrlimit(RLIMIT_DATA, &limit))
		_exit(77);
	add_some(0);
	CHECK(near_counter_read(&all.count) == TIMES);
	CHECK(slots_in_use(all.count.p) == 1);
	limit.rlim_cur = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
	near_counter_reset(&all.count);
	use_by_threads();
	use_more_slots();
	for (unsigned n = 0; unit_pin(n, NULL); n++, cpus++)
		near_counter_add(&all.count, 1);
	CHECK(slots_in_use(all.count.p) > 1 || cpus == 1);
}

/* Mappings of one page, each of another kind than its neighbours, until there can be no more. */
static unsigned fill_mappings(char **where)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), most = 1 << 18;
	unsigned n = 0;

	*where = mmap(NULL, most * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		      0);
	CHECK(*where != MAP_FAILED);
	while (n < most / 2 && mprotect(*where + 2 * n * page, page, PROT_READ) == 0)
		n++;
	return n < most / 2 ? n : 0;
}

UNIT_CHILD(mappings_are_used_up, cannot_refuse())
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct near_counter fresh;
	char *filler;
	unsigned n;

	begin();
	n = fill_mappings(&filler);
	if (!n)
		_exit(77); /* this kernel allows very many */
	add_some(0);
	CHECK(near_counter_read(&all.count) == TIMES);
	CHECK(near_percpu_alloc(100000, 8, (void **)&fresh.p) == -ENOMEM);
	munmap(filler, ((size_t)1 << 18) * page);
	near_counter_reset(&all.count);
	use_by_threads();
	use_all(NULL);
}

/* Only operations that need the fence stop the program, and say why. */
static void run_without_fence(void *unused)
{
	begin();
	near_counter_add(&all.count, 1);
	near_stack_push(&all.stack, &all.nodes[0]);
	if (!filter_out(NEAR__SYS_MEMBARRIER, EPERM))
		_exit(77);
	near_counter_add(&all.count, 1);
	CHECK(near_counter_read(&all.count) == 2);
	near_stack_drain(&all.stack);
}

extern const unsigned __rseq_size __attribute__((weak));

/* A C library that registers threads itself stops the program if it cannot any more. */
static bool libc_registers(void)
{
	return &__rseq_size && __rseq_size;
}

/* A thread that starts when rseq is gone is not live; those that are live go on. */
static void use_late(unsigned number)
{
	CHECK(!is_live());
	use(number);
}

UNIT_CHILD(rseq_is_filtered_late, cannot_refuse() || libc_registers())
{
	begin();
	near_counter_add(&all.count, TIMES);
	if (!filter_out(NEAR__SYS_RSEQ, EPERM))
		_exit(77);
	team_run(1, use_late);
	CHECK(near_counter_read(&all.count) == 2 * TIMES);
	CHECK(list_length(near_stack_drain(&all.stack)) == 1);
}

static void membarrier_is_filtered_late(void **state)
{
	if (!is_live() && cannot_refuse())
		skip();
	if (!is_live())
		unit_in_child(run_without_fence,
			      NULL); /* nothing is fenced where nothing is live */
	else
		unit_dies(run_without_fence, NULL,
			  "membarrier stopped working (a filter installed after start?); "
			  "start the program with NEAR_CONF=rseq:off");
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "denied") == 0) {
		use_with_reason("filter (seccomp)");
		return 0;
	}
	return UNIT_TESTS(use_without_rseq, use_where_rseq_is_denied, use_without_membarrier,
			  use_without_getcpu, use_without_files, use_without_keys,
			  without_address_space_the_error_is_enomem, no_slot_can_be_opened,
			  data_is_limited, mappings_are_used_up, rseq_is_filtered_late,
			  membarrier_is_filtered_late);
}
