/* SPDX-License-Identifier: MIT */
/* lab_cids KERNEL: concurrency ids keep within their bounds. Hard ones, on all kernels: below the
 * number of possible CPUs, and no two threads that run have the same, so that sums by slot are
 * exact. Since 6.19 the kernel also keeps them within 5/4 of the threads, or of the CPUs allowed,
 * if those are fewer (commit 23343b6b09ac); before, the text reports how far they spread. */
#define _GNU_SOURCE
#include "lab.h"

#include <nearcpu/counter.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#define MOST 32
#define ROUNDS 400
#define SETTLED 100 /* rounds after which ids of the beginning were given back */

static struct near_counter counter;
static pthread_barrier_t together;

struct seen {
	unsigned most; /* the highest id */
	uint64_t added;
};

static void *take_ids(void *seen)
{
	struct seen *s = seen;
	struct timespec pause = {0, 200 * 1000};

	pthread_barrier_wait(&together);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < 200; i++) {
			unsigned cid = near_cid();

			LAB_CHECK(cid < near_cpus());
			if (round >= SETTLED && cid > s->most)
				s->most = cid;
			near_counter_add(&counter, 1);
			s->added++;
		}
		if (round % 8 == 0)
			nanosleep(&pause, NULL);
	}
	return seen;
}

/* With n threads and the main thread. Returns the highest id. */
static unsigned highest_of(unsigned n)
{
	pthread_t threads[MOST];
	struct seen seen[MOST] = {0};
	uint64_t added = 0;
	unsigned most = 0;

	LAB_CHECK(near_counter_init(&counter) == 0);
	LAB_CHECK(pthread_barrier_init(&together, NULL, n) == 0);
	for (unsigned i = 0; i < n; i++)
		LAB_CHECK(pthread_create(&threads[i], NULL, take_ids, &seen[i]) == 0);
	for (unsigned i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		added += seen[i].added;
		most = seen[i].most > most ? seen[i].most : most;
	}
	LAB_CHECK(near_counter_read(&counter) == (int64_t)added);
	near_counter_destroy(&counter);
	return most;
}

/* Each count in a process of its own, which has no ids from before. */
static void check_count(unsigned n, unsigned online, bool compact)
{
	unsigned least = n + 1 < online ? n + 1 : online;
	unsigned bound = least + least / 4, most;
	pid_t child;
	int status;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		most = highest_of(n);
		printf("%u threads on %u cpus: ids up to %u\n", n, online, most);
		fflush(stdout);
		if (compact && most >= bound)
			LAB_FAIL("should be below %u", bound);
		_exit(0);
	}
	LAB_CHECK(child > 0 && waitpid(child, &status, 0) == child);
	LAB_CHECK(status == 0);
}

int main(int argc, char **argv)
{
	unsigned cpus[LAB_CPUS], online = lab_online(cpus);
	struct near_rseq_status st;

	if (argc != 2) {
		fputs("usage: lab_cids KERNEL\n", stderr);
		return 2;
	}
	near_rseq_status(&st, sizeof(st));
	if (!st.has_cid) {
		puts("skipped: this kernel has no concurrency ids");
		return 77;
	}
	for (unsigned n = 1; n <= MOST; n *= 2)
		check_count(n, online, strcmp(argv[1], "newest") == 0);
	return 0;
}
