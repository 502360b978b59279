/* SPDX-License-Identifier: MIT */
/* What the forms of other programs have in common: labels one by one, exponential buckets, errors.
 */
#include "common/memory.h"
#include "stats/convert.h"

#include <math.h>
#include <string.h>

/* The directory has only lists of the form name="value",name="value" (near_region(3)). */
const char *next_label(const char *labels, struct label *out)
{
	const char *equals = strchr(labels, '=');
	size_t n = 0;

	if (!equals)
		return NULL;
	snprintf(out->name, sizeof(out->name), "%.*s", (int)(equals - labels), labels);
	for (labels = equals + 2; *labels && *labels != '"'; labels++) {
		if (*labels == '\\')
			labels++;
		out->value[n++] = (char)(labels[-1] == '\\' && *labels == 'n' ? '\n' : *labels);
	}
	out->value[n] = '\0';
	labels += *labels == '"';
	return labels + (*labels == ',');
}

/* ---- exponential buckets ---- */

/* Of a value above 0. The logarithm of a power of two is exact; other bounds are no integers, nor
 * so near to one that rounding could matter before 2^53. */
static int number_of(double value, int scale)
{
	return (int)ceil(ldexp(log2(value), scale)) - 1;
}

static double bound_of(int number, int scale)
{
	return exp2(ldexp(number, -scale));
}

/* What stands for a bucket: its middle; but the least of what is above the maximum. */
static double value_of(const struct near_histogram_snapshot *s, unsigned i)
{
	struct near_histogram_range r = near_histogram_snapshot_bucket(s, i);

	return (double)r.low + (r.low > s->max ? 0 : (double)(r.high - r.low) / 2);
}

/* By how much the ends of log-linear bucket i exceed those of the exponential one. */
static double error_of(const struct near_histogram_snapshot *s, unsigned i, int number, int scale)
{
	struct near_histogram_range r = near_histogram_snapshot_bucket(s, i);
	double below = bound_of(number, scale) / (double)r.low - 1;
	double above = 1 - bound_of(number + 1, scale) / (double)r.high;

	if (r.low == r.high || r.low > s->max)
		return 0;
	return fmax(0, fmax(below, above));
}

/* With e->scale; the room at e->counts is enough and zero. */
static void exponential_fill(const struct near_histogram_snapshot *s, struct exponential *e)
{
	e->length = 0;
	e->error = 0;
	for (unsigned i = 1; i < s->buckets; i++) {
		int number;

		if (!s->counts[i])
			continue;
		number = number_of(value_of(s, i), e->scale);
		if (!e->length)
			e->first = number;
		e->counts[number - e->first] += s->counts[i];
		e->length = (unsigned)(number - e->first) + 1;
		e->error = fmax(e->error, error_of(s, i, number, e->scale));
	}
}

void make_exponential(const struct near_histogram_snapshot *s, int most, unsigned buckets,
		      struct exponential *e)
{
	size_t room;

	*e = (struct exponential){.scale = (int)s->precision < most ? (int)s->precision : most};
	room = ((size_t)64 << e->scale) + 1;
	e->counts = allocate_zeros(room, sizeof(*e->counts));
	e->zeros = s->counts[0];
	exponential_fill(s, e);
	while (e->length > buckets && e->scale > LEAST_SCALE) {
		memset(e->counts, 0, room * sizeof(*e->counts));
		e->scale--;
		exponential_fill(s, e);
	}
}

void add_loss(struct loss *loss, const struct near_histogram_snapshot *s, double error)
{
	loss->width = fmax(loss->width, 1. / (1u << s->precision));
	loss->error = fmax(loss->error, error);
	loss->above += s->max < UINT64_MAX ? s->counts[s->buckets - 1] : 0;
}

void say_loss(const struct loss *loss, char *out, size_t size)
{
	int n = snprintf(out, size,
			 "From buckets of at most %.2g %%; values are at most %.2g %% outside of "
			 "theirs here.",
			 loss->width * 100, loss->error * 100);

	if (loss->above && n > 0 && (size_t)n < size)
		snprintf(out + n, size - (size_t)n,
			 " %llu above the maximum count as the number after it.",
			 (unsigned long long)loss->above);
}
