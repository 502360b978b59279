/* SPDX-License-Identifier: MIT */
/* known: structures that grow at their end. A program compiled with an older version knows fewer
 * fields than the library, one compiled with a newer version more. */
#ifndef NEARCPU_KNOWN_H
#define NEARCPU_KNOWN_H

#include <errno.h>
#include <string.h>

/* Copies the fields that both know. Further fields of `to` are 0. 0, or -EINVAL without a field. */
static inline int near__copy_known(void *to, size_t to_size, const void *from, size_t from_size)
{
	size_t known = to_size < from_size ? to_size : from_size;

	if (!to_size)
		return -EINVAL;
	memcpy(to, from, known);
	memset((char *)to + known, 0, to_size - known);
	return 0;
}

#endif
