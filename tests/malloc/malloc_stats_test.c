/* SPDX-License-Identifier: MIT */
/* The statistics, compared with the operations. */
#include "stats.h"

#include <nearcpu/rseq.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base/page.h"
#include "malloc/base/malloc_conf.h"
#include "malloc/base/os.h"
#include "team.h"

#define MANY 600
#define HELD 20

static void *volatile blocks[MANY + HELD]; /* volatile: compilers remove unused calls */

static void take_blocks(unsigned n, size_t size)
{
	for (unsigned i = 0; i < n; i++) {
		blocks[i] = malloc(size);
		assert_non_null(blocks[i]);
	}
}

static void free_blocks(unsigned first, unsigned n)
{
	for (unsigned i = first; i < n; i++)
		free(blocks[i]);
}

static void any_size_of_the_struct(void **state)
{
	struct near_malloc_stats s, larger[2];
	struct near_malloc_class_stats c;
	uint64_t first = 1;

	assert_int_equal(near_malloc_stats(&s, 0), -EINVAL);
	assert_int_equal(near_malloc_class_stats(0, &c, 0), -EINVAL);
	assert_int_equal(near_malloc_stats(&s, sizeof(s)), 0);
	memset(larger, 0xff, sizeof(larger));
	assert_int_equal(near_malloc_stats(larger, sizeof(larger)), 0);
	assert_int_equal(larger[0].misses, s.misses);
	assert_int_equal(larger[1].misses, 0);
	assert_int_equal(larger[1].metadata, 0);
	s.slotless = 4711;
	assert_int_equal(near_malloc_stats(&s, sizeof(first)), 0);
	assert_int_equal(s.slotless, 4711);
	assert_int_equal(near_malloc_class_stats((unsigned)s.classes, &c, sizeof(c)), -ENOENT);
	assert_int_equal(near_malloc_class_stats((unsigned)s.classes - 1, &c, sizeof(c)), 0);
	assert_int_equal(c.size, 65536);
	assert_int_equal(near_malloc_class_stats(0, &c, sizeof(c)), 0);
	assert_int_equal(c.size, 8);
}

/* Blocks in lists of slots then count as in use. */
static bool lists_are_unknown(void)
{
	struct near_rseq_status rseq;

	near_rseq_status(&rseq, sizeof(rseq));
	return rseq.live && !unit_can_peek();
}

static void counts_of(size_t size)
{
	struct near_malloc_class_stats before, full, half, after;

	take_blocks(MANY + HELD, size);
	free_blocks(0, MANY);
	before = stats_of(size);
	take_blocks(MANY, size);
	full = stats_of(size);
	free_blocks(MANY / 2, MANY);
	half = stats_of(size);
	free_blocks(0, MANY / 2);
	after = stats_of(size);
	assert_int_equal(full.in_use, before.in_use + MANY);
	assert_int_equal(half.in_use, before.in_use + MANY / 2);
	assert_int_equal(after.in_use, before.in_use);
	assert_int_equal(after.misses, full.misses); /* a free is none */
	free_blocks(MANY, MANY + HELD);
}

static void every_block_is_counted(void **state)
{
	struct near_malloc_class_stats c;

	if (lists_are_unknown())
		skip();
	for (unsigned n = 0; near_malloc_class_stats(n, &c, sizeof(c)) == 0; n++)
		counts_of((size_t)c.size);
}

static void nothing_here_allocates(void **state)
{
	struct near_malloc_stats before = stats(), after = stats();

	assert_int_equal(before.misses, after.misses);
	assert_int_equal(before.large_allocations, after.large_allocations);
	assert_int_equal(before.in_use, after.in_use);
}

static void all_is_the_sum_of_the_classes(void **state)
{
	struct near_malloc_stats s;
	struct near_malloc_class_stats c;
	uint64_t misses = 0, in_use = 0, cached = 0, spans = 0, blocks_of_class;

	take_blocks(MANY, 100);
	s = stats();
	for (unsigned n = 0; near_malloc_class_stats(n, &c, sizeof(c)) == 0; n++) {
		misses += c.misses;
		in_use += c.in_use * c.size;
		cached += c.cached * c.size;
		spans += c.span_bytes;
		blocks_of_class = c.in_use + c.cached + c.central;
		assert_true(blocks_of_class * c.size <= c.span_bytes);
		assert_true(c.span_bytes == 0 || blocks_of_class * c.size > c.span_bytes / 16 * 14);
	}
	free_blocks(0, MANY);
	assert_int_equal(s.misses, misses);
	assert_int_equal(s.in_use, in_use + s.large);
	assert_int_equal(s.cached, cached);
	assert_int_equal(s.central, spans - in_use - cached);
	assert_true(s.committed >= spans + s.large + s.free_dirty);
	assert_true(s.reserved >= s.committed);
	assert_true(s.resident >= s.in_use && s.resident <= s.committed + s.metadata);
}

/* A block that goes from the program to the cache and back is no miss, except after the thread has
 * moved to another slot, or was interrupted. */
static void misses(void **state)
{
	struct near_malloc_class_stats before, after;

	for (unsigned size = 200; size <= 20000; size *= 100) {
		before = stats_of(size);
		for (unsigned i = 0; i < 10000; i++) {
			void *volatile p = malloc(size);

			free(p);
		}
		after = stats_of(size);
		assert_true(after.misses - before.misses <= 100);
	}
}

static void lists_that_move(void **state)
{
	struct near_malloc_class_stats before = stats_of(64), after;

	take_blocks(MANY, 64);
	free_blocks(0, MANY);
	after = stats_of(64);
	assert_true(after.refills + after.central_refills >
		    before.refills + before.central_refills);
	/* More than a list of them was freed: to a transfer cache, or to the central lists. */
	assert_true(after.spills + after.central_spills > before.spills + before.central_spills);
}

static uint64_t moves_of(size_t size)
{
	struct near_malloc_class_stats c = stats_of(size);

	return c.refills + c.spills + c.central_refills + c.central_spills;
}

/* At each number of free blocks a few are taken and freed in turn. */
static void a_list_does_not_come_and_go(void **state)
{
	struct near_rseq_status rseq;
	uint64_t before;

	near_rseq_status(&rseq, sizeof(rseq));
	if (!rseq.live)
		skip();
	take_blocks(MANY, 64);
	before = moves_of(64);
	for (unsigned n = MANY; n-- > 4;) {
		free(blocks[n]);
		for (unsigned i = 0; i < 40; i++) {
			free(blocks[n - 1]);
			free(blocks[n - 2]);
			blocks[n - 2] = malloc(64);
			blocks[n - 1] = malloc(64);
		}
	}
	free_blocks(0, 4);
	print_message("%lu moves\n", (unsigned long)(moves_of(64) - before));
	assert_true(moves_of(64) - before < 150);
}

static void large_blocks(void **state)
{
	struct near_malloc_stats before = stats(), s;
	char *volatile p;

	if (lists_are_unknown())
		skip();
	p = malloc(MB);
	s = stats();
	assert_int_equal(s.large_allocations, before.large_allocations + 1);
	assert_int_equal(s.large_blocks, before.large_blocks + 1);
	assert_int_equal(s.large, before.large + (MB));
	assert_int_equal(s.in_use - before.in_use, MB);
	blocks[0] = malloc(MB); /* so that the first one cannot grow where it is */
	p = realloc(p, 3 * MB);
	assert_int_equal(stats().large, before.large + (4 * MB));
	p = realloc(p, MB / 2);
	assert_int_equal(stats().large, before.large + (3 * MB / 2));
	free(p);
	free(blocks[0]);
	s = stats();
	assert_int_equal(s.large, before.large);
	assert_int_equal(s.large_blocks, before.large_blocks);
	assert_true(s.free_dirty + s.free_clean > 0);
}

static void *kept[8][100];

static void churn(unsigned number)
{
	void *mine[100];

	for (unsigned round = 0; round < 20; round++)
		for (unsigned i = 0; i < 100; i++) {
			if (round)
				free(mine[i]);
			mine[i] = malloc(300);
			CHECK(mine[i]);
		}
	memcpy(kept[number], mine, sizeof(mine));
}

static void other_threads(void **state)
{
	struct near_malloc_class_stats before = stats_of(300), after;

	if (lists_are_unknown())
		skip();
	team_run(LENGTH(kept), churn);
	after = stats_of(300);
	assert_true(after.in_use >= before.in_use + 800 && after.in_use <= before.in_use + 850);
	for (unsigned i = 0; i < 8 * 100; i++)
		free(kept[i / 100][i % 100]);
	after = stats_of(300);
	assert_true(after.in_use >= before.in_use && after.in_use <= before.in_use + 50);
}

static void trim(void **state)
{
	struct near_rseq_status rseq;
	struct near_malloc_stats before, after;

	if (lists_are_unknown())
		skip();
	near_rseq_status(&rseq, sizeof(rseq));
	take_blocks(MANY, 5000);
	free_blocks(0, MANY);
	before = stats();
	malloc_trim(0);
	after = stats();
	assert_true(after.given_back > before.given_back);
	assert_true(after.give_backs > before.give_backs);
	assert_int_equal(after.in_use, before.in_use);
	if (near__page_size() == NEAR__PAGE) /* else it may share pages of the system with blocks */
		assert_int_equal(after.free_dirty, 0);
	assert_int_equal(after.cached, 0);
	if (!rseq.live)
		return;
	assert_true(after.drains > before.drains);
	assert_true(after.fences > before.fences);
}

/* ---- what the library reads of other threads' lists ---- */

ssize_t __real_process_vm_readv(pid_t, const struct iovec *, unsigned long, const struct iovec *,
				unsigned long, unsigned long);
ssize_t __wrap_process_vm_readv(pid_t, const struct iovec *, unsigned long, const struct iovec *,
				unsigned long, unsigned long);

static void (*before_reading)(void);
static int forbidden; /* errno */

/* Between the load of the lists and that of their blocks. */
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n_to,
				const struct iovec *from, unsigned long n_from, unsigned long flags)
{
	void (*run)(void) = before_reading;

	before_reading = NULL;
	if (run)
		run();
	errno = forbidden;
	return forbidden ? -1 : __real_process_vm_readv(pid, to, n_to, from, n_from, flags);
}

static void words_that_cannot_be_read_are_left_out(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *from[8], to[8] = {0};

	for (unsigned i = 0; i < 8; i++) {
		from[i] = (uint64_t *)(p + (i + 1) * page - 8);
		*from[i] = i + 1;
		/* 1, 3 and 4, 7 */
		if (i % 3 == 1 || i == 3)
			assert_return_code(mprotect(p + i * page, page, PROT_NONE), errno);
	}
	errno = 4711;
	near__os_peek(to, from, 8);
	assert_int_equal(errno, 4711);
	if (!to[0] && !unit_can_peek())
		skip();
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(to[i], i % 3 == 1 || i == 3 ? 0 : i + 1);
	munmap(p, 8 * page);
}

static char *guarded;

static void take_and_guard(void)
{
	guarded = malloc(64 * KB);
	CHECK(guarded && mprotect(guarded, 64 * KB, PROT_NONE) == 0);
}

static void a_program_protects_its_block_at_any_time(void **state)
{
	struct near_malloc_class_stats c;
	struct near_rseq_status rseq;
	char *volatile p;

	near_rseq_status(&rseq, sizeof(rseq));
	if (!rseq.live || near__page_size() != NEAR__PAGE) /* a block has pages of its own */
		skip();
	/* Again if the thread was moved to another slot. */
	do {
		p = malloc(64 * KB);
		free(p);
		before_reading = take_and_guard;
		c = stats_of(64 * KB);
		assert_null(before_reading);
		assert_return_code(mprotect(guarded, 64 * KB, PROT_READ | PROT_WRITE), errno);
		free(guarded);
	} while (guarded != p);
	assert_int_equal(c.in_use + c.cached, stats_of(64 * KB).in_use + stats_of(64 * KB).cached);
	assert_true(c.in_use > 0);
}

/* Blocks in lists of slots then count as in use. */
static void without_the_system_call(void **state)
{
	struct near_malloc_class_stats all, c;
	static const int errors[] = {EPERM, ENOSYS};

	take_blocks(MANY, 64);
	free_blocks(0, MANY);
	all = stats_of(64);
	for (unsigned i = 0; i < LENGTH(errors); i++) {
		forbidden = errors[i];
		c = stats_of(64);
		forbidden = 0;
		assert_int_equal(c.in_use + c.cached, all.in_use + all.cached);
		assert_true(c.in_use >= all.in_use);
	}
}

int main(void)
{
	/* A small heap does not use all classes. */
	take_blocks(1, MB);
	free_blocks(0, 1);
	/* Lists that the background thread moves would count as in use. */
	near__malloc_conf.background = NEAR__BACKGROUND_OFF;

	return UNIT_TESTS(any_size_of_the_struct, every_block_is_counted, nothing_here_allocates,
			  all_is_the_sum_of_the_classes, misses, lists_that_move,
			  a_list_does_not_come_and_go, large_blocks, other_threads, trim,
			  words_that_cannot_be_read_are_left_out,
			  a_program_protects_its_block_at_any_time, without_the_system_call);
}
