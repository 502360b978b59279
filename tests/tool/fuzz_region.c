/* SPDX-License-Identifier: MIT */
/* Regions that are anything: one input, as libFuzzer and fuzz_main.c give it. It is opened, used,
 * and listed by nearcpu stats. */
#include <nearcpu/histogram.h>
#include <nearcpu/shared_counters.h>

#include "common/tool.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct near_region *r, const struct near_region_object *o)
{
	struct near_shared_counters s;
	struct near_histogram h;
	struct near_histogram_snapshot snapshot;

	if (near_shared_counters_open_object(&s, r, o) == 0) {
		near_shared_counters_add(&s, s.count - 1, 1);
		near_shared_counters_reset(&s, s.count - 1);
	}
	if (near_histogram_open_object(&h, r, o) == 0) {
		near_histogram_record(&h, UINT64_MAX);
		if (near_histogram_read(&h, &snapshot) == 0)
			near_histogram_snapshot_free(&snapshot);
	}
	if (near_region_populate(r, o, 0, o->size) == 0)
		memset(near_region_common(r, o->offset), 1, o->size);
}

static void use_all(int fd)
{
	struct near_region r;
	struct near_region_object o = {.name = "new", .kind = NEAR_REGION_COUNTERS, .size = 8};

	if (near_region_open_fd(&r, fd))
		return;
	near_region_open_object(&r, &o);
	for (unsigned i = 0; near_region_object(&r, i, &o) == 0; i++)
		use(&r, &o);
	near_region_close(&r);
}

/* What it prints goes nowhere; what a sanitizer prints later does not. */
static void list(int fd, const char *option)
{
	static int nowhere = -1, out, err;
	char path[64], *argv[] = {(char *)"stats", (char *)option, path, NULL};

	if (nowhere < 0) {
		nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
		out = dup(STDOUT_FILENO);
		err = dup(STDERR_FILENO);
	}
	fflush(stdout);
	dup2(nowhere, STDOUT_FILENO);
	dup2(nowhere, STDERR_FILENO);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	optind = 0;
	stats_main(3, argv);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const forms[] = {
		"--",     "--json", "--prometheus", "--openmetrics", "--prometheus-native",
		"--otlp", "--hdr"};
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	for (unsigned i = 0; i < sizeof(forms) / sizeof(*forms); i++)
		list(fd, forms[i]);
	use_all(fd);
	list(fd, "--json");
	close(fd);
	return 0;
}
