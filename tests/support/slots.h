/* SPDX-License-Identifier: MIT */
/* Tests that choose the slot: the thread's words name an area of the test's own. Nothing aborts a
 * sequence then, so that only one thread at a time may use a slot. Where this thread is not live,
 * the fallback slot is chosen. Programs that include this are linked with
 * --wrap=near__topology_cpus: they run as on a machine with SLOTS_CPUS processors. */
#ifndef NEARCPU_TESTS_SLOTS_H
#define NEARCPU_TESTS_SLOTS_H

#include "percpu/percpu.h"
#include "base/topology.h"
#include "unit.h"

/* More than two words of bits, more than the slots that are closed in one operation. */
#define SLOTS_CPUS 130u

unsigned __real_near__topology_cpus(void);
unsigned __wrap_near__topology_cpus(void);

unsigned __wrap_near__topology_cpus(void)
{
	unsigned real = __real_near__topology_cpus();

	return real > SLOTS_CPUS ? real : SLOTS_CPUS;
}

static __thread struct near__area slots_area;
static __thread struct near__area *slots_real_area;
static __thread const struct near__area *slots_real_libc_area;

/* From now on this thread is in slot `slot`, below SLOTS_CPUS, or in the fallback slot of that
 * cpu. */
static inline void slots_enter(unsigned slot)
{
	bool live = near__thread_live();

	if (near__self.area != &slots_area && near__self.libc_area != &slots_area) {
		slots_real_area = near__self.area;
		slots_real_libc_area = near__self.libc_area;
	}
	slots_area.cpu_id = slots_area.mm_cid = slot;
	if (live)
		near__self.area = &slots_area;
	near__self.libc_area = &slots_area;
}

static inline void slots_leave(void)
{
	if (near__self.libc_area != &slots_area)
		return;
	near__self.area = slots_real_area;
	near__self.libc_area = slots_real_libc_area;
}

#endif
