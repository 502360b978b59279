/* SPDX-License-Identifier: MIT */
/* nearcpu sim --kernel. */
#include "common/child.h"
#include "common/output.h"
#include "common/tool.h"
#include "sim/kernel.h"

#include <errno.h>
#include <string.h>

static double difference(double simulated, double kernel)
{
	return kernel > 0 ? 100 * (simulated / kernel - 1) : 0;
}

/* One figure, a double at this offset: of the kernel, of its policy and of the others. */
static void print_row(const struct kernel_result *r, const char *label, size_t offset)
{
#define FIGURE(f) (*(const double *)((const char *)&(f) + offset))
	double kernel = FIGURE(r->kernel), simulated = FIGURE(r->simulated);

	printf("%-26s%10.2f%10.2f%+10.1f", label, kernel, simulated, difference(simulated, kernel));
	for (unsigned i = 0; i < KERNEL_OTHERS; i++)
		printf("%10.2f", FIGURE(r->others[i].figures));
	putchar('\n');
#undef FIGURE
}

static void result_print(const struct kernel_result *r)
{
	printf("%u threads, %zu records of the scheduler; %zu switches to the threads, of which "
	       "%zu\nhave an id recorded; this kernel's policy is %s\n\n",
	       r->threads, r->records, r->switches, r->compared, r->policy);
	printf("%-26s%10s%10s%10s", "", "kernel", r->policy, "% off");
	for (unsigned i = 0; i < KERNEL_OTHERS; i++)
		printf("%10s", r->others[i].policy);
	putchar('\n');
	print_row(r, "ids in use in 10 ms, mean", offsetof(struct kernel_figures, mean));
	print_row(r, "ids in use in 10 ms, most", offsetof(struct kernel_figures, most));
	print_row(r, "highest id", offsetof(struct kernel_figures, highest));
	print_row(r, "switches keep id, %", offsetof(struct kernel_figures, kept));
	printf("%-26s%10s%10.2f%10s%10.2f%10.2f\n", "the kernel's id, %", "", r->same, "",
	       r->others[0].same, r->others[1].same);
}

static json_t *figures_json(const struct kernel_figures *f)
{
	return json_pack("{s:f, s:i, s:i, s:f}", "ids_mean", f->mean, "ids_most", (int)f->most,
			 "id_highest", (int)f->highest, "kept_percent", f->kept);
}

static json_t *result_json(const struct kernel_result *r)
{
	return json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:f, s:o, s:o}", "tool",
			 "nearcpu sim --kernel", "policy", r->policy, "threads", (int)r->threads,
			 "records", (json_int_t)r->records, "switches", (json_int_t)r->switches,
			 "compared", (json_int_t)r->compared, "same_percent", r->same, "kernel",
			 figures_json(&r->kernel), "simulated", figures_json(&r->simulated));
}

int sim_compare(unsigned seconds, const char *json)
{
	struct kernel_result result;
	const char *why;
	int err = output_check("sim", json);

	if (err)
		return err;
	child_catch_signals();
	err = kernel_compare(seconds, &result, &why);
	if (child_interrupted()) {
		failure("sim", "interrupted; no file was written");
		return 128 + child_interrupted();
	}
	if (err == -ENOTSUP || err == -ENOBUFS)
		return failure("sim", "cannot compare: %s", why);
	if (err)
		return failure("sim", "cannot compare: %s: %s", why, strerror(-err));
	if (!output_is_stdout(json))
		result_print(&result);
	return json ? output_json("sim", json, result_json(&result)) : EXIT_DONE;
}
