/* SPDX-License-Identifier: MIT */
/* A plugin for LTTng-UST: its clock is the CPU's counter. It has nothing of the library but the
 * instruction. */
#include <lttng/ust-clock.h>
#include <nearcpu/detail/arch/arch.h>

__attribute__((visibility("default"))) void lttng_ust_clock_plugin_init(void);

static uint64_t counter(void) { return near__clock(); }
static uint64_t frequency(void) { return 1000000000; /* no time of this benchmark is read */ }
static const char *name(void) { return "counter"; }

/* All are required. */
void lttng_ust_clock_plugin_init(void)
{
	if (!lttng_ust_trace_clock_set_read64_cb(counter) &&
	    !lttng_ust_trace_clock_set_freq_cb(frequency) &&
	    !lttng_ust_trace_clock_set_name_cb(name) &&
	    !lttng_ust_trace_clock_set_description_cb(name))
		lttng_ust_enable_trace_clock_override();
}
