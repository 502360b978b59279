/* SPDX-License-Identifier: MIT */
/* What docs/scale.md states about memory, on machines of 2 to 1,024 CPUs: address space, resident
 * pages, page tables. The program is linked with --wrap=near__topology_cpus and _nodes; each size
 * is tried in a child, which is the first to use the library. */
#include "unit.h"

#include <nearcpu/counter.h>
#include <nearcpu/rseq.h>

#include "base/block.h"
#include "percpu/percpu.h"
#include "proc.h"
#include "base/topology.h"

#define PAGE 4096u
#define HEADER (64u << 10)
#define STRIDE (1u << NEAR_STRIDE_SHIFT)
#define STATE_SIZE 64u    /* at the start of a slot */
#define COUNTERS 10000u   /* 80,000 bytes in each slot */
#define SLACK (40u << 10) /* stdio, stack, page counts that the kernel gathers per CPU */

static const unsigned sizes[] = {2, 64, 192, 1024};

static unsigned pretended;
static struct near__area area; /* names the slot to come; nothing aborts a sequence then */
static struct near_counter counters[COUNTERS];

unsigned __wrap_near__topology_cpus(void);
unsigned __wrap_near__topology_nodes(void);

unsigned __wrap_near__topology_cpus(void)
{
	return pretended;
}

unsigned __wrap_near__topology_nodes(void)
{
	return 1;
}

static void enter(unsigned slot)
{
	bool live = near__thread_live();

	area.cpu_id = area.mm_cid = slot;
	if (live)
		near__self.area = &area;
	near__self.libc_area = &area;
}

/* A line of /proc/self/status, in bytes. */
static size_t status(const char *name)
{
	return (size_t)kernel_number("/proc/self/status", name, 0) << 10;
}

/* By the pages themselves: the counts in `status` are gathered per CPU and so are late. */
static size_t resident(void)
{
	size_t kib = kernel_number("/proc/self/smaps_rollup", "Rss:", 0);

	CHECK(kib);
	return kib << 10;
}

static void near_to(const char *what, size_t found, size_t expected, size_t slack)
{
	printf("%u CPUs, %s: %zu bytes, computed %zu\n", pretended, what, found, expected);
	CHECK(found + slack >= expected && found <= expected + slack);
}

static size_t pages(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* The first object reserves; what it costs is known before anybody adds. */
static void reserve(void)
{
	struct near_rseq_status st;
	size_t before = status("VmSize:"), need;

	CHECK(near_counter_init(&counters[0]) == 0);
	near_rseq_status(&st, sizeof(st));
	need = HEADER + ((size_t)near_slots() + 1 + pretended) * STRIDE;
	near_to("address space", status("VmSize:") - before, need, SLACK);
	CHECK(st.reserved == need);
}

static void fill(void *arg)
{
	size_t before, tables, one_more;

	pretended = *(const unsigned *)arg;
	status("VmSize:");
	resident();           /* stdio's buffers are there from now on, */
	CHECK(near__block()); /* and what the thread needs */
	reserve();
	CHECK(near_slots() == pretended);
	for (unsigned i = 1; i < COUNTERS; i++)
		CHECK(near_counter_init(&counters[i]) == 0);
	before = resident();
	tables = status("VmPTE:");
	for (unsigned slot = 0; slot < pretended; slot++) {
		enter(slot);
		for (unsigned i = 0; i < COUNTERS; i++)
			near_counter_add(&counters[i], 1);
	}
	near_to("resident", resident() - before, pretended * pages(STATE_SIZE + 8 * COUNTERS),
		SLACK);
	/* A page of tables maps 2 MiB: two slots. */
	near_to("page tables", status("VmPTE:") - tables, pretended / 2 * PAGE, SLACK);
	for (unsigned i = 0; i < COUNTERS; i++)
		CHECK(near_counter_read(&counters[i]) == pretended);
	/* An object of the same size is on pages that exist already. */
	one_more = resident();
	near_counter_destroy(&counters[COUNTERS - 1]);
	CHECK(near_counter_init(&counters[COUNTERS - 1]) == 0);
	near_counter_add(&counters[COUNTERS - 1], 1);
	near_to("one more", resident() - one_more, 0, SLACK);
	fflush(NULL);
}

static void memory_is_as_computed(void **state)
{
	unsigned n = *(const unsigned *)*state;

	unit_in_child(fill, &n);
}

#define SIZE(i)                                                                                    \
	{                                                                                          \
		.name = "memory_is_as_computed_" #i, .test_func = memory_is_as_computed,           \
		.initial_state = (void *)(uintptr_t)&sizes[i]                                      \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {SIZE(0), SIZE(1), SIZE(2), SIZE(3)};

	if (unit_emulated() || UNIT_SANITIZED || sysconf(_SC_PAGESIZE) != PAGE ||
	    access("/proc/self/smaps_rollup", R_OK)) {
		puts("skipped: it needs a plain process and pages of 4 KiB");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
