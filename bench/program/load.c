/* SPDX-License-Identifier: MIT */
/* The CPU time of other programs and of the hypervisor, from /proc/stat. */
#include "program/report.h"

#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"

#define NOTABLE 0.05

static double own_seconds(void)
{
	struct rusage self, children;

	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &children);
	return to_seconds(self.ru_utime) + to_seconds(self.ru_stime) +
	       to_seconds(children.ru_utime) + to_seconds(children.ru_stime);
}

struct load_start load_now(void)
{
	struct load_start now = {.own = own_seconds()};
	unsigned long long user, nice, system, idle, wait, irq, softirq, steal;
	double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
	FILE *f = fopen("/proc/stat", "re");

	if (!f)
		return now;
	if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
		   &wait, &irq, &softirq, &steal) == 8) {
		now.busy = (double)(user + nice + system + irq + softirq) * tick;
		now.stolen = (double)steal * tick;
		now.total = now.busy + now.stolen + (double)(idle + wait) * tick;
	}
	fclose(f);
	return now;
}

struct load_share load_since(const struct load_start *start)
{
	struct load_start now = load_now();
	double total = now.total - start->total;
	double others = now.busy - start->busy - (now.own - start->own);

	if (total <= 0)
		return (struct load_share){0, 0};
	return (struct load_share){
		.others = others > 0 ? others / total : 0,
		.stolen = (now.stolen - start->stolen) / total,
	};
}

bool load_is_quiet(const struct load_share *load)
{
	return load->others < NOTABLE && load->stolen < NOTABLE;
}

bool load_warning(const struct load_share *load, char *out, size_t size)
{
	if (load_is_quiet(load))
		return false;
	snprintf(out, size,
		 "The machine was not quiet: other programs used %.0f %% of its CPU time, the "
		 "hypervisor took %.0f %%. Threads that share a CPU do not contend: measure again "
		 "when it is idle.",
		 load->others * 100, load->stolen * 100);
	return true;
}
