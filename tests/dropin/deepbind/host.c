/* SPDX-License-Identifier: MIT */
/* Loads plugin.c with RTLD_DEEPBIND, by a name that only the RUNPATH of this object finds. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "plugin.h"

/* Constructors of libraries run in no order that is known: this may be the first call. */
static void *at_start;

__attribute__((constructor)) static void load_early(void)
{
	at_start = dlopen("libnear_deepbind_plugin.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}

const struct plugin *host_load(const char **error)
{
	void *p = dlopen("libnear_deepbind_plugin.so", RTLD_LAZY | RTLD_GLOBAL | RTLD_DEEPBIND);

	if (!p || p != at_start) {
		*error = p ? "it was not loaded at the start" : dlerror();
		return NULL;
	}
	return dlsym(p, "plugin");
}
