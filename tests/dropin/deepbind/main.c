/* SPDX-License-Identifier: MIT */
/* Runs with the allocator preloaded, and exchanges blocks with a plugin that was loaded with
 * RTLD_DEEPBIND. An object that does not exist is refused with the reason, as ever. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

static int fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	return 1;
}

static int exchange(const struct plugin *plugin, size_t n)
{
	char *p = plugin->resize(strdup("of the program"), n), *q = plugin->alloc(n), *line = NULL;
	int wrong = strcmp(p, "of the program") != 0;

	plugin->free(p);
	q = realloc(q, 2 * n);
	free(q);
	if (asprintf(&line, "%zu", n) < 0)
		return fail("asprintf");
	plugin->free(line);
	return wrong ? fail("the content is lost") : 0;
}

int main(void)
{
	const char *error = NULL;
	const struct plugin *plugin;

	if (!dlsym(RTLD_DEFAULT, "near_malloc_stats"))
		return fail("the allocator is not preloaded");
	plugin = host_load(&error);
	if (!plugin)
		return fail(error);
	for (size_t n = 20; n < 1000000; n *= 2)
		if (exchange(plugin, n))
			return 1;
	if (dlopen("/nonexistent.so", RTLD_NOW | RTLD_DEEPBIND) ||
	    !strstr(dlerror(), "nonexistent"))
		return fail("what does not exist was loaded");
	if (!dlopen(NULL, RTLD_NOW))
		return fail("the program itself was not loaded");
	return 0;
}
