/* SPDX-License-Identifier: MIT */
/* near_trace: the counter against the system's clocks. */
#include "base/clock.h"
#include "trace/trace.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TRIES 8

/* The shortest of some tries: others were interrupted. */
void near__trace_read_clock(struct near__trace_moment *m, clockid_t clock)
{
	m->uncertainty_ns = UINT64_MAX;
	for (int i = 0; i < TRIES; i++) {
		uint64_t before = near__clock_ns(clock), counter = near_clock(),
			 after = near__clock_ns(clock), real = near__clock_ns(CLOCK_REALTIME);
		uint64_t half = (after - before) / 2;

		if (half >= m->uncertainty_ns)
			continue;
		m->counter = counter;
		m->monotonic_ns = before + half;
		m->realtime_ns = real - (after - before - half);
		m->uncertainty_ns = half;
	}
}

void near__trace_read_moment(struct near__trace_moment *m)
{
	near__trace_read_clock(m, CLOCK_MONOTONIC);
}

/* By one thread at a time. The copy that readers do not use, then the count: see format.h. */
void near__trace_store_moment(struct near__trace_session *s)
{
	uint64_t next = s->latest_count + 1;

	near__trace_read_moment(&s->latest[next % 2]);
	__atomic_store_n(&s->latest_count, next, __ATOMIC_RELEASE);
}

/* A kernel that does not keep time by the counter has a reason: it differs between CPUs, stops, or
 * changes its rate; or a virtual machine may be moved. */
bool near__trace_is_unstable(void)
{
	static const char *const stable[] = {"tsc\n", "arch_sys_counter\n", "riscv_clocksource\n"};
	char name[32] = "";
	int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		      O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		ssize_t n = read(fd, name, sizeof(name) - 1);

		name[n > 0 ? n : 0] = 0;
		close(fd);
	}
	for (unsigned i = 0; i < sizeof(stable) / sizeof(*stable); i++)
		if (strcmp(name, stable[i]) == 0)
			return false;
	return true;
}
