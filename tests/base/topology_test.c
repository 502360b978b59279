/* SPDX-License-Identifier: MIT */
/* The kernel's lists of CPUs, and what the library makes of this machine's. */
#include "unit.h"

#include <nearcpu/rseq.h>

#include "base/topology.h"
#include "child.h"
#include "filter.h"

static const struct {
	const char *text;
	int max;
} lists[] = {{"0", 0},           {"0\n", 0},         {"7", 7},           {"0-3\n", 3},
	     {"0-3,8\n", 8},     {"8,0-3\n", 8},     {"0,2,4,6\n", 6},   {"0-0\n", 0},
	     {"3-5,7-9,1\n", 9}, {"0-1023\n", 1023}, {"0-8191\n", 8191}, {"1048576", 1048576},
	     {"007", 7},         {"0-3\nignored", 3}};

static const char *const no_lists[] = {"",
				       "\n",
				       "-",
				       ",",
				       "-1",
				       ",1",
				       "1,",
				       "1,\n",
				       "1-",
				       "1-\n",
				       "1,,2",
				       "1--2",
				       "1 2",
				       " 1",
				       "1-3 \n",
				       "0x3",
				       "a",
				       "0-3;8",
				       "1048577",
				       "99999999999999999999",
				       "0-4294967295",
				       "\xff"};

static void check_list(const char *text, int expected)
{
	int max = near__list_max(text);

	if (max != expected)
		fail_msg("\"%s\": %d, not %d", text, max, expected);
}

static void the_highest_number_of_a_list(void **state)
{
	for (size_t i = 0; i < LENGTH(lists); i++)
		check_list(lists[i].text, lists[i].max);
	for (size_t i = 0; i < LENGTH(no_lists); i++)
		check_list(no_lists[i], -1);
}

/* Any bytes give a number in range or -1. */
static void random_lists_stay_in_range(void **state)
{
	static const char bytes[] = "0123456789-,\n a";
	unsigned rounds = unit_scale(200000);
	uint64_t seed = 2;

	for (unsigned i = 0; i < rounds; i++) {
		char text[16];
		unsigned n = unit_random(&seed) % LENGTH(text);

		for (unsigned k = 0; k < n; k++)
			text[k] = bytes[unit_random(&seed) % (sizeof(bytes) - 1)];
		text[n] = '\0';
		assert_in_range(near__list_max(text) + 1, 0, (1 << 20) + 1);
	}
}

static int read_list_max(const char *path)
{
	FILE *f = fopen(path, "r");
	char text[4096];
	bool found;

	if (!f)
		return -1;
	found = fgets(text, sizeof(text), f);
	fclose(f);
	return found ? near__list_max(text) : -1;
}

static void this_machine_is_covered(void **state)
{
	unsigned cpus = near__topology_cpus(), nodes = near__topology_nodes(), cpu = 0, node = 0;
	int max;

	assert_true(cpus >= (unsigned)sysconf(_SC_NPROCESSORS_CONF));
	assert_int_equal(near_cpus(), cpus);
	max = read_list_max("/sys/devices/system/cpu/possible");
	if (max >= 0)
		assert_int_equal(cpus, max + 1);
	max = read_list_max("/sys/devices/system/node/possible");
	assert_int_equal(nodes, max >= 0 ? max + 1 : 1);
	for (unsigned n = 0; unit_pin(n, NULL); n++) {
		assert_int_equal(syscall(SYS_getcpu, &cpu, &node, NULL), 0);
		assert_true(cpu < cpus && node < nodes);
	}
	unit_unpin();
}

#define POLICY_OF_ADDRESS 2
#define POLICY_DEFAULT 0
#define POLICY_PREFERRED 1

/* The policy of a page, or -1 if this kernel or a filter refuses. */
static int policy_of(void *page, unsigned long *nodes)
{
	unsigned long mask[1024 / 8 / sizeof(unsigned long)] = {0};
	int policy;

	if (syscall(SYS_get_mempolicy, &policy, mask, 1024, page, POLICY_OF_ADDRESS))
		return -1;
	*nodes = mask[0];
	return policy;
}

static void memory_of_a_node_is_preferred(void **state)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	unsigned long nodes = 0;
	char *pages = unit_map(2 * size, MAP_PRIVATE);

	if (policy_of(pages, &nodes) != POLICY_DEFAULT || near__calls_are_filtered())
		skip();
	KEEPS_ERRNO(near__topology_prefer(pages, size, 0));
	KEEPS_ERRNO(near__topology_prefer(pages, size, 1023));
	KEEPS_ERRNO(near__topology_prefer(pages, size, 1u << 20));
	assert_int_equal(policy_of(pages, &nodes), POLICY_PREFERRED);
	assert_int_equal(nodes, 1);
	assert_int_equal(policy_of(pages + size, &nodes), POLICY_DEFAULT);
	memset(pages, 1, 2 * size);
	munmap(pages, 2 * size);
}

static void prefer_filtered(void *unused)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	unsigned long nodes = 0;
	char *page = unit_map(size, MAP_PRIVATE);

	if (policy_of(page, &nodes) != POLICY_DEFAULT || !filter_out(SYS_mincore, EPERM))
		_exit(77);
	CHECK(near__calls_are_filtered());
	near__topology_prefer(page, size, 0);
	CHECK(policy_of(page, &nodes) == POLICY_DEFAULT);
	_exit(0);
}

/* A filter of any kind: mbind might end the process. */
static void no_node_is_preferred_where_calls_are_filtered(void **state)
{
	if (unit_emulated() || near__topology_nodes() > 1) /* it was asked before */
		skip();
	unit_in_child(prefer_filtered, NULL);
}

/* The kernel reports the same node for the CPU that the thread is on; none for a CPU that cannot
 * be. */
static void the_node_of_a_cpu(void **state)
{
	unsigned nodes = near__topology_nodes(), cpus = near__topology_cpus(), cpu, node, seen = 0;

	for (unsigned c = 0; c < cpus && c < CPU_SETSIZE; c++) {
		cpu_set_t one;

		CPU_ZERO(&one);
		CPU_SET(c, &one);
		if (sched_setaffinity(0, sizeof(one), &one) ||
		    syscall(SYS_getcpu, &cpu, &node, NULL) || cpu != c ||
		    near__topology_node_of(c, nodes) < 0)
			continue;
		assert_int_equal(near__topology_node_of(c, nodes), node);
		assert_int_equal(near__topology_node_of(c, node), -1);
		seen++;
	}
	KEEPS_ERRNO(assert_int_equal(near__topology_node_of(1u << 20, nodes), -1));
	KEEPS_ERRNO(assert_int_equal(near__topology_node_of(UINT32_MAX, 1024), -1));
	if (!seen)
		skip(); /* without sysfs */
}

UNIT_MAIN(the_highest_number_of_a_list, random_lists_stay_in_range, this_machine_is_covered,
	  no_node_is_preferred_where_calls_are_filtered, memory_of_a_node_is_preferred,
	  the_node_of_a_cpu)
