/* SPDX-License-Identifier: MIT */
/* Processes book sales in a region, each in the account of an id that it has. One is killed in the
 * middle of a sale: its id comes back, and the worker that acquires it repairs the account. */
#include <nearcpu/shared_ids.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 3, SALES = 1000, PRICE = 7 };
static struct account {
	long sales, income, repaired; /* income: PRICE times sales, but within a sale */
} sum;
static struct near_shared_ids ids;

static struct account *begin(struct near_worker *w)
{
	int id = near_shared_ids_acquire(&ids, w);
	struct account *a = (struct account *)near_shared_ids_data(&ids, id);

	if (id < 0)
		abort();
	if (near_worker_must_repair(w))
		a->income = PRICE * a->sales;
	a->repaired += near_worker_must_repair(w);
	return a;
}

static void sell(bool is_killed)
{
	struct near_worker w = {0, 0};
	struct account *a = begin(&w);

	a->sales++;
	if (is_killed)
		raise(SIGKILL);
	a->income += PRICE;
	near_shared_ids_release(&ids, &w);
}

int main(void)
{
	struct near_region region;
	struct near_shared_ids_options options = {PROCESSES, 0, sizeof(struct account), {0}};
	struct near_worker workers[PROCESSES] = {{0, 0}};

	if (near_region_open(&region, NULL, NULL) ||
	    near_shared_ids_open(&ids, &region, "a", NULL, &options))
		abort();
	for (int child = 0; child < PROCESSES; child++) {
		if (fork())
			continue;
		for (int i = 1; i <= SALES; i++)
			sell(child == 0 && i == SALES / 2);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < PROCESSES; i++) {
		const struct account *a = begin(&workers[i]);

		sum.sales += a->sales;
		sum.income += a->income;
		sum.repaired += a->repaired;
	}
	printf("%ld sales, income %ld, %ld account repaired\n", sum.sales, sum.income,
	       sum.repaired);
	return 0;
}
