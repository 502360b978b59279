/* SPDX-License-Identifier: MIT */
/* Where am I: the answers of near_cpu() and its kin on every path. */
#include <nearcpu/rseq.h>

#include "kernel/area.h"
#include "kernel/hint.h"
#include "kernel/kernel.h"

/* All loads of the kernel's area are volatile: it changes whenever the thread migrates. */
static uint32_t rseq_load(const uint32_t *p)
{
	return *(volatile const uint32_t *)p;
}

unsigned near__cpu_slow(void)
{
	const struct near__area *area = NULL;
	unsigned cpu, node;
	int32_t known;

	if (near__thread_live())
		area = near__self.area;
	else if (near__self.state == NEAR__DEAD)
		area = near__self.libc_area;
	/* Once: a signal handler may take the registration away between two loads. */
	known = area ? near__area_cpu(area) : -1;
	if (known >= 0)
		return (unsigned)known;
	near__where(&cpu, &node);
	return cpu;
}

unsigned near__cid_slow(void)
{
	if (near__thread_live() && near__process.has_cid)
		return rseq_load(&near__self.area->mm_cid);
	return near_cpu();
}

unsigned near_node(void)
{
	unsigned cpu, node;

	if (near__thread_live() && near__process.has_node)
		return rseq_load(&near__self.area->node_id);
	near__where(&cpu, &node);
	return node;
}

unsigned near_slot(void)
{
	return near__thread_live() ? near__index_now() : near__cpu_slow();
}

unsigned near_slots(void)
{
	near__process_init();
	return near__process.slots;
}

unsigned near_cpus(void)
{
	near__process_init();
	return near__process.cpus;
}
