/* SPDX-License-Identifier: MIT */
/* usage: host PLUGIN: uses a plugin, closes it, and uses it again: its code stays loaded. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *plugin = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
	int (*count)(int);

	if (!plugin) {
		printf("%s\n", dlerror());
		return 1;
	}
	*(void **)&count = dlsym(plugin, "count");
	if (count(1000) != 1000 || dlclose(plugin))
		return 1;
	if (!dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD)) {
		printf("%s was unloaded\n", argv[1]);
		return 1;
	}
	return count(1000) != 2000;
}
