/* SPDX-License-Identifier: MIT */
/* Where am I: the answers of near_cpu() and its kin on every path. */
#include <nearcpu/rseq.h>

#include "area.h"
#include "hint.h"
#include "internal.h"

/* All loads of the kernel's area are volatile: it changes whenever the thread migrates. */
static uint32_t load(const uint32_t *p)
{
	return *(volatile const uint32_t *)p;
}

unsigned near__cpu_slow(void)
{
	unsigned cpu, node;

	if (near__thread_live())
		return load(&near__self.area->cpu_id);
	if (near__self.state == NEAR__DEAD && near__self.libc_area &&
	    near__area_cpu(near__self.libc_area) >= 0)
		return load(&near__self.libc_area->cpu_id);
	near__where(&cpu, &node);
	return cpu;
}

unsigned near_cid(void)
{
	if (near__thread_live() && near__process.has_cid)
		return load(&near__self.area->mm_cid);
	return near_cpu();
}

unsigned near_node(void)
{
	unsigned cpu, node;

	if (near__thread_live() && near__process.has_node)
		return load(&near__self.area->node_id);
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
