/* SPDX-License-Identifier: MIT */
/* What each object that contains libatomic, or is linked with it, offers to the test of
 * instances. */
#ifndef NEARCPU_TESTS_ATOMIC_PLUGIN_H
#define NEARCPU_TESTS_ATOMIC_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

struct atomic_plugin {
	void *table; /* where its locks are */
	void (*load)(size_t n, const void *object, void *result, int order);
	void (*store)(size_t n, void *object, const void *value, int order);
	bool (*cas)(size_t n, void *object, void *expected, const void *desired, int success,
		    int failure);
};

#endif
