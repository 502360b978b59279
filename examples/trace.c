/* SPDX-License-Identifier: MIT */
/* usage: trace [FOLDER]
 *        nearcpu trace record -- ./trace
 *
 * A shop traces its orders from several threads. A large one takes a snapshot. The shop is killed
 * in the middle, and the file is there: nearcpu trace show FILE. Where the command records, the
 * session is the command's, and the shop only sells. */
#include <nearcpu/trace.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 3
#define ORDERS 10000

enum state { OPEN, PAID, SENT };

NEAR_TRACEPOINT(shop, order, NEAR_TRACE_INFO, (u32, id), (string, customer), (f64, total));
NEAR_TRACEPOINT(shop, change, NEAR_TRACE_INFO, (u32, id), (enum, state, state, OPEN, PAID, SENT));
NEAR_TRACEPOINT(shop, detail, NEAR_TRACE_VERBOSE, (u32, id));

static void *sell(void *first)
{
	uint32_t from = *(uint32_t *)first;

	for (uint32_t id = from; id < from + ORDERS; id++) {
		near_trace_shop_order(id, "alice", 9.99);
		near_trace_shop_detail(id); /* is off: of no importance */
		near_trace_shop_change(id, PAID);
	}
	return NULL;
}

/* An order of more than 100 takes a snapshot of what was before it. From here on orders have the
 * ids of their request, and the functions that led there. */
static void sell_much(const char *folder)
{
	struct near_trace_stats stats;
	char snapshot[4096];

	if (near_trace_trigger("shop:order if total>100") != 1) {
		fprintf(stderr, "trace: %s\n", near_trace_error());
		exit(1);
	}
	near_trace_context("shop:order", NEAR_TRACE_WITH_IDS | NEAR_TRACE_WITH_STACK);
	near_trace_set_ids("a request's name", "its span"); /* 16 and 8 bytes */
	near_trace_shop_order(THREADS * ORDERS, "bob", 120);
	do {
		sched_yield();
		near_trace_stats(&stats, sizeof(stats));
	} while (!stats.snapshots && !stats.failed);
	printf("snapshots of large orders: %u\n", (unsigned)stats.snapshots);
	snprintf(snapshot, sizeof(snapshot), "%s.snapshot-1", near_trace_path());
	if (!folder)
		unlink(snapshot);
}

static void sell_all(void)
{
	uint32_t first[THREADS];
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		first[i] = i * ORDERS;
		pthread_create(&threads[i], NULL, sell, &first[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void run_shop(const char *folder)
{
	struct near_trace_stats stats;
	static struct near_trace_options options; /* 0: the defaults */

	options.path = folder;
	options.ring_size = (size_t)4 << 20;
	if (near_trace_start(&options)) {
		fprintf(stderr, "trace: %s\n", near_trace_error());
		exit(1);
	}
	sell_all();
	sell_much(folder);
	near_trace_message(NEAR_TRACE_NOTICE, "%d orders", THREADS * ORDERS);
	near_trace_stats(&stats, sizeof(stats));
	puts(stats.rings ? "the shop traces its orders" : "there is no ring");
	if (stats.discarded > THREADS * ORDERS / 100) /* the rings are too small */
		printf("%llu events discarded\n", (unsigned long long)stats.discarded);
	if (!folder)
		unlink(near_trace_path());
	fflush(stdout);
	raise(SIGKILL);
}

int main(int argc, char **argv)
{
	pid_t child;
	int status;

	if (near_trace_path()) {
		sell_all();
		return 0;
	}
	child = fork();
	if (child == 0)
		run_shop(argc > 1 ? argv[1] : NULL);
	if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
		return 1;
	printf("the shop was killed by signal %d\n", WTERMSIG(status));
	return 0;
}
