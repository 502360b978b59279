/* SPDX-License-Identifier: MIT */
/* near_metrics: doubles in the text, in any locale. The program is linked with --wrap=snprintf and
 * strtod, which use the decimal point that the test sets. */
#include <nearcpu/metrics.h>

#include <math.h>

#include "unit.h"

static struct near_metrics metrics;
static char text[1024];
static size_t length;

static int take_piece(void *argument, const char *piece, size_t size)
{
	CHECK(length + size < sizeof(text));
	memcpy(text + length, piece, size);
	length += size;
	text[length] = '\0';
	return 0;
}

static int write_text(enum near_metrics_format format)
{
	length = 0;
	return near_metrics_write(&metrics, format, take_piece, NULL);
}

static void expect_text(enum near_metrics_format format, const char *expected)
{
	KEEPS_ERRNO(assert_int_equal(write_text(format), 0));
	assert_string_equal(text, expected);
}

static int begin(void **state)
{
	metrics.first = NULL;
	return 0;
}

static void add(struct near_metric *metric)
{
	assert_int_equal(near_metrics_add(&metrics, metric), 0);
}

static double called;

static double call_it(void *object)
{
	CHECK(object == &called);
	return called;
}

static void doubles_are_read_back_as_they_were(void **state)
{
	static const double values[] = {0,         .1,       1. / 3,
					-2.5e-300, 1e22,     123456789012345678.,
					5e-324,    1.7e308,  0x1p-1022,
					65535.5,   -1 / 7.5, 3};
	struct near_metric metric = {
		.name = "x", .kind = NEAR_METRIC_CALL, .call = call_it, .object = &called};

	add(&metric);
	for (unsigned i = 0; i < LENGTH(values); i++) {
		called = values[i];
		assert_int_equal(write_text(NEAR_METRICS_PROMETHEUS), 0);
		assert_true(strtod(strstr(text, "\nx ") + 3, NULL) == values[i]);
	}
	called = .1;
	expect_text(NEAR_METRICS_PROMETHEUS, "# TYPE x gauge\nx 0.1\n");
	called = (double)INFINITY;
	expect_text(NEAR_METRICS_PROMETHEUS, "# TYPE x gauge\nx +Inf\n");
	called = (double)-INFINITY;
	expect_text(NEAR_METRICS_PROMETHEUS, "# TYPE x gauge\nx -Inf\n");
	called = (double)NAN;
	expect_text(NEAR_METRICS_PROMETHEUS, "# TYPE x gauge\nx NaN\n");
}

/* As with a locale whose decimal point is a comma, or has several bytes. */
static const char *point; /* NULL: a point */

int __wrap_snprintf(char *out, size_t size, const char *fmt, ...);
double __wrap_strtod(const char *s, char **end);
double __real_strtod(const char *s, char **end);

int __wrap_snprintf(char *out, size_t size, const char *fmt, ...)
{
	char *dot;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(out, size, fmt, args);
	va_end(args);
	dot = point ? strchr(out, '.') : NULL;
	if (dot) {
		memmove(dot + strlen(point), dot + 1, strlen(dot));
		memcpy(dot, point, strlen(point));
	}
	return n;
}

double __wrap_strtod(const char *s, char **end)
{
	char plain[100];
	const char *at = point ? strstr(s, point) : NULL;

	if (!at)
		return __real_strtod(s, end);
	snprintf(plain, sizeof(plain), "%.*s!%s", (int)(at - s), s, at + strlen(point));
	plain[at - s] = '.';
	return __real_strtod(plain, end);
}

static void the_locale_does_not_matter(void **state)
{
	static const char *const points[] = {",", "\xd9\xab"};
	struct near_metric metric = {
		.name = "x", .kind = NEAR_METRIC_CALL, .call = call_it, .object = &called};

	add(&metric);
	for (unsigned i = 0; i < LENGTH(points); i++) {
		point = points[i];
		called = -1.25e-9;
		assert_int_equal(write_text(NEAR_METRICS_PROMETHEUS), 0);
		point = NULL;
		assert_string_equal(text, "# TYPE x gauge\nx -1.25e-09\n");
	}
}

UNIT_MAIN_EACH(begin, NULL, doubles_are_read_back_as_they_were, the_locale_does_not_matter)
