/* SPDX-License-Identifier: MIT */
/* lab_memory: what nearcpu bench memory measures of histograms, pools and queues, where there are
 * many possible CPUs. Each row runs in a process of its own, with the row's environment. */
#include "lab.h"

#include <nearcpu/rseq.h>
#include <sys/wait.h>

#include "../../bench/bench.h"

extern const struct bench bench_memory_histogram, bench_memory_pool, bench_memory_queue,
	bench_memory_rcu;

static const struct bench *const benches[] = {&bench_memory_histogram, &bench_memory_pool,
					      &bench_memory_queue, &bench_memory_rcu};

static void measure(const struct bench *b, const struct bench_row *row)
{
	struct bench_run run = {.threads = b->threads, .iterations = b->iterations};
	const char *missing = row->missing ? row->missing() : NULL;
	struct bench_sample sample;
	int err = missing ? 0 : bench_measure(row, &run, &sample);

	if (missing) {
		printf("%s: %s: %s\n", b->title, row->label, missing);
		return;
	}
	if (err || run.wrong)
		LAB_FAIL("%s: %s: %s", b->title, row->label, err ? strerror(-err) : run.wrong);
	printf("%s: %s: %.1f bytes each, %u possible cpus\n", b->title, row->label,
	       (double)sample.bytes / (double)sample.ops, near_cpus());
}

static void start(unsigned b, unsigned row)
{
	const char *conf = benches[b]->rows[row].conf;
	char numbers[2][16];
	int status;
	pid_t child = fork();

	if (child == 0) {
		snprintf(numbers[0], sizeof(numbers[0]), "%u", b);
		snprintf(numbers[1], sizeof(numbers[1]), "%u", row);
		if (conf)
			setenv("NEAR_CONF", conf, 1);
		execl("/proc/self/exe", "lab_memory", numbers[0], numbers[1], (char *)NULL);
		_exit(127);
	}
	LAB_CHECK(child > 0 && waitpid(child, &status, 0) == child);
	LAB_CHECK(status == 0);
}

int main(int argc, char **argv)
{
	if (argc == 3) {
		const struct bench *b = benches[strtoul(argv[1], NULL, 10)];

		measure(b, &b->rows[strtoul(argv[2], NULL, 10)]);
		return 0;
	}
	for (unsigned b = 0; b < BENCH_COUNT(benches); b++)
		for (unsigned row = 0; row < benches[b]->row_count; row++)
			start(b, row);
	return 0;
}
