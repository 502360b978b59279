/* SPDX-License-Identifier: MIT */
/* nearcpu stats: what a region holds, without knowing the program that made it. */

#include "common/memory.h"
#include "common/options.h"
#include "common/output.h"
#include "common/text.h"
#include "stats/convert.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool as_json, as_prometheus, as_openmetrics, as_native, as_otlp, as_hdr;
static uint64_t buckets; /* 0: all */
static uint64_t watch;   /* seconds; 0: once */

static const struct option_row rows[] = {
	{"json", .help = "as JSON", .flag = &as_json},
	{"prometheus", .help = "in Prometheus' text format", .flag = &as_prometheus},
	{"openmetrics", .help = "in OpenMetrics' text format", .flag = &as_openmetrics},
	{"prometheus-native", .help = "in Prometheus' protocol buffers, with native histograms",
	 .flag = &as_native},
	{"otlp", .help = "as OpenTelemetry's JSON, for a collector's /v1/metrics",
	 .flag = &as_otlp},
	{"buckets", "N", .number = &buckets, .least = 5, .most = 65536,
	 .wants = "a number from 5 to 65536",
	 .help = "at most N buckets in native and OpenTelemetry's histograms"},
	{"hdr", .help = "the histograms, as a log of HdrHistogram", .flag = &as_hdr},
	{"watch", "SECONDS", .number = &watch, .least = 1, .most = 86400,
	 .wants = "a number from 1 to 86400", .help = "again and again, until it is interrupted"},
	{.name = NULL},
};

static const struct option_table table = {
	.sub = "stats",
	.rows = rows,
	.width = 22,
	.files = true,
	.head = "usage: nearcpu stats [OPTION...] FILE\n\n"
		"Lists what the region in FILE holds (near_region(3)): its counters and their\n"
		"values, while the programs that share it go on, or after they have ended. A\n"
		"region without a name is /proc/PID/fd/N of a process that uses it.\n\n",
	.tail = "\nExit status: 0 done, 1 no region or damaged, 2 wrong usage.\n",
};

/* ---- reading ---- */

static int compare_names(const void *a, const void *b)
{
	const struct near_region_object *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	return order ? order : strverscmp(left->labels, right->labels); /* 64 before 128 */
}

static void read_objects(struct content *c)
{
	c->objects = allocate_zeros(c->status.objects, sizeof(*c->objects));
	while (c->count < c->status.objects &&
	       near_region_object(&c->region, c->count, &c->objects[c->count]) == 0)
		c->count++;
	qsort(c->objects, c->count, sizeof(*c->objects), compare_names);
}

/* What a user can do about it. */
static const char *advice(int error)
{
	switch (error) {
	case -EBADMSG:
		return "; a region is a file that programs make by near_region(3)";
	case -EPROTO:
		return "; use the nearcpu command of that version";
	default:
		return "";
	}
}

static int read_region(struct content *c)
{
	/* A pipe would wait for its writer. */
	int fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err;

	if (fd < 0)
		return failure("stats", "cannot open '%s': %s", c->path, strerror(errno));
	err = near_region_open_fd(&c->region, fd);
	close(fd);
	if (err)
		return failure("stats", "'%s': %s%s", c->path, near_region_error(&c->region),
			       advice(err));
	near_region_stats(&c->region, &c->status, sizeof(c->status));
	make_printable(c->status.program, ""); /* it goes to a terminal */
	read_objects(c);
	return EXIT_DONE;
}

static int content_print(struct content *c)
{
	if (as_hdr)
		return print_hdr(c);
	if (as_json || as_otlp)
		return output_json("stats", "-", as_json ? region_json(c) : region_otlp(c));
	if (as_native)
		print_native(c);
	else if (as_prometheus || as_openmetrics)
		print_prometheus(c, as_openmetrics);
	else
		print_text(c);
	return EXIT_DONE;
}

static int region_list(struct content *c)
{
	int code = read_region(c);

	if (code == EXIT_DONE) {
		code = finish_stdout("stats", content_print(c));
		if (code == EXIT_DONE && c->damaged)
			code = failure("stats", "'%s': damaged histograms", c->path);
	}
	if (c->region.header)
		near_region_close(&c->region);
	free(c->objects);
	return code;
}

/* A file that the next program makes again is read by its name. */
static int region_watch(const char *path)
{
	int code;

	do {
		struct content c = {.path = path,
				    .buckets = buckets ? (unsigned)buckets : UINT_MAX};

		if (watch && isatty(STDOUT_FILENO))
			fputs("\033[H\033[J", stdout);
		code = region_list(&c);
	} while (watch && code == EXIT_DONE && (sleep((unsigned)watch), true));
	return code;
}

int stats_main(int argc, char **argv)
{
	int code;

	/* Of an earlier call. */
	as_json = as_prometheus = as_openmetrics = as_native = as_otlp = as_hdr = false;
	buckets = watch = 0;
	code = parse_options(&table, argc, argv);
	if (code != OPTIONS_DONE)
		return code;
	if (optind + 1 != argc)
		return usage_error("stats", optind < argc ? "one file at a time" : "no file given");
	if (as_json + as_prometheus + as_openmetrics + as_native + as_otlp + as_hdr > 1)
		return usage_error("stats", "one form at a time");
	if (buckets && !as_native && !as_otlp)
		return usage_error("stats", "--buckets goes with --prometheus-native and --otlp");
	return region_watch(argv[optind]);
}
