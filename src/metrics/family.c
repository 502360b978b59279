/* SPDX-License-Identifier: MIT */
/* near_family: a table of members by the hash of their labels, which only gets more of them: to
 * search it needs no lock and no section. */
#include <nearcpu/metrics.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "percpu/percpu.h"
#include "region/region.h"

typedef struct near__family_member {
	union {
		struct near_counter counter;
		struct near_gauge gauge;
		struct near_histogram histogram;
	} object;
	char labels[];
} member;

/* Values NULL: `_other_`. False: they do not fit. */
static bool make_labels(const struct near_family *f, const char *const *values, char *out)
{
	char *const last = out + NEAR_METRIC_LABELS - 5, *at = out; /* room for ="\n" and a comma */

	for (const char *name = f->names; *name;) {
		const char *c = values ? *values++ : "_other_";

		while (*name && *name != ',' && at < last)
			*at++ = *name++;
		*at++ = '=';
		*at++ = '"';
		for (; *c && at < last; c++) {
			if (*c == '\n' || *c == '\\' || *c == '"')
				*at++ = '\\';
			*at++ = (char)(*c == '\n' ? 'n' : *c);
		}
		if (at >= last)
			return false;
		*at++ = '"';
		if (*name)
			*at++ = *name++;
	}
	*at = '\0';
	return true;
}

/* The place of these labels, which is empty if there is no such member: the table is never more
 * than half full. The acquire pairs with the release in family_add. FNV-1a is the hash; the last
 * multiplication makes its high bits of all. */
static member **find_place(const struct near_family *f, const char *labels, member **found)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (const char *c = labels; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	for (size_t i = hash * 0x9e3779b97f4a7c15u >> (64 - f->bits);; i++) {
		member **place = &f->table[i & (((size_t)1 << f->bits) - 1)];

		*found = __atomic_load_n(place, __ATOMIC_ACQUIRE);
		if (!*found || strcmp((*found)->labels, labels) == 0)
			return place;
	}
}

static void member_free(const struct near_family *f, member *m)
{
	if (m && f->kind == NEAR_METRIC_HISTOGRAM)
		near_histogram_destroy(&m->object.histogram);
	else if (m && f->kind != NEAR_METRIC_GAUGE)
		near_counter_destroy(&m->object.counter);
	free(m);
}

static int member_make(const struct near_family *f, const char *labels, member **made)
{
	member *m;
	int err = 0;

	if (!near__region_are_labels(labels, NEAR_METRIC_LABELS))
		return -EINVAL;
	m = near__heap_zeroed(1, sizeof(*m) + strlen(labels) + 1);
	if (!m)
		return -ENOMEM;
	strcpy(m->labels, labels);
	if (f->kind == NEAR_METRIC_HISTOGRAM)
		err = near_histogram_init(&m->object.histogram, f->options);
	else if (f->kind != NEAR_METRIC_GAUGE)
		err = near_counter_init(&m->object.counter);
	if (err)
		free(m);
	else
		*made = m;
	return err;
}

int near_family_init(struct near_family *f, enum near_metric_kind kind, const char *names,
		     unsigned members, const struct near_histogram_options *options)
{
	char labels[NEAR_METRIC_LABELS];
	int err;

	*f = (struct near_family){
		.names = names, .kind = kind, .bits = 1, .members = members, .options = options};
	if (kind < NEAR_METRIC_COUNTER || kind > NEAR_METRIC_HISTOGRAM ||
	    members > NEAR_FAMILY_MEMBERS || !*names || !make_labels(f, NULL, labels))
		return -EINVAL;
	while ((size_t)1 << f->bits < 2 * (size_t)members)
		f->bits++;
	err = member_make(f, labels, &f->other);
	if (err)
		return err;
	f->table = near__heap_zeroed((size_t)1 << f->bits, sizeof(*f->table));
	if (f->table)
		return 0;
	member_free(f, f->other);
	return -ENOMEM;
}

void near_family_destroy(struct near_family *f)
{
	for (size_t i = 0; f->table && i < (size_t)1 << f->bits; i++)
		member_free(f, f->table[i]);
	member_free(f, f->other);
	free(f->table);
	memset(f, 0, sizeof(*f));
}

/* The member is made before the lock is taken, which forks take, too: of two threads the later
 * one's is freed again. Relaxed: the number only grows, and is checked again. */
static member *family_add(struct near_family *f, const char *labels)
{
	struct near_lock *lock = near__percpu_lock(f);
	member *made = NULL, *found = NULL, **place;

	if (__atomic_load_n(&f->count, __ATOMIC_RELAXED) >= f->members ||
	    member_make(f, labels, &made))
		return NULL;
	near_lock_lock(lock);
	place = find_place(f, labels, &found);
	if (!found && f->count < f->members) {
		__atomic_store_n(&f->count, f->count + 1, __ATOMIC_RELAXED);
		__atomic_store_n(place, made, __ATOMIC_RELEASE);
		found = made;
	}
	near_lock_unlock(lock);
	if (found != made)
		member_free(f, made);
	return found;
}

void *near_family_get(struct near_family *f, const char *const *values)
{
	char labels[NEAR_METRIC_LABELS];
	member *found = NULL;

	if (make_labels(f, values, labels)) {
		find_place(f, labels, &found);
		if (!found)
			found = family_add(f, labels);
	}
	if (found)
		return &found->object;
	__atomic_fetch_add(&f->overflows, 1, __ATOMIC_RELAXED); /* a statistic */
	return &f->other->object;
}

uint64_t near_family_overflows(const struct near_family *f)
{
	return __atomic_load_n(&f->overflows, __ATOMIC_RELAXED);
}

void *near__family_next(const struct near_family *f, size_t *i, const char **labels)
{
	const size_t all = (size_t)1 << f->bits;
	member *m = NULL;

	while (!m && *i < all)
		m = __atomic_load_n(&f->table[(*i)++], __ATOMIC_ACQUIRE);
	if (!m && (*i)++ == all && near_family_overflows(f))
		m = f->other;
	*labels = m ? m->labels : NULL;
	return m;
}
