/* SPDX-License-Identifier: MIT */
/* A caller without headers, as other languages are. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern size_t near_ffi_size(const char *type);
extern int near_counter_init(void *counter);
extern void near_counter_add(void *counter, int64_t n);
extern int64_t near_counter_read(const void *counter);
extern void near_counter_destroy(void *counter);

int main(void)
{
	void *counter = calloc(1, near_ffi_size("counter"));
	long long total;

	if (!counter || near_counter_init(counter))
		return 1;
	near_counter_add(counter, 7);
	total = near_counter_read(counter);
	printf("%lld\n", total);
	near_counter_destroy(counter);
	free(counter);
	return total != 7;
}
