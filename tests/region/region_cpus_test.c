/* SPDX-License-Identifier: MIT */
/* near_region: a region of a machine with another number of possible CPUs is read, not changed. */
#include <nearcpu/region.h>

#include <fcntl.h>
#include <sys/wait.h>

#include "region/region.h"
#include "regions.h"

unsigned __real_near__topology_cpus(void);
unsigned __wrap_near__topology_cpus(void);

static unsigned others_cpus; /* 0: as many as this machine has */

unsigned __wrap_near__topology_cpus(void)
{
	return others_cpus ? others_cpus : __real_near__topology_cpus();
}

#define LARGE 200 /* more CPUs than a word of a bitmap has bits */

static char file[2][80];

/* On the other machine. */
static int make_region(const char *name, unsigned cpus)
{
	struct near_region_object o = {.name = "count", .kind = NEAR_REGION_COUNTERS, .size = 16};
	struct near_region_options options = {.flags = NEAR_CREATE, .initial = &o};
	struct near_region r;

	others_cpus = cpus;
	if (near_region_open(&r, name, &options))
		return 1;
	for (int i = 0; i < 10; i++)
		near__region_add_slow(&r, r.base + o.offset + 8, 7);
	near_region_close(&r);
	return near_cpus() != cpus;
}

static int64_t sum_of(const struct near_region *r)
{
	struct near_region_object o;
	int64_t sum = 0;

	assert_int_equal(near_region_object(r, 0, &o), 0);
	for (unsigned s = 0; near_region_next(r, &s); s++)
		sum += ((int64_t *)near_region_at(r, s, o.offset))[1];
	assert_int_equal(near__region_sum(r, r->base + o.offset + 8), sum);
	return sum;
}

/* It changes this process's memory alone, where the region has a copy, whatever CPU this is. */
static void add_to_snapshot(struct near_region *r)
{
	struct near_region_object o;

	for (unsigned cpu = 0; cpu <= near_cpus(); cpu++)
		assert_int_equal(r->slots[cpu], 0);
	assert_false(near__region_open_cpu(r));
	assert_int_equal(near_region_object(r, 0, &o), 0);
	near__region_add(r, r->base + o.offset + 8, 5);
	assert_int_equal(near__region_sum(r, r->base + o.offset + 8), 75);
}

static void check(const char *name, unsigned cpus)
{
	struct near_region_stats status;
	struct near_region r;
	int fd = open(name, O_RDONLY);

	assert_int_not_equal(near_cpus(), cpus);
	assert_int_equal(near_region_open_fd(&r, fd), 0);
	assert_int_equal(sum_of(&r), 70);
	assert_int_equal(near_region_stats(&r, &status, sizeof(status)), 0);
	assert_int_equal(status.cpus, cpus);
	assert_int_not_equal(status.cpus_used + status.fallbacks_used, 0);
	add_to_snapshot(&r);
	near_region_close(&r);
	close(fd);
	fd = open(name, O_RDWR);
	assert_int_equal(near_region_open_fd(&r, fd), -EXDEV);
	assert_non_null(strstr(near_region_error(&r), "new file"));
	close(fd);
	assert_int_equal(near_region_open(&r, name, NULL), -EXDEV);
}

static void regions_of_other_machines_are_read(void **state)
{
	if (near_cpus() != 1)
		check(file[0], 1);
	check(file[1], LARGE);
}

/* Before this process has found out how many CPUs it has. */
static int make_regions(void **state)
{
	static const unsigned cpus[] = {1, LARGE};
	int status = set_up(state);

	for (unsigned i = 0; i < LENGTH(cpus) && !status; i++) {
		pid_t child;

		snprintf(file[i], sizeof(file[i]), "%s/of-%u", directory, cpus[i]);
		child = fork();
		if (!child)
			_exit(make_region(file[i], cpus[i]));
		if (waitpid(child, &status, 0) != child)
			status = -1;
	}
	return status;
}

static int remove_all(void **state)
{
	remove_files(state);
	return tear_down(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(regions_of_other_machines_are_read),
	};

	return cmocka_run_group_tests(tests, make_regions, remove_all);
}
