/* SPDX-License-Identifier: MIT */
/* usage: region [FILE]
 *
 * Three worker processes of a server count requests in a region; a monitor lists what is in it,
 * without knowing the names, as nearcpu stats FILE does. */
#include <nearcpu/region.h>
#include <nearcpu/shared_counters.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 3
#define REQUESTS 1000

static void die(const struct near_region *region)
{
	fprintf(stderr, "region: %s\n", near_region_error(region));
	exit(1);
}

static void open_region(struct near_region *region, const char *path)
{
	static struct near_region_options options; /* 0: the defaults */

	options.flags = NEAR_CREATE;
	options.max_objects = 100;
	if (near_region_open(region, path, &options))
		die(region);
}

static void work(const char *path)
{
	struct near_region region;
	struct near_shared_counters good, bad;

	open_region(&region, path);
	if (near_shared_counters_open(&good, &region, "requests", "code=\"200\"", NULL) ||
	    near_shared_counters_open(&bad, &region, "requests", "code=\"500\"", NULL))
		die(&region);
	for (int i = 1; i <= REQUESTS; i++)
		near_shared_counters_add(i % 100 ? &good : &bad, 0, 1);
	near_region_close(&region);
}

static void list(const char *path)
{
	struct near_region region;
	struct near_region_object object;
	struct near_shared_counters counters;

	if (near_region_open(&region, path, NULL))
		die(&region);
	for (unsigned i = 0; near_region_object(&region, i, &object) == 0; i++)
		if (near_shared_counters_open_object(&counters, &region, &object) == 0)
			printf("%s{%s} %lld\n", object.name, object.labels,
			       (long long)near_shared_counters_read(&counters, 0));
	near_region_close(&region);
}

int main(int argc, char **argv)
{
	char path[64];
	int failed = 0, status;

	snprintf(path, sizeof(path), "/tmp/nearcpu-region-%d", (int)getpid());
	if (argc > 1)
		snprintf(path, sizeof(path), "%s", argv[1]);
	for (int i = 0; i < WORKERS; i++) {
		pid_t child = fork();

		if (child == 0) {
			work(path);
			_exit(0);
		}
		failed |= child < 0;
	}
	while (wait(&status) > 0)
		failed |= status;
	if (!failed)
		list(path);
	if (argc < 2)
		unlink(path);
	return failed ? 1 : 0;
}
