/* SPDX-License-Identifier: MIT */
/* Two processes count into one region; one of them is killed, and what it counted stays. */
#include <nearcpu/shared.h>

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS 100000

/* What both sides agree on. */
struct statistics {
	int64_t jobs;
	int64_t errors;
};

static void work(struct near_shared *region)
{
	for (int i = 1; i <= JOBS; i++) {
		near_shared_add(region, offsetof(struct statistics, jobs), 1);
		if (i % 1000 == 0)
			near_shared_add(region, offsetof(struct statistics, errors), 1);
	}
}

int main(void)
{
	struct near_shared region;
	pid_t child;
	int r = near_shared_create(&region, sizeof(struct statistics));

	if (r) {
		fprintf(stderr, "near_shared_create: %s\n", strerror(-r));
		return 1;
	}
	child = fork();
	if (child < 0)
		return 1;
	if (child == 0) {
		struct near_shared mine; /* as a process would that was sent the descriptor */

		if (near_shared_attach(&mine, region.fd))
			_exit(1);
		work(&mine);
		raise(SIGKILL);
	}
	work(&region);
	waitpid(child, &r, 0);
	printf("the other process was %s\n", WIFSIGNALED(r) ? "killed" : "not killed");
	printf("%lld jobs, %lld errors\n",
	       (long long)near_shared_read(&region, offsetof(struct statistics, jobs)),
	       (long long)near_shared_read(&region, offsetof(struct statistics, errors)));
	near_shared_close(&region);
	return 0;
}
