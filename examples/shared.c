/* SPDX-License-Identifier: MIT */
/* Two processes count into one region; one of them is killed, and what it counted stays. */
#include <nearcpu/shared_counters.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS 100000

enum { JOBS_DONE, ERRORS, COUNTERS };

/* Both processes open the counters by their name. */
static struct near_shared_counters open_counters(struct near_region *region)
{
	static struct near_shared_counters_options options; /* 0: the defaults */
	struct near_shared_counters counters;

	options.count = COUNTERS;
	if (near_shared_counters_open(&counters, region, "statistics", NULL, &options)) {
		fprintf(stderr, "statistics: %s\n", near_region_error(region));
		exit(1);
	}
	return counters;
}

static void work(struct near_region *region)
{
	struct near_shared_counters counters = open_counters(region);

	for (int i = 1; i <= JOBS; i++) {
		near_shared_counters_add(&counters, JOBS_DONE, 1);
		if (i % 1000 == 0)
			near_shared_counters_add(&counters, ERRORS, 1);
	}
}

int main(void)
{
	struct near_shared_counters counters;
	struct near_region region, mine;
	pid_t child;
	int status;

	if (near_region_open(&region, NULL, NULL)) {
		fprintf(stderr, "region: %s\n", near_region_error(&region));
		return 1;
	}
	child = fork();
	if (child < 0)
		return 1;
	if (child == 0) {
		/* As a process would that was sent the descriptor. */
		if (near_region_open_fd(&mine, region.fd))
			_exit(1);
		work(&mine);
		raise(SIGKILL);
	}
	work(&region);
	waitpid(child, &status, 0);
	printf("the other process was %s\n", WIFSIGNALED(status) ? "killed" : "not killed");
	counters = open_counters(&region);
	printf("%lld jobs, %lld errors\n",
	       (long long)near_shared_counters_read(&counters, JOBS_DONE),
	       (long long)near_shared_counters_read(&counters, ERRORS));
	near_region_close(&region);
	return 0;
}
