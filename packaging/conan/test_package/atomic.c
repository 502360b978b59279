/* SPDX-License-Identifier: MIT */
/* A program of a user, which knows of C11 alone. */
#include <stdatomic.h>
#include <stdio.h>

struct wide {
	long a, b, c;
};

int main(void)
{
	static _Atomic struct wide shared;
	struct wide expected = {0, 0, 0}, copy, last;

	if (!atomic_compare_exchange_strong(&shared, &expected, ((struct wide){1, 2, 3})))
		return 1;
	if (atomic_compare_exchange_strong(&shared, &expected, ((struct wide){4, 5, 6})))
		return 1;
	copy = atomic_exchange(&shared, ((struct wide){7, 8, 9}));
	last = atomic_load(&shared);
	printf("%ld %ld %ld\n", copy.a, expected.b, last.c);
	return copy.a != 1 || expected.b != 2 || last.c != 9;
}
