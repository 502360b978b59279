/* SPDX-License-Identifier: MIT */
/* What an object offers that contains the library, or is linked with the shared one. */
#include "plugin.h"

#include <stdlib.h>

#include "base/block.h"
#include "kernel/kernel.h"
#include "parking/lot.h"

static int open_all(struct near_counter *count, struct near_refcount *ref, struct near_stack *stack)
{
	int r = near_counter_init(count);

	r = r ? r : near_refcount_init(ref, NULL);
	return r ? r : near_stack_init(stack);
}

#define CALL(type, name, parameters, ...)                                                          \
	static type name parameters                                                                \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}

CALL(void, add, (struct near_counter * count, int64_t n), near_counter_add(count, n))
CALL(int64_t, read_count, (struct near_counter * count), return near_counter_read(count))
CALL(void, get, (struct near_refcount * ref), near_refcount_get(ref))
CALL(void, put, (struct near_refcount * ref), near_refcount_put(ref))
CALL(void, push, (struct near_stack * s, struct near_stack_node *n), near_stack_push(s, n))
CALL(void, unlock, (struct near_mutex * m), near_mutex_unlock(m))

static void *address(enum plugin_part part)
{
	void *const all[] = {
		[SELF] = &near__self,       [DEAD] = &near__dead,
		[PROCESS] = &near__process, [LOT] = &near__lot,
		[MORE] = &near__more,       [NO_BLOCK] = (void *)(uintptr_t)&near__no_block,
	};

	return all[part];
}

static struct near_stack_node *pop(struct near_stack *stack)
{
	struct near_stack_node *node = near_stack_pop(stack);

	return node ? node : near_stack_steal(stack);
}

static void lock(struct near_mutex *m)
{
	near_mutex_lock(m);
	__asm__ volatile("" ::: "memory"); /* no tail call: the checker is to find this place */
}

static unsigned registration(void)
{
	struct near_rseq_status status;

	near_rseq_status(&status, sizeof(status));
	return (unsigned)status.live | (unsigned)status.own_area << 1;
}

static const char *why(void)
{
	struct near_rseq_status status;

	near_rseq_status(&status, sizeof(status));
	return status.why;
}

#ifdef EARLY
/* The first use is before the library's own constructors, as that of a malloc can be. */
__attribute__((constructor(101))) static void begin_early(void)
{
	if (getenv("INSTANCE_EARLY"))
		registration();
}
#endif

NEAR_API const struct plugin PLUGIN = {
	.address = address,
	.registration = registration,
	.why = why,
	.open_all = open_all,
	.add = add,
	.read = read_count,
	.get = get,
	.put = put,
	.kill = near_refcount_kill,
	.push = push,
	.pop = pop,
	.park = near_park,
	.unpark = near_unpark,
	.lock = lock,
	.unlock = unlock,
};
