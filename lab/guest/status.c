/* SPDX-License-Identifier: MIT */
/* lab_status KERNEL: what the library reports for this kernel is what is known of it, and near_cpu
 * and near_node are correct on each online CPU. */
#define _GNU_SOURCE
#include "lab.h"

#include <errno.h>
#include <nearcpu/rseq.h>
#include <sys/prctl.h>

#define SLICE_EXTENSION 79
#define SLICE_EXTENSION_SET 2
#define SLICE_EXTENSION_ENABLE 1
#define LEGACY_SIZE 32

static struct near_rseq_status st;

static void print_status(const char *kernel)
{
	static const char *const kinds[] = {"cpu", "cid", "node-cid"};

	printf("kernel %s: %s, %s; slots by %s: %s; %u slots, %u cpus, %u nodes; features %u, "
	       "registered %u bytes%s\n",
	       kernel, st.live ? "live" : "not live", st.why, kinds[st.slot_kind], st.slot_why,
	       st.slots, st.cpus, st.nodes, st.feature_size, st.area_size,
	       st.has_slice ? ", slice extension" : "");
}

/* Before 6.3: neither node nor cid. */
static void expect_no_features(void)
{
	LAB_CHECK(st.feature_size == 0);
	LAB_CHECK(!st.has_cid && !st.has_node && !st.has_slice);
	LAB_CHECK(st.slot_kind == NEAR_SLOT_CPU);
	LAB_CHECK(st.slots == st.cpus);
}

static void expect_cid(void)
{
	const char *conf = getenv("NEAR_CONF");

	LAB_CHECK(st.has_cid && st.has_node);
	if (conf && strcmp(conf, "slot:cpu") == 0) {
		LAB_CHECK(st.slot_kind == NEAR_SLOT_CPU);
	} else {
		LAB_CHECK(st.slot_kind == (st.nodes > 1 ? NEAR_SLOT_NODE_CID : NEAR_SLOT_CID));
		LAB_CHECK(st.slots == st.cpus * st.nodes);
	}
}

/* The kernel grants the extension only to threads that registered all of its features; Debian's
 * kernels are built without it. */
static void expect_slice(void)
{
	int r = prctl(SLICE_EXTENSION, SLICE_EXTENSION_SET, SLICE_EXTENSION_ENABLE, 0, 0);

	LAB_CHECK(st.feature_size > LEGACY_SIZE);
	LAB_CHECK(st.own_area || !st.has_slice);
	LAB_CHECK(st.area_size == (st.own_area ? st.feature_size : LEGACY_SIZE));
	if ((r == 0) != st.has_slice)
		LAB_FAIL("the kernel answers %d to the request for a longer slice", r ? errno : 0);
	printf("slice extension: %s\n", r ? "not built into this kernel" : "yes");
}

static void expect_features(const char *kernel)
{
	LAB_CHECK(st.live);
	LAB_CHECK(st.own_area || !getenv("GLIBC_TUNABLES")); /* by which the C library leaves it */
	if (strcmp(kernel, "6.1") == 0) {
		expect_no_features();
		return;
	}
	expect_cid();
	if (strncmp(kernel, "6.12", 4) == 0)
		LAB_CHECK(st.feature_size == 28 && !st.has_slice && st.area_size == LEGACY_SIZE);
	else
		expect_slice();
}

/* 6.12-16k: the kernel's pages. */
static void expect_pages(const char *kernel)
{
	const char *flavour = strchr(kernel, '-');

	LAB_CHECK(sysconf(_SC_PAGESIZE) == (flavour ? atol(flavour + 1) : 4) << 10);
}

static void expect_numbers(void)
{
	unsigned cpus[LAB_CPUS], n = lab_online(cpus), cpu, node;

	LAB_CHECK(n > 0);
	for (unsigned i = 0; i < n; i++) {
		LAB_CHECK(lab_pin(cpus[i]));
		LAB_CHECK(near_cpu() == cpus[i]);
		LAB_CHECK(syscall(SYS_getcpu, &cpu, &node, NULL) == 0);
		LAB_CHECK(cpu == cpus[i] && near_node() == node);
		LAB_CHECK(near_cid() < near_cpus());
		LAB_CHECK(near_slot() < near_slots());
		if (st.slot_kind == NEAR_SLOT_CPU)
			LAB_CHECK(near_slot() == cpus[i]);
		else if (st.slot_kind == NEAR_SLOT_NODE_CID)
			LAB_CHECK(near_slot() / near_cpus() == node);
	}
	printf("%u cpus online, the last is %u on node %u\n", n, cpus[n - 1],
	       lab_node_of(cpus[n - 1]));
}

static void expect_topology(void)
{
	unsigned possible[LAB_CPUS];
	unsigned n = lab_list("/sys/devices/system/cpu/possible", possible, LAB_CPUS);

	LAB_CHECK(n > 0 && near_cpus() == possible[n - 1] + 1);
	n = lab_list("/sys/devices/system/node/possible", possible, LAB_CPUS);
	LAB_CHECK(n > 0 && st.nodes == possible[n - 1] + 1);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fputs("usage: lab_status KERNEL\n", stderr);
		return 2;
	}
	near_rseq_status(&st, sizeof(st));
	print_status(argv[1]);
	expect_topology();
	expect_pages(argv[1]);
	expect_features(argv[1]);
	expect_numbers();
	return 0;
}
