/* SPDX-License-Identifier: MIT */
/* Compiled once for each object, with PLUGIN as the name of what it offers. */
#include "plugin.h"

#include "../calls.h"
#include "atomic/table.h"

__attribute__((visibility("default"))) const struct atomic_plugin PLUGIN = {
	&near__atomic_locks, call_load, call_store, call_compare_exchange};
