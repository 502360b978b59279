/* SPDX-License-Identifier: MIT */
/* The running kernel's ids next to the simulated ones, as nearcpu sim --kernel compares them. The
 * laboratory runs it on its kernels. The differences are printed; no simulated id may be in use
 * twice.
 *
 * usage: sim_kernel_test [SECONDS]
 * With SECONDS, as in the laboratory, where nothing else runs, the differences have to be small. */
#include "sim/kernel.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENOUGH 2000 /* switches, for less than 10 % of chance */

static void print_row(const char *label, double kernel, double simulated)
{
	printf("%-28s kernel %8.2f  simulated %8.2f  off %+.1f %%\n", label, kernel, simulated,
	       kernel > 0 ? 100 * (simulated / kernel - 1) : 0);
}

static bool is_near(const struct kernel_figures *k, const struct kernel_figures *s)
{
	return fabs(s->mean - k->mean) <= .1 * k->mean && fabs(s->kept - k->kept) <= .1 * k->kept &&
	       fabs((double)s->most - k->most) <= .1 * k->most + 1;
}

int main(int argc, char **argv)
{
	struct kernel_result r;
	const char *why;
	int err = kernel_compare(argc > 1 ? (unsigned)atoi(argv[1]) : 1, &r, &why);

	if (err == -ENOTSUP || err == -EINVAL) {
		printf("skipped: %s\n", why);
		return 77;
	}
	if (err) {
		printf("%s: %s\n", why, strerror(-err));
		/* A busy machine's other tasks can fill the buffers. */
		return err == -ENOBUFS ? 77 : 1;
	}
	printf("policy %s, %u threads, %zu switches of %zu compared, same id in %.2f %%\n",
	       r.policy, r.threads, r.compared, r.switches, r.same);
	for (unsigned i = 0; i < KERNEL_OTHERS; i++)
		printf("policy %s: same id in %.2f %%, mean %.2f, highest %.0f, keep %.2f %%\n",
		       r.others[i].policy, r.others[i].same, r.others[i].figures.mean,
		       r.others[i].figures.highest, r.others[i].figures.kept);
	print_row("ids in use in 10 ms, mean", r.kernel.mean, r.simulated.mean);
	print_row("ids in use in 10 ms, most", r.kernel.most, r.simulated.most);
	print_row("highest id", r.kernel.highest, r.simulated.highest);
	print_row("switches keep id, %", r.kernel.kept, r.simulated.kept);
	if (argc > 1 && r.compared >= ENOUGH && !is_near(&r.kernel, &r.simulated)) {
		printf("more than 10 %% off\n");
		return 1;
	}
	return r.violations || !r.compared;
}
