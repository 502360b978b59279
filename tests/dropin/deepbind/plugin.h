/* SPDX-License-Identifier: MIT */
#ifndef NEARCPU_TESTS_DEEPBIND_PLUGIN_H
#define NEARCPU_TESTS_DEEPBIND_PLUGIN_H

#include <stddef.h>

struct plugin {
	void *(*alloc)(size_t n);
	void *(*resize)(void *p, size_t n);
	void (*free)(void *p);
};

__attribute__((visibility("default"))) const struct plugin *host_load(const char **error);

#endif
