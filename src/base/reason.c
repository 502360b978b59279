/* SPDX-License-Identifier: MIT */
/* The reason of each thread, see reason.h. */
#include "base/reason.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/block.h"

NEAR__BLOCK_PART(near__last, struct near__reason, reason);

/* No block is taken to store that there is no reason. */
struct near__reason near__reason_exchange(struct near__reason reason)
{
	struct near__reason before = *near__last_peek(), *last;

	if (!near__storage_is_own() || (!reason.object && !before.object))
		return before;
	last = near__last_own();
	if (last)
		*last = reason;
	return before;
}

int near__reason_set(const void *object, int error, const char *sentence)
{
	near__reason_exchange((struct near__reason){object, sentence, error});
	return error;
}

int near__reason_pass_on(const void *object, int error)
{
	return near__reason_set(object, error, near__last_peek()->sentence);
}

const char *near__reason_of(const void *object)
{
	const struct near__reason *last;
	const char *sentence;
	int saved = errno;

	if (!near__storage_is_own())
		return "no reason is stored while a child of vfork or clone shares the thread's "
		       "storage";
	if (!near__block())
		return "no memory";
	last = near__last_peek();
	if (last->object != object)
		return NULL;
	sentence = last->sentence ? last->sentence : strerror(-last->error);
	errno = saved;
	return sentence;
}
