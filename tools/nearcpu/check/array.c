/* SPDX-License-Identifier: MIT */
/* Arrays that are sorted by address. */
#include "check/array.h"

#include <stdlib.h>
#include <string.h>

static uint64_t address_of(const void *element)
{
	uint64_t address;

	memcpy(&address, element, sizeof(address));
	return address;
}

static int by_address(const void *a, const void *b)
{
	return (address_of(a) > address_of(b)) - (address_of(a) < address_of(b));
}

void array_sort(void *array, size_t count, size_t size)
{
	if (count)
		qsort(array, count, size, by_address);
}

size_t array_find(const void *array, size_t count, size_t size, uint64_t address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (address_of((const char *)array + middle * size) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
