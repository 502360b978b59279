/* SPDX-License-Identifier: MIT */
/* Arrays that grow, and arrays that are sorted by address. */
#include "check/array.h"

#include <stdlib.h>
#include <string.h>

/* Capacities are powers of two, so that the count alone shows when the array is full. */
bool array_grow(void *array, size_t count, size_t size)
{
	void *old, *grown;

	if (count & (count - 1) || (count && count < 8))
		return true;
	if (count > SIZE_MAX / 2 / size)
		return false;
	memcpy(&old, array, sizeof(old));
	grown = realloc(old, (count < 8 ? 8 : 2 * count) * size);
	if (!grown)
		return false;
	memcpy(array, &grown, sizeof(grown));
	return true;
}

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
