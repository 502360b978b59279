/* SPDX-License-Identifier: MIT */
/* new_host PLUGIN: what new_plugin.cc finds, in a program without a C++ library. Without PLUGIN it
 * requests too much itself, and there is no C++ library to report it to. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static int request(void)
{
	struct rlimit none = {0, 0};
	void *(*new)(size_t);

	*(void **)&new = dlsym(RTLD_DEFAULT, "_Znwm");
	if (!new)
		return 1;
	setrlimit(RLIMIT_CORE, &none);
	new (SIZE_MAX / 2);
	return 1;
}

int main(int argc, char **argv)
{
	void *plugin;
	int (*fails)(void);

	if (dlsym(RTLD_DEFAULT, "__cxa_throw")) {
		fprintf(stderr, "there is a C++ library before the plugin comes\n");
		return 1;
	}
	if (argc != 2)
		return request();
	plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!plugin) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	*(void **)&fails = dlsym(plugin, "plugin_fails");
	if (!fails || fails() != 5) {
		fprintf(stderr, "%d of 5\n", fails ? fails() : 0);
		return 1;
	}
	return 0;
}
