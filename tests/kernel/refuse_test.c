/* SPDX-License-Identifier: MIT */
/* A process that is refused more the longer it runs: memory, mappings, system calls. What was
 * begun continues with what there is, or the program stops with a line that gives the reason.
 * Each test runs in a child. */
#include "filter.h"
#include "live.h"
#include "proc.h"
#include "team.h"
#include "use_all.h"

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

/* ---- memory ---- */

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
	CHECK(near_percpu_alloc((void **)&fresh.p, 100000, 8) == -ENOMEM);
	munmap(filler, ((size_t)1 << 18) * page);
	near_counter_reset(&all.count);
	use_by_threads();
	use_all(NULL);
}

/* ---- system calls ---- */

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

UNIT_MAIN(no_slot_can_be_opened, data_is_limited, mappings_are_used_up, rseq_is_filtered_late,
	  membarrier_is_filtered_late)
