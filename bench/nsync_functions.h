/* SPDX-License-Identifier: MIT */
/* nsync_functions: libnsync's functions, loaded when a row needs them, so that no program links the
 * library. The calls are indirect, as calls through the PLT are. */
#ifndef BENCH_NSYNC_FUNCTIONS_H
#define BENCH_NSYNC_FUNCTIONS_H

#include <dlfcn.h>
#include <nsync.h>
#include <stddef.h>

static struct {
	void (*lock)(nsync_mu *), (*unlock)(nsync_mu *), (*rlock)(nsync_mu *),
		(*runlock)(nsync_mu *);
} nsync;

/* NULL, or why the rows are missing. */
static inline const char *nsync_load(void)
{
	void *library = dlopen("libnsync.so.1", RTLD_NOW);

	if (!library)
		return "libnsync.so.1 cannot be loaded (package libnsync-dev)";
	*(void **)&nsync.lock = dlsym(library, "nsync_mu_lock");
	*(void **)&nsync.unlock = dlsym(library, "nsync_mu_unlock");
	*(void **)&nsync.rlock = dlsym(library, "nsync_mu_rlock");
	*(void **)&nsync.runlock = dlsym(library, "nsync_mu_runlock");
	return nsync.lock && nsync.unlock && nsync.rlock && nsync.runlock
		       ? NULL
		       : "libnsync.so.1 is another version";
}

#endif
