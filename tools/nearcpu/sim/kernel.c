/* SPDX-License-Identifier: MIT */
/* The comparison with the running kernel: its steps. */
#include "sim/kernel.h"

#include <errno.h>
#include <nearcpu/rseq.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>

/* The policy of this kernel; false if it has another. */
static bool kernel_policy(struct sim_policy *out)
{
	struct utsname u;
	unsigned major, minor;

	if (uname(&u) || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return false;
	minor = major > 6 ? 99 : major < 6 ? 0 : minor;
	return minor >= 4 && sim_find_policy(minor < 13   ? "6.4"
					     : minor < 19 ? "6.13"
							  : "6.19",
					     out);
}

static bool has_cids(void)
{
	struct near_rseq_status st;

	near_rseq_status(&st, sizeof(st));
	return st.live && st.has_cid;
}

static int run_traced(struct kernel_trace *t, struct kernel_samples *s, unsigned seconds, int *pid,
		      const char **why)
{
	int err = kernel_trace_start(t, near_cpus(), why), status;

	if (err)
		return err == -EACCES || err == -EPERM || err == -ENOENT || err == -ENODEV
			       ? -ENOTSUP
			       : err;
	*why = "the load";
	*pid = kernel_load(s, seconds);
	if (*pid < 0)
		return *pid;
	while (waitpid(*pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return -EIO;
	return kernel_trace_stop(t, why);
}

static int replay_all(const struct kernel_trace *t, const struct kernel_samples *s, int pid,
		      const char *name, struct kernel_result *out)
{
	static const char *const names[] = {"6.4", "6.13", "6.19"};
	struct kernel_result other;
	struct sim_policy policy;
	int err = 0;

	for (unsigned i = 0, n = 0; i < sizeof(names) / sizeof(names[0]) && !err; i++) {
		bool is_own = strcmp(names[i], name) == 0;

		sim_find_policy(names[i], &policy);
		err = kernel_replay(t, s, pid, &policy, is_own ? out : &other);
		if (!is_own && n < KERNEL_OTHERS) {
			out->others[n].policy = policy.name;
			out->others[n].figures = other.simulated;
			out->others[n++].same = other.same;
		}
	}
	return err;
}

int kernel_compare(unsigned seconds, struct kernel_result *out, const char **why)
{
	struct kernel_trace trace = {.path = ""};
	struct kernel_samples *samples;
	struct sim_policy policy;
	int err, pid;

	*out = (struct kernel_result){.policy = NULL};
	*why = "no policy simulates this kernel; they are for Linux 6.4 on and 4,096 CPUs";
	if (!kernel_policy(&policy) || near_cpus() > SIM_CPUS)
		return -ENOTSUP;
	*why = "no concurrency ids in this process (see nearcpu info)";
	if (!has_cids())
		return -ENOTSUP;
	*why = "memory for the records";
	err = kernel_samples_new(&samples, near_cpus());
	if (err)
		return err;
	err = run_traced(&trace, samples, seconds, &pid, why);
	if (!err) {
		*why = "the trace does not have the process; run it in the first pid namespace";
		err = replay_all(&trace, samples, pid, policy.name, out);
	}
	kernel_trace_free(&trace);
	kernel_samples_free(samples);
	return err;
}
