/* SPDX-License-Identifier: MIT */
/* A program of a user: uses one structure with inline functions and one without. */
#include <nearcpu/counter.h>
#include <nearcpu/rseq.h>
#include <stdio.h>

int main(void)
{
	struct near_counter hits;
	struct near_rseq_status status;

	if (near_counter_init(&hits))
		return 1;
	for (int i = 0; i < 1000; i++)
		near_counter_add(&hits, 2);
	near_rseq_status(&status, sizeof(status));
	printf("%lld, rseq %s\n", (long long)near_counter_read(&hits), status.live ? "on" : "off");
	if (near_counter_read(&hits) != 2000)
		return 1;
	near_counter_destroy(&hits);
	return 0;
}
