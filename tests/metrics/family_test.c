/* SPDX-License-Identifier: MIT */
/* near_family: members by their label values, up to a number of them, also when threads add the
 * same ones; values that are escaped or refused; the text. The program is linked with
 * --wrap=near_percpu_alloc: another member may be added while one is made. */
#include <nearcpu/metrics.h>

#include "team.h"

static struct near_family f;

static int destroy_family(void **state)
{
	near_family_destroy(&f);
	assert_null(f.table);
	near_family_destroy(&f);
	return 0;
}

static void make_family(enum near_metric_kind kind, const char *names, unsigned members)
{
	memset(&f, 0x5a, sizeof(f));
	KEEPS_ERRNO(assert_int_equal(near_family_init(&f, kind, names, members, NULL), 0));
}

static void *get(const char *a, const char *b)
{
	const char *values[] = {a, b};
	void *object;

	KEEPS_ERRNO(object = near_family_get(&f, values));
	return object;
}

static struct {
	char text[65536];
	size_t length;
} taken;

static int take(void *argument, const char *piece, size_t size)
{
	CHECK(taken.length + size < sizeof(taken.text));
	memcpy(taken.text + taken.length, piece, size);
	taken.length += size;
	taken.text[taken.length] = '\0';
	return 0;
}

static const char *text_of(enum near_metric_kind kind, const char *labels)
{
	struct near_metric metric = {.name = "m", .labels = labels, .kind = kind, .family = &f};
	struct near_metrics all = {NULL};

	taken.length = 0;
	assert_int_equal(near_metrics_add(&all, &metric), 0);
	assert_int_equal(near_metrics_write(&all, NEAR_METRICS_PROMETHEUS, take, NULL), 0);
	return taken.text;
}

static void members_are_made_once(void **state)
{
	struct near_counter *c;
	char again[] = "get";

	make_family(NEAR_METRIC_COUNTER, "method,code", 1000);
	c = get("get", "200");
	near_counter_add(c, 3);
	assert_ptr_equal(get(again, "200"), c);
	assert_ptr_not_equal(get("get", "20"), c);
	assert_ptr_not_equal(get("get2", "00"), c); /* the same letters */
	assert_ptr_not_equal(get("200", "get"), c);
	assert_ptr_not_equal(get("get", ""), get("", "get"));
	assert_int_equal(near_counter_read(c), 3);
	assert_int_equal(f.count, 6);
	assert_int_equal(near_family_overflows(&f), 0);
}

static const char *first_value; /* that is added while another one is made */

int __wrap_near_percpu_alloc(size_t size, size_t align, void **out);
int __real_near_percpu_alloc(size_t size, size_t align, void **out);

int __wrap_near_percpu_alloc(size_t size, size_t align, void **out)
{
	const char *value = first_value;

	if (value) {
		first_value = NULL;
		get(value, NULL);
	}
	return __real_near_percpu_alloc(size, align, out);
}

static void the_first_of_two_remains(void **state)
{
	struct near_counter *c, *other;

	make_family(NEAR_METRIC_COUNTER, "x", 2);
	first_value = "a";
	c = get("a", NULL);
	assert_ptr_equal(get("a", NULL), c);
	assert_int_equal(f.count, 1);
	first_value = "b";
	other = get("c", NULL);
	assert_int_equal(near_family_overflows(&f), 1);
	assert_int_equal(f.count, 2);
	assert_ptr_equal(get("d", NULL), other);
	assert_ptr_not_equal(get("b", NULL), other);
}

static void many_members_are_found_again(void **state)
{
	void *objects[500];
	char value[20];

	make_family(NEAR_METRIC_GAUGE, "a,b", LENGTH(objects));
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < LENGTH(objects); i++) {
			snprintf(value, sizeof(value), "%u", i / 7);
			if (round == 0)
				objects[i] = get(value, &"abcdefg"[i % 7]);
			assert_ptr_equal(get(value, &"abcdefg"[i % 7]), objects[i]);
		}
	for (unsigned i = 0; i < LENGTH(objects); i++)
		near_gauge_add(objects[i], 1);
	for (unsigned i = 0; i < LENGTH(objects); i++)
		assert_int_equal(near_gauge_read(objects[i]), 1);
}

static void what_is_too_many_is_in_one(void **state)
{
	struct near_counter *a, *b, *other;

	make_family(NEAR_METRIC_UPDOWN, "x,y", 2);
	a = get("1", "");
	b = get("2", "");
	text_of(NEAR_METRIC_UPDOWN, NULL);
	assert_null(strstr(taken.text, "_other_"));
	other = get("3", "");
	assert_ptr_equal(get("4", "5"), other);
	assert_ptr_equal(get("1", ""), a);
	assert_ptr_equal(get("2", ""), b);
	assert_int_equal(near_family_overflows(&f), 2);
	near_counter_add(other, 7);
	assert_non_null(
		strstr(text_of(NEAR_METRIC_UPDOWN, NULL), "m{x=\"_other_\",y=\"_other_\"} 7\n"));
	assert_int_equal(f.count, 2);
}

static void a_family_may_have_no_room_at_all(void **state)
{
	make_family(NEAR_METRIC_COUNTER, "x,y", 0);
	assert_ptr_equal(get("1", ""), get("2", ""));
	near_counter_add(get("1", ""), 1);
	assert_string_equal(text_of(NEAR_METRIC_COUNTER, "z=\"1\""),
			    "# TYPE m_total counter\n"
			    "m_total{z=\"1\",x=\"_other_\",y=\"_other_\"} 1\n");
}

static void values_become_labels(void **state)
{
	make_family(NEAR_METRIC_GAUGE, "path", 10);
	near_gauge_set(get("a\"b\\c\nd \xc3\xa9", NULL), 4);
	assert_string_equal(text_of(NEAR_METRIC_GAUGE, NULL),
			    "# TYPE m gauge\nm{path=\"a\\\"b\\\\c\\nd \xc3\xa9\"} 4\n");
	/* What is escaped is no other value. */
	assert_ptr_not_equal(get("a\n", NULL), get("a\\n", NULL));
	assert_ptr_not_equal(get("\",path=\"", NULL), get("", NULL));
	assert_int_equal(near_family_overflows(&f), 0);
}

static void bad_values_are_in_the_other(void **state)
{
	static const char *const bad[] = {"\xff", "\t", "a\x7f", "\xc3", "\xed\xa0\x80", "\x1b[2J"};
	char value[600];
	void *other;

	make_family(NEAR_METRIC_GAUGE, "path", 100);
	other = get(bad[0], NULL);
	for (unsigned i = 0; i < LENGTH(bad); i++)
		assert_ptr_equal(get(bad[i], NULL), other);
	/* All lengths about the greatest: a quote becomes two characters. */
	for (unsigned n = 200; n < sizeof(value); n++) {
		memset(value, n % 2 ? '"' : 'x', n);
		value[n] = '\0';
		if (n % 2 ? n > 250 : n > 500)
			assert_ptr_equal(get(value, NULL), other);
		else if (n % 2 ? n < 245 : n < 490 && n > 450)
			assert_ptr_not_equal(get(value, NULL), other);
	}
}

static void kinds_have_their_objects(void **state)
{
	static const struct near_histogram_options options = {.max = 3};
	static const char *const x[] = {"1"};
	struct near_histogram *h;

	assert_int_equal(near_family_init(&f, NEAR_METRIC_HISTOGRAM, "x", 5, &options), 0);
	h = near_family_get(&f, x);
	near_histogram_record(h, 2);
	assert_string_equal(text_of(NEAR_METRIC_HISTOGRAM, NULL),
			    "# TYPE m histogram\n"
			    "m_bucket{x=\"1\",le=\"1\"} 0\n"
			    "m_bucket{x=\"1\",le=\"3\"} 1\n"
			    "m_bucket{x=\"1\",le=\"+Inf\"} 1\n"
			    "m_sum{x=\"1\"} 2\n"
			    "m_count{x=\"1\"} 1\n");
}

static void wrong_families_are_refused(void **state)
{
	static const struct near_histogram_options wrong = {.precision = 99},
						   large = {.precision = 10};
	static const char *const names[] = {"",    ",",  "a,",  ",a",      "a,,b", "le",
					    "a,a", "1a", "a b", "a,index", "a:b",  "\xc3\xa9"};
	struct near_metric metric = {.name = "m", .kind = NEAR_METRIC_COUNTER, .family = &f};
	struct near_metrics all = {NULL};
	char name[600];

	for (unsigned i = 0; i < LENGTH(names); i++)
		assert_int_equal(near_family_init(&f, NEAR_METRIC_GAUGE, names[i], 1, NULL),
				 -EINVAL);
	memset(name, 'a', sizeof(name));
	for (unsigned n = sizeof(name) - 1; n > 480; n--) {
		name[n] = '\0';
		if (near_family_init(&f, NEAR_METRIC_GAUGE, name, 1, NULL) == 0)
			near_family_destroy(&f);
		else
			assert_true(n > 490);
	}
	assert_int_equal(near_family_init(&f, NEAR_METRIC_CALL, "a", 1, NULL), -EINVAL);
	assert_int_equal(near_family_init(&f, 0, "a", 1, NULL), -EINVAL);
	assert_int_equal(near_family_init(&f, NEAR_METRIC_GAUGE, "a", NEAR_FAMILY_MEMBERS + 1,
					  NULL),
			 -EINVAL);
	assert_int_equal(near_family_init(&f, NEAR_METRIC_HISTOGRAM, "a", 1, &wrong), -EINVAL);
	assert_int_equal(near_family_init(&f, NEAR_METRIC_HISTOGRAM, "a", 1, &large), -E2BIG);
	make_family(NEAR_METRIC_GAUGE, "a", NEAR_FAMILY_MEMBERS);
	assert_int_equal(near_metrics_add(&all, &metric), -EINVAL); /* of another kind */
	metric.kind = NEAR_METRIC_GAUGE;
	metric.object = &f;
	assert_int_equal(near_metrics_add(&all, &metric), -EINVAL); /* two objects */
	metric.object = NULL;
	assert_int_equal(near_metrics_add(&all, &metric), 0);
}

static void without_memory_it_is_the_other(void **state)
{
	struct rlimit limit, none;
	void *other, *got;
	char value[20];

	if (unit_emulated() || UNIT_SANITIZED)
		skip();
	make_family(NEAR_METRIC_COUNTER, "x", NEAR_FAMILY_MEMBERS);
	other = get("\t", NULL);
	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	for (unsigned i = 0; i < 1000000; i++) {
		snprintf(value, sizeof(value), "%u", i);
		got = get(value, NULL);
		if (got == other)
			break;
	}
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	assert_ptr_equal(got, other);
	assert_ptr_not_equal(get(value, NULL), other);
}

/* ---- threads, children ---- */

#define VALUES 300
#define TEAM 4
static struct near_counter *seen[TEAM][VALUES];
static uint64_t others[TEAM];

static void get_all(unsigned number)
{
	for (unsigned round = 0; round < 20; round++)
		for (unsigned i = 0; i < VALUES; i++) {
			char value[20];
			const char *values[] = {value};
			struct near_counter *c;

			snprintf(value, sizeof(value), "%u", i);
			c = near_family_get(&f, values);
			near_counter_add(c, 1);
			if (c == near_family_get(&f, (const char *const[]){"\t"}))
				others[number]++;
			else if (!seen[number][i])
				seen[number][i] = c;
			else
				CHECK(seen[number][i] == c);
		}
}

static void write_all(unsigned number)
{
	struct near_metric metric = {.name = "m", .kind = NEAR_METRIC_COUNTER, .family = &f};
	struct near_metrics all = {&metric};

	while (team_continues()) {
		taken.length = 0;
		CHECK(near_metrics_write(&all, NEAR_METRICS_OPENMETRICS, take, NULL) == 0);
	}
}

static void threads_get_the_same(unsigned members)
{
	struct team team;
	int64_t sum = 0;
	unsigned different = 0;

	memset(seen, 0, sizeof(seen));
	memset(others, 0, sizeof(others));
	make_family(NEAR_METRIC_COUNTER, "x", members);
	team_start(&team, 1, write_all);
	team_run(TEAM, get_all);
	team_stop(&team);
	for (unsigned i = 0; i < VALUES; i++) {
		struct near_counter *first = NULL;

		for (unsigned t = 0; t < TEAM; t++) {
			if (seen[t][i] && first)
				assert_ptr_equal(seen[t][i], first);
			first = seen[t][i] ? seen[t][i] : first;
		}
		different += first != NULL;
		sum += first ? near_counter_read(first) : 0;
	}
	assert_int_equal(different, members < VALUES ? members : VALUES);
	assert_int_equal(f.count, different);
	sum += near_counter_read(get("\t", NULL));
	assert_int_equal(sum, TEAM * 20 * VALUES);
	if (members >= VALUES)
		assert_int_equal(others[0] + others[1] + others[2] + others[3], 0);
}

static void threads_add_each_once(void **state)
{
	threads_get_the_same(VALUES + 5);
	near_family_destroy(&f);
	threads_get_the_same(VALUES);
	near_family_destroy(&f);
	threads_get_the_same(100);
}

static void a_child_has_its_own(void **state)
{
	struct near_counter *a;

	make_family(NEAR_METRIC_COUNTER, "x", 2);
	a = get("a", NULL);
	near_counter_add(a, 1);
	IN_CHILD() {
		CHECK(get("a", NULL) == a);
		near_counter_add(a, 1);
		near_counter_add(get("b", NULL), 1);
		CHECK(near_counter_read(a) == 2 && f.count == 2);
	}
	assert_int_equal(near_counter_read(a), 1);
	assert_int_equal(f.count, 1);
}

static void add_more(unsigned number)
{
	char value[20];

	for (unsigned i = 0; team_continues(); i++) {
		const char *values[] = {value};

		snprintf(value, sizeof(value), "%u", i % 100000);
		near_family_get(&f, values);
	}
}

/* Whatever the other threads of its parent were executing. What they were making is lost in the
 * child, which valgrind reports. */
static void children_of_threads_can_add(void **state)
{
	struct team team;

	if (unit_emulated() || !UNIT_CHILD_ALLOCATES)
		skip();
	make_family(NEAR_METRIC_COUNTER, "x", 100000);
	team_start(&team, 2, add_more);
	for (unsigned i = unit_scale(100); i; i--)
		IN_CHILD() {
			near_counter_add(get("child", NULL), 1);
			CHECK(near_counter_read(get("child", NULL)) == 1);
		}
	team_stop(&team);
}

UNIT_MAIN_EACH(NULL, destroy_family, members_are_made_once, the_first_of_two_remains,
	       many_members_are_found_again, what_is_too_many_is_in_one,
	       a_family_may_have_no_room_at_all, values_become_labels, bad_values_are_in_the_other,
	       kinds_have_their_objects, wrong_families_are_refused, without_memory_it_is_the_other,
	       threads_add_each_once, a_child_has_its_own, children_of_threads_can_add)
