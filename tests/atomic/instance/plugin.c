/* SPDX-License-Identifier: MIT */
/* Compiled once for each object, with PLUGIN as the name of what it offers. */
#include "plugin.h"

#include "../operations.h"
#include "atomic/table.h"

static void *table(void)
{
	return &near__atomic_table;
}

static void load(size_t n, const void *object, void *result)
{
	call_load(n, object, result, __ATOMIC_SEQ_CST);
}

static void store(size_t n, void *object, void *value)
{
	call_store(n, object, value, __ATOMIC_SEQ_CST);
}

static bool cas(size_t n, void *object, void *expected, void *desired)
{
	return call_compare_exchange(n, object, expected, desired, __ATOMIC_SEQ_CST,
				     __ATOMIC_SEQ_CST);
}

__attribute__((visibility("default")))
const struct atomic_plugin PLUGIN = {.table = table, .load = load, .store = store, .cas = cas};
