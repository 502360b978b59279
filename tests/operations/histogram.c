/* SPDX-License-Identifier: MIT */
/* Four histograms: with and without an exact sum, in memory of this process and in a region. */
#include "objects.h"

#include <string.h>

#include "percpu/percpu.h"

static const struct near_histogram_options small = {.precision = 1, .max = 3};
static const struct near_histogram_options with_sum = {.precision = 1, .max = 3, .exact_sum = true};

static int define_histograms(struct near_region *r)
{
	int err = near_region_open(
		r, NULL,
		&(struct near_region_options){.size = 256, .max_objects = 2, .common_size = 8});

	if (!err)
		err = near_histogram_open(&OBJ.regional, r, "regional", NULL, &small);
	if (!err)
		err = near_histogram_open(&OBJ.regional_summed, r, "summed", NULL, &with_sum);
	return err;
}

/* As fresh_shared. */
static bool fresh_histograms(void)
{
	struct near_region *r = &OBJ.region, *untouched = &OBJ.untouched_region;

	if (!r->header &&
	    (define_histograms(untouched) || define_histograms(r) || !open_region(untouched)))
		return false;
	memcpy(r->header, untouched->header, r->total);
	return !near_histogram_init(&OBJ.histogram, &small) &&
	       !near_histogram_init(&OBJ.summed, &with_sum);
}

static void record_in_each(uint64_t n)
{
	call_record(&OBJ.histogram, OPS_VALUE, n);
	call_record(&OBJ.summed, OPS_VALUE, n);
	call_record(&OBJ.regional, OPS_VALUE, n);
	call_record(&OBJ.regional_summed, OPS_VALUE, n);
}

static void fill_histograms(void)
{
	record_in_each(OPS_FIRST_COUNT);
}

static void enter_histograms(void)
{
	record_in_each(0);
}

static void destroy_histograms(void)
{
	near_histogram_destroy(&OBJ.histogram);
	near_histogram_destroy(&OBJ.summed);
}

struct recorded {
	int64_t count, sum;
};

/* Of all histograms: how many values, and the sum of those whose sum is known. */
static struct recorded recorded(void)
{
	const struct near_histogram *all[] = {&OBJ.histogram, &OBJ.summed, &OBJ.regional,
					      &OBJ.regional_summed};
	struct recorded r = {0};

	for (unsigned i = 0; i < 4; i++) {
		struct near_histogram_snapshot s;

		if (near_histogram_read(all[i], &s))
			return (struct recorded){-1, -1};
		r.count += (int64_t)s.count;
		r.sum += (int64_t)s.exact_sum;
		near_histogram_snapshot_free(&s);
	}
	return r;
}

static void describe_histograms(struct ops_text *t, const struct actor *a, const struct actor *b)
{
	struct recorded r = recorded();

	put_field(t, " recorded ", r.count);
	put_field(t, " summed ", r.sum);
}

static const char *histograms_conserved(const struct actor *a, const struct actor *b)
{
	struct recorded r = recorded();

	if (r.count != 4 * OPS_FIRST_COUNT + a->recorded + b->recorded)
		return "a value of a histogram is lost or was counted twice";
	if (r.sum != 2 * OPS_VALUE * OPS_FIRST_COUNT + a->summed + b->summed)
		return "a value is missing from a histogram's sum, or is in it twice";
	return NULL;
}

const struct ops_kind kind_histogram = {
	.create = fresh_histograms,
	.fill = fill_histograms,
	.enter = enter_histograms,
	.destroy = destroy_histograms,
	.describe = describe_histograms,
	.conserved = histograms_conserved,
};
