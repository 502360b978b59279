/* SPDX-License-Identifier: MIT */
/* near_metrics: the text of each kind in both formats, what is refused, the size of the
 * pieces, regions, and writes while the values, and the registry, change. */
#include <nearcpu/metrics.h>

#include <inttypes.h>

#include "team.h"

static struct near_metrics metrics;
static struct near_counter c;
static char text[1 << 20];
static size_t length, longest_piece;

static int take_piece(void *argument, const char *piece, size_t size)
{
	CHECK(length + size < sizeof(text));
	memcpy(text + length, piece, size);
	length += size;
	text[length] = '\0';
	longest_piece = size > longest_piece ? size : longest_piece;
	return 0;
}

static int write_text(enum near_metrics_format format)
{
	length = 0;
	text[0] = '\0';
	return near_metrics_write(&metrics, format, take_piece, NULL);
}

static void expect_text(enum near_metrics_format format, const char *expected)
{
	KEEPS_ERRNO(assert_int_equal(write_text(format), 0));
	assert_string_equal(text, expected);
}

static void expect_both(const char *prometheus, const char *openmetrics)
{
	expect_text(NEAR_METRICS_PROMETHEUS, prometheus);
	expect_text(NEAR_METRICS_OPENMETRICS, openmetrics);
}

static int begin(void **state)
{
	metrics.first = NULL;
	memset(&c, 0x5a, sizeof(c));
	return near_counter_init(&c);
}

static int end(void **state)
{
	near_counter_destroy(&c);
	return 0;
}

static void add(struct near_metric *metric)
{
	KEEPS_ERRNO(assert_int_equal(near_metrics_add(&metrics, metric), 0));
}

static int add_named(const char *name, const char *labels, enum near_metric_kind kind)
{
	struct near_metric metric = {.name = name, .labels = labels, .kind = kind, .object = &c};
	int err = near_metrics_add(&metrics, &metric);

	near_metrics_remove(&metrics, &metric);
	return err;
}

/* ---- kinds ---- */

static void an_empty_registry(void **state)
{
	expect_both("", "# EOF\n");
}

static void counters_have_total(void **state)
{
	struct near_metric metric = {.name = "shop_requests",
				     .help = "Line \"one\",\nline \\two.",
				     .kind = NEAR_METRIC_COUNTER,
				     .object = &c};

	add(&metric);
	near_counter_add(&c, INT64_MAX);
	expect_both("# HELP shop_requests_total Line \"one\",\\nline \\\\two.\n"
		    "# TYPE shop_requests_total counter\n"
		    "shop_requests_total 9223372036854775807\n",
		    "# HELP shop_requests Line \\\"one\\\",\\nline \\\\two.\n"
		    "# TYPE shop_requests counter\n"
		    "shop_requests_total 9223372036854775807\n"
		    "# EOF\n");
}

static void gauges_of_three_kinds(void **state)
{
	struct near_gauge g = {-7};
	struct near_metric up = {.name = "b_running", .kind = NEAR_METRIC_UPDOWN, .object = &c};
	struct near_metric gauge = {.name = "a_degrees", .kind = NEAR_METRIC_GAUGE, .object = &g};

	add(&up);
	add(&gauge);
	near_counter_add(&c, -3);
	expect_both("# TYPE a_degrees gauge\na_degrees -7\n# TYPE b_running gauge\nb_running -3\n",
		    "# TYPE a_degrees gauge\na_degrees -7\n# TYPE b_running gauge\nb_running -3\n"
		    "# EOF\n");
}

static void units_divide(void **state)
{
	struct near_gauge g = {1234567};
	struct near_metric age = {.name = "age_seconds",
				  .unit = "seconds",
				  .kind = NEAR_METRIC_GAUGE,
				  .object = &g,
				  .units = 1e9};

	add(&age);
	expect_text(NEAR_METRICS_PROMETHEUS, "# TYPE age_seconds gauge\nage_seconds 0.001234567\n");
	near_gauge_set(&g, 1500000000);
	expect_text(NEAR_METRICS_OPENMETRICS,
		    "# TYPE age_seconds gauge\n# UNIT age_seconds seconds\n"
		    "age_seconds 1.5\n# EOF\n");
}

static double call_nothing(void *object)
{
	return 0;
}

static void histograms_have_a_bucket_for_each_power(void **state)
{
	static const struct near_histogram_options options = {.max = 15, .exact_sum = true};
	struct near_histogram h;
	struct near_metric metric = {.name = "size_bytes",
				     .unit = "bytes",
				     .labels = "op=\"get\"",
				     .kind = NEAR_METRIC_HISTOGRAM,
				     .object = &h};

	assert_int_equal(near_histogram_init(&h, &options), 0);
	add(&metric);
	near_histogram_record(&h, 0);
	near_histogram_record_n(&h, 3, 2);
	near_histogram_record(&h, 4);
	near_histogram_record(&h, 1000);
	expect_both("# TYPE size_bytes histogram\n"
		    "size_bytes_bucket{op=\"get\",le=\"1\"} 1\n"
		    "size_bytes_bucket{op=\"get\",le=\"3\"} 3\n"
		    "size_bytes_bucket{op=\"get\",le=\"7\"} 4\n"
		    "size_bytes_bucket{op=\"get\",le=\"15\"} 4\n"
		    "size_bytes_bucket{op=\"get\",le=\"+Inf\"} 5\n"
		    "size_bytes_sum{op=\"get\"} 1010\n"
		    "size_bytes_count{op=\"get\"} 5\n",
		    "# TYPE size_bytes histogram\n"
		    "# UNIT size_bytes bytes\n"
		    "size_bytes_bucket{op=\"get\",le=\"1.0\"} 1\n"
		    "size_bytes_bucket{op=\"get\",le=\"3.0\"} 3\n"
		    "size_bytes_bucket{op=\"get\",le=\"7.0\"} 4\n"
		    "size_bytes_bucket{op=\"get\",le=\"15.0\"} 4\n"
		    "size_bytes_bucket{op=\"get\",le=\"+Inf\"} 5\n"
		    "size_bytes_sum{op=\"get\"} 1010\n"
		    "size_bytes_count{op=\"get\"} 5\n"
		    "# EOF\n");
	near_histogram_destroy(&h);
}

static void bounds_may_be_left_out(void **state)
{
	struct near_histogram h;
	struct near_metric metric = {.name = "wait_seconds",
				     .kind = NEAR_METRIC_HISTOGRAM,
				     .object = &h,
				     .units = 1000,
				     .least = 4,
				     .most = 31};

	assert_int_equal(near_histogram_init(&h, NULL), 0);
	add(&metric);
	near_histogram_record(&h, 2);
	near_histogram_record(&h, 31);
	near_histogram_record(&h, 63);
	expect_text(NEAR_METRICS_PROMETHEUS, "# TYPE wait_seconds histogram\n"
					     "wait_seconds_bucket{le=\"0.007\"} 1\n"
					     "wait_seconds_bucket{le=\"0.015\"} 1\n"
					     "wait_seconds_bucket{le=\"0.031\"} 2\n"
					     "wait_seconds_bucket{le=\"+Inf\"} 3\n"
					     "wait_seconds_sum 0.096\n"
					     "wait_seconds_count 3\n");
	near_histogram_destroy(&h);
}

/* The time is not compared. */
static void exemplars_are_in_their_buckets(void **state)
{
	static const struct near_histogram_options options = {.units = 10, .max = 1000};
	struct near_histogram h;
	struct near_metric metric = {.name = "h",
				     .labels = "a=\"b\"",
				     .kind = NEAR_METRIC_HISTOGRAM,
				     .object = &h,
				     .least = 15,
				     .most = 31};
	static const char *const lines[] = {
		"h_bucket{a=\"b\",le=\"1.5\"} 2 # {trace_id=\"five\"} 0.5 1",
		"h_bucket{a=\"b\",le=\"3.1\"} 3\n",
		"h_bucket{a=\"b\",le=\"+Inf\"} 5 # {trace_id=\"large\"} 500 1", "h_sum{a=\"b\"} "};
	const char *at = text;

	assert_int_equal(near_histogram_init(&h, &options), 0);
	assert_int_equal(near_histogram_keep_exemplars(&h), 0);
	add(&metric);
	near_histogram_record_exemplar(&h, 1, "one");
	near_histogram_record_exemplar(&h, 5, "five");
	near_histogram_record(&h, 16);
	near_histogram_record_exemplar(&h, 100, "larger");
	near_histogram_record_exemplar(&h, 5000, "large");
	assert_int_equal(write_text(NEAR_METRICS_OPENMETRICS), 0);
	for (unsigned i = 0; i < LENGTH(lines); i++) {
		at = strchr(at, '\n') + 1;
		assert_memory_equal(at, lines[i], strlen(lines[i]));
	}
	assert_int_equal(write_text(NEAR_METRICS_PROMETHEUS), 0);
	assert_null(strstr(text, "trace_id"));
	metric.units = 1000;
	assert_int_equal(write_text(NEAR_METRICS_PROMETHEUS), 0);
	assert_non_null(strstr(text, "le=\"0.031\"} 3\n"));
	near_histogram_destroy(&h);
}

/* Of each precision and maximum the text has what a snapshot has. */
static void the_text_is_that_of_a_snapshot(void **state)
{
	for (unsigned precision = 1; precision <= NEAR_HISTOGRAM_MAX_PRECISION; precision++) {
		struct near_histogram_options options = {
			.precision = precision,
			.max = precision % 3 && precision < 10 ? 0 : 100000};
		struct near_metric metric = {.name = "h", .kind = NEAR_METRIC_HISTOGRAM};
		struct near_histogram_snapshot s;
		struct near_histogram h;
		uint64_t seed = precision;

		assert_int_equal(near_histogram_init(&h, &options), 0);
		metric.object = &h;
		add(&metric);
		for (unsigned i = 0; i < 2000; i++)
			near_histogram_record(&h, (uint64_t)unit_random(&seed) << 32 >>
							  unit_random(&seed) % 63);
		assert_int_equal(near_histogram_read(&h, &s), 0);
		assert_int_equal(write_text(NEAR_METRICS_PROMETHEUS), 0);
		assert_true(strtod(strstr(text, "h_sum ") + 6, NULL) == s.sum);
		for (const char *at = text; (at = strstr(at, "le=\"")); at++) {
			uint64_t bound = strtoull(at + 4, NULL, 10), below = 0;

			for (unsigned i = 0; i < s.buckets; i++)
				if (at[4] == '+' ||
				    near_histogram_snapshot_bucket(&s, i).high <= bound)
					below += s.counts[i];
			assert_int_equal(strtoull(strchr(at, '}') + 2, NULL, 10), below);
		}
		near_metrics_remove(&metrics, &metric);
		near_histogram_snapshot_free(&s);
		near_histogram_destroy(&h);
	}
}

/* ---- the registry ---- */

static void a_name_stands_together(void **state)
{
	struct near_metric a = {.name = "b", .labels = "x=\"2\"", .kind = NEAR_METRIC_COUNTER},
			   b = {.name = "a", .kind = NEAR_METRIC_COUNTER},
			   d = {.name = "b",
				.labels = "x=\"1\"",
				.kind = NEAR_METRIC_COUNTER,
				.help = "First."},
			   e = {.name = "b", .kind = NEAR_METRIC_COUNTER, .help = "Without."};

	a.object = b.object = d.object = e.object = &c;
	add(&a);
	add(&b);
	add(&d);
	expect_text(NEAR_METRICS_PROMETHEUS, "# TYPE a_total counter\na_total 0\n"
					     "# HELP b_total First.\n# TYPE b_total counter\n"
					     "b_total{x=\"1\"} 0\nb_total{x=\"2\"} 0\n");
	add(&e);
	near_metrics_remove(&metrics, &d);
	near_metrics_remove(&metrics, &d);
	near_metrics_remove(&metrics, &b);
	expect_text(NEAR_METRICS_PROMETHEUS, "# HELP b_total Without.\n# TYPE b_total counter\n"
					     "b_total 0\nb_total{x=\"2\"} 0\n");
	assert_int_equal(near_metrics_add(&metrics, &a), -EEXIST);
	assert_int_equal(add_named("b", "x=\"2\"", NEAR_METRIC_COUNTER), -EEXIST);
	assert_int_equal(add_named("b", "", NEAR_METRIC_COUNTER), -EEXIST);
	assert_int_equal(add_named("b", "x=\"3\"", NEAR_METRIC_UPDOWN), -EINVAL);
	assert_int_equal(add_named("b", "x=\"3\"", NEAR_METRIC_COUNTER), 0);
	near_metrics_remove(&metrics, &a);
	near_metrics_remove(&metrics, &e);
	expect_text(NEAR_METRICS_PROMETHEUS, "");
}

static void wrong_metrics_are_refused(void **state)
{
	static const char *const names[] = {NULL,
					    "",
					    "1a",
					    "a b",
					    "a\"",
					    "a{",
					    "\xc3\xa4",
					    "a23456789a23456789a23456789a23456789a23456789a23456789"
					    "1234567890"};
	static const char *const labels[] = {
		"a",        "a=b",        "a=\"b\",", "le=\"1\"", "a=\"1\",a=\"2\"",
		"a=\"\n\"", "a=\"\xff\"", "1=\"1\""};
	struct near_metric right = {.name = "x_seconds", .kind = NEAR_METRIC_CALL}, m;

	for (unsigned i = 0; i < LENGTH(names); i++)
		assert_int_equal(add_named(names[i], NULL, NEAR_METRIC_GAUGE), -EINVAL);
	for (unsigned i = 0; i < LENGTH(labels); i++)
		assert_int_equal(add_named("x", labels[i], NEAR_METRIC_GAUGE), -EINVAL);
	assert_int_equal(add_named("x_total", NULL, NEAR_METRIC_COUNTER), -EINVAL);
	assert_int_equal(add_named("x_total", NULL, NEAR_METRIC_GAUGE), 0);
	assert_int_equal(add_named("x", NULL, 0), -EINVAL);
	assert_int_equal(add_named("x", NULL, NEAR_METRIC_REGION + 1), -EINVAL);
	assert_int_equal(add_named("x", NULL, NEAR_METRIC_REGION), -EINVAL);
	assert_int_equal(near_metrics_add(&metrics, &right), -EINVAL); /* calls nothing */
	m = (struct near_metric){.name = "x", .kind = NEAR_METRIC_COUNTER};
	assert_int_equal(near_metrics_add(&metrics, &m), -EINVAL); /* without an object */
	right.call = call_nothing;
	for (unsigned i = 0; i < 6; i++) {
		m = right;
		m.unit = ((const char *[]){"x", "econds", "x_seconds", "", NULL, NULL})[i];
		m.units = i == 4 ? -1 : 0;
		m.reserved[1] = i == 5;
		assert_int_equal(near_metrics_add(&metrics, &m), -EINVAL);
	}
	right.unit = "seconds";
	add(&right);
	near_metrics_remove(&metrics, &right);
	assert_null(metrics.first);
}

/* ---- pieces ---- */

static unsigned pieces;

static int refuse_third(void *argument, const char *piece, size_t size)
{
	return ++pieces == 3 ? *(int *)argument : 0;
}

static void pieces_are_small_and_may_be_refused(void **state)
{
	static char help[5000];
	struct near_histogram h;
	struct near_metric metric = {
		.name = "h", .kind = NEAR_METRIC_HISTOGRAM, .object = &h, .help = help};
	int answers[] = {-EPIPE, 17};

	memset(help, 'x', sizeof(help) - 1);
	assert_int_equal(near_histogram_init(&h, NULL), 0);
	add(&metric);
	longest_piece = 0;
	assert_int_equal(write_text(NEAR_METRICS_PROMETHEUS), 0);
	assert_in_range(longest_piece, 1, 1024);
	assert_int_equal(strlen(text), length);
	assert_memory_equal(strstr(text, "h ") + 2, help, sizeof(help) - 1);
	assert_non_null(strstr(text, "h_count 0\n"));
	for (unsigned i = 0; i < LENGTH(answers); i++) {
		pieces = 0;
		KEEPS_ERRNO(assert_int_equal(near_metrics_write(&metrics, NEAR_METRICS_OPENMETRICS,
								refuse_third, &answers[i]),
					     answers[i]));
		assert_int_equal(pieces, 3);
	}
	near_histogram_destroy(&h);
}

/* ---- regions ---- */

#define HELP_OF_REGION " A near_shared_counters(3) counter.\n"
#define PROMETHEUS_OF_REGION                                                                       \
	"# HELP done_total" HELP_OF_REGION "# TYPE done_total counter\ndone_total 5\n"             \
	"# HELP jobs" HELP_OF_REGION                                                               \
	"# TYPE jobs counter\njobs{index=\"0\"} 0\njobs{index=\"1\"} -4\n"                         \
	"# HELP lost" HELP_OF_REGION "# TYPE lost counter\nlost{why=\"a\"} 1\nlost{why=\"b\"} 0\n" \
	"# TYPE a gauge\na 0\n"
#define OPENMETRICS_OF_REGION                                                                      \
	"# HELP done" HELP_OF_REGION "# TYPE done counter\ndone_total 5\n"                         \
	"# HELP jobs" HELP_OF_REGION                                                               \
	"# TYPE jobs unknown\njobs{index=\"0\"} 0\njobs{index=\"1\"} -4\n"                         \
	"# HELP lost" HELP_OF_REGION "# TYPE lost unknown\nlost{why=\"a\"} 1\nlost{why=\"b\"} 0\n" \
	"# TYPE a gauge\na 0\n# EOF\n"

static void regions_are_written(void **state)
{
	static const struct near_shared_counters_options two = {.count = 2};
	struct near_region_object bytes = {
		.name = "zz", .kind = NEAR_REGION_BYTES, .size = 8, .flags = NEAR_REGION_COMMON};
	struct near_metric metric = {.kind = NEAR_METRIC_REGION}, other = metric,
			   own = {.name = "a", .kind = NEAR_METRIC_UPDOWN, .object = &c};
	struct near_shared_counters jobs, done, lost;
	struct near_region r;

	assert_int_equal(near_region_open(&r, NULL, NULL), 0);
	assert_int_equal(near_shared_counters_open(&lost, &r, "lost", "why=\"b\"", NULL), 0);
	assert_int_equal(near_shared_counters_open(&jobs, &r, "jobs", NULL, &two), 0);
	assert_int_equal(near_shared_counters_open(&done, &r, "done_total", NULL, NULL), 0);
	assert_int_equal(near_shared_counters_open(&lost, &r, "lost", "why=\"a\"", NULL), 0);
	assert_int_equal(near_region_open_object(&r, &bytes), 0);
	near_shared_counters_add(&jobs, 1, -4);
	near_shared_counters_add(&done, 0, 5);
	near_shared_counters_add(&lost, 0, 1);
	metric.object = other.object = &r;
	add(&own);
	add(&metric);
	assert_int_equal(near_metrics_add(&metrics, &metric), -EEXIST);
	expect_both(PROMETHEUS_OF_REGION, OPENMETRICS_OF_REGION);
	near_metrics_remove(&metrics, &metric);
	near_region_close(&r);
}

static void shared_counters_may_have_help(void **state)
{
	struct near_shared_counters jobs;
	struct near_metric metric = {.name = "jobs_total",
				     .help = "Jobs.",
				     .labels = "a=\"b\"",
				     .kind = NEAR_METRIC_SHARED,
				     .object = &jobs};
	struct near_region r;

	assert_int_equal(near_region_open(&r, NULL, NULL), 0);
	assert_int_equal(near_shared_counters_open(&jobs, &r, "jobs", NULL, NULL), 0);
	add(&metric);
	expect_both("# HELP jobs_total Jobs.\n# TYPE jobs_total counter\njobs_total{a=\"b\"} 0\n",
		    "# HELP jobs Jobs.\n# TYPE jobs counter\njobs_total{a=\"b\"} 0\n# EOF\n");
	near_region_close(&r);
}

/* ---- threads, children ---- */

static struct near_histogram recorded;
static struct near_metric of_threads[8];
static char names[LENGTH(of_threads)][16];
static unsigned wrong;

static void record_and_register(unsigned number)
{
	struct near_metric *metric = &of_threads[number];
	uint64_t seed = number;

	snprintf(names[number], sizeof(names[number]), "metric_%u", number);
	*metric = (struct near_metric){
		.name = names[number], .kind = NEAR_METRIC_COUNTER, .object = &c};
	for (unsigned i = unit_scale(200000); i; i--) {
		near_histogram_record(&recorded, unit_random(&seed) % 1000000);
		near_counter_add(&c, 1);
		if (i == 5)
			CHECK(near_metrics_add(&metrics, metric) == 0);
	}
}

struct taken {
	char text[16384];
	size_t length;
};

static int take_to(void *argument, const char *piece, size_t size)
{
	struct taken *t = argument;

	CHECK(t->length + size < sizeof(t->text));
	memcpy(t->text + t->length, piece, size);
	t->length += size;
	t->text[t->length] = '\0';
	return 0;
}

/* Buckets rise, and the last is the count, whatever is recorded concurrently. */
static void write_many(unsigned number)
{
	static struct taken taken[2];
	struct taken *t = &taken[number];

	while (team_continues()) {
		unsigned long long last = 0, now;
		const char *at;

		t->length = 0;
		CHECK(near_metrics_write(&metrics, number, take_to, t) == 0);
		for (at = t->text; (at = strstr(at, "h_bucket")); at++, last = now) {
			now = strtoull(strchr(at, '}') + 2, NULL, 10);
			if (now < last)
				__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
		}
		if (strtoull(strstr(t->text, "h_count ") + 8, NULL, 10) != last)
			__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
	}
}

static void writes_may_be_concurrent_with_all(void **state)
{
	struct near_metric metric = {
		.name = "h", .kind = NEAR_METRIC_HISTOGRAM, .object = &recorded};
	struct team team;

	assert_int_equal(near_histogram_init(&recorded, NULL), 0);
	add(&metric);
	team_start(&team, 2, write_many);
	team_run(LENGTH(of_threads), record_and_register);
	team_stop(&team);
	assert_int_equal(wrong, 0);
	assert_int_equal(write_text(NEAR_METRICS_PROMETHEUS), 0);
	for (unsigned i = 0; i < LENGTH(of_threads); i++)
		assert_non_null(strstr(text, names[i]));
	near_histogram_destroy(&recorded);
}

static void a_child_writes_its_own(void **state)
{
	struct near_metric metric = {.name = "n", .kind = NEAR_METRIC_COUNTER, .object = &c}, more;

	add(&metric);
	near_counter_add(&c, 1);
	IN_CHILD() {
		near_counter_add(&c, 1);
		more = metric;
		more.name = "m";
		CHECK(near_metrics_add(&metrics, &more) == 0);
		CHECK(write_text(NEAR_METRICS_PROMETHEUS) == 0);
		CHECK(strstr(text, "m_total 2\n") && strstr(text, "n_total 2\n"));
	}
	expect_text(NEAR_METRICS_PROMETHEUS, "# TYPE n_total counter\nn_total 1\n");
}

UNIT_MAIN_EACH(begin, end, an_empty_registry, counters_have_total, gauges_of_three_kinds,
	       units_divide, histograms_have_a_bucket_for_each_power, bounds_may_be_left_out,
	       exemplars_are_in_their_buckets, the_text_is_that_of_a_snapshot,
	       a_name_stands_together, wrong_metrics_are_refused,
	       pieces_are_small_and_may_be_refused, regions_are_written,
	       shared_counters_may_have_help, writes_may_be_concurrent_with_all,
	       a_child_writes_its_own)
