/* SPDX-License-Identifier: MIT */
/* Begin, end and statistics of near_shared_ids. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/known.h"
#include "base/reserved.h"
#include "idspace/shared.h"
#include "region/region.h"

#define VERSION 1
#define DEFAULT_IDS 256
#define DEFAULT_SEATS 64

#define LINE 64

/* about: ids, seats, bytes of data per id, version. Where the lines begin. */
static size_t lines_of(const uint64_t about[4])
{
	size_t words = near__bit_words(about[0]);

	return near__round_up((SHARED_COUNTS + about[1] + words) * sizeof(uint64_t), LINE);
}

static struct near_region_object object_of(const char *name, const char *labels,
					   const uint64_t about[4])
{
	struct near_region_object o = {.name = name,
				       .labels = labels,
				       .kind = NEAR_REGION_PRIVATE,
				       .flags = NEAR_REGION_COMMON};

	o.size = lines_of(about) + (near_cpus() + about[0]) * LINE;
	memcpy(o.about, about, sizeof(o.about));
	return o;
}
_Static_assert(sizeof(struct near__shared_id) == LINE, "part of the format");

static bool is_space(const struct near_region_object *o)
{
	return o->kind == NEAR_REGION_PRIVATE && o->flags == NEAR_REGION_COMMON;
}

/* Whether this process can use a space with what the directory has about it. */
static int check_space(const struct near_shared_ids *s, const struct near_region_object *o)
{
	if (o->about[3] != VERSION)
		return near__reason_set(s, -EPROTO,
					"the id space is of another version of the library");
	if (!o->about[0] || o->about[0] > NEAR_IDSPACE_MAX_IDS || !o->about[1] ||
	    o->about[1] > NEAR_SHARED_IDS_MAX_SEATS || o->about[2] > NEAR_IDSPACE_MAX_SIZE ||
	    o->size != object_of(o->name, o->labels, o->about).size)
		return near__reason_set(s, -EBADMSG, "the id space is damaged");
	return 0;
}

/* The object with this name and these labels. -ENOENT: there is none. */
static int shared_find(const struct near_shared_ids *s, const char *name, const char *labels,
		       struct near_region_object *o)
{
	int err;

	for (unsigned i = 0; (err = near_region_object(s->region, i, o)) == 0; i++)
		if (strcmp(o->name, name) == 0 && strcmp(o->labels, labels) == 0)
			break;
	if (err == -EBADMSG)
		return near__reason_set(s, err, "the directory of the region is damaged");
	if (!err && !is_space(o))
		return near__reason_set(s, -EEXIST, "the region has something else by this name");
	return err ? err : check_space(s, o);
}

static int shared_choose(const struct near_shared_ids *s, const struct near_shared_ids_options *o,
			 uint64_t about[4])
{
	about[0] = o->ids ? o->ids : DEFAULT_IDS;
	about[1] = o->seats ? o->seats : DEFAULT_SEATS;
	about[2] = o->size;
	about[3] = VERSION;
	if (about[0] > NEAR_IDSPACE_MAX_IDS || about[1] > NEAR_SHARED_IDS_MAX_SEATS ||
	    about[2] > NEAR_IDSPACE_MAX_SIZE)
		return near__reason_set(s, -E2BIG, "more ids, seats or bytes than there can be");
	return 0;
}

static int find_or_describe(const struct near_shared_ids *s, const char *name, const char *labels,
			    const struct near_shared_ids_options *options,
			    struct near_region_object *o)
{
	static const struct near_shared_ids_options defaults;
	int err = shared_find(s, name, labels, o);
	uint64_t about[4];

	if (err != -ENOENT)
		return err;
	err = shared_choose(s, options ? options : &defaults, about);
	*o = object_of(name, labels, about);
	return err;
}

static int open_part(const struct near_shared_ids *s, struct near_region_object *o)
{
	int err = near_region_open_object(s->region, o);

	return err ? near__reason_pass_on(s, err) : 0;
}

static void use_object(struct near_shared_ids *s, const struct near_region_object *o)
{
	s->ids = o->about[0];
	s->seats = (unsigned)o->about[1];
	s->counts = (uint64_t *)near_region_common(s->region, o->offset);
	s->words = s->counts + SHARED_COUNTS;
	s->bitmap = s->words + s->seats;
	s->caches = (uint64_t *)near_region_common(s->region, o->offset + lines_of(o->about));
	s->owners = (struct near__shared_id *)(s->caches + near_cpus() * LINE / sizeof(uint64_t));
}

/* Before the other one, as it is what a region is most often too small for: the name has no space
 * then. */
static int open_data(struct near_shared_ids *s, const struct near_region_object *o)
{
	char part[NEAR_REGION_NAME];
	int err, n = snprintf(part, sizeof(part), "%s:data", o->name);

	if ((size_t)n >= sizeof(part))
		return near__reason_set(s, -EINVAL, "the name is too long");
	s->stride = near__round_up(o->about[2], REGION_PAGE);
	if (!s->stride)
		return 0;
	s->object = (struct near_region_object){.name = part,
						.labels = o->labels,
						.kind = NEAR_REGION_PRIVATE,
						.flags = NEAR_REGION_COMMON | NEAR_REGION_SPARSE,
						.size = o->about[0] * s->stride};
	err = open_part(s, &s->object);
	s->object.name = s->object.labels = NULL;
	s->data = near_region_common(s->region, s->object.offset);
	return err;
}

static int open_parts(struct near_shared_ids *s, struct near_region_object *o)
{
	int err = open_data(s, o);

	if (!err)
		err = open_part(s, o);
	if (!err)
		use_object(s, o);
	return err;
}

static int map_ready(struct near_shared_ids *s)
{
	void *p;

	s->mapped = s->ids / 8 + sizeof(uint64_t);
	p = mmap(NULL, s->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return near__reason_set(s, -ENOMEM, "no memory");
	s->ready = p;
	return 0;
}

static int take_part(struct near_shared_ids *s)
{
	int err;

	near_lock_lock(&near__seats.lock);
	err = near__seat_take(s);
	if (!err) {
		s->next = near__seats.open;
		near__seats.open = s;
	}
	near_lock_unlock(&near__seats.lock);
	return err;
}

static void shared_prepare(struct near_shared_ids *s, const struct near_region *r)
{
	memset(s, 0, sizeof(*s));
	s->fd = -1;
	s->region = r;
	near_slots(); /* the number of nodes is known */
	s->nodes = near__process.nodes;
}

/* The space that object `o` describes, which may have to be added. */
static int open_space(struct near_shared_ids *s, struct near_region_object *o)
{
	int err = s->region->read_only ? near__reason_set(s, -EROFS, "the region is a snapshot")
				       : open_parts(s, o);

	if (!err)
		err = map_ready(s);
	if (!err)
		err = take_part(s);
	if (err && s->ready) {
		munmap(s->ready, s->mapped);
		s->ready = NULL;
	}
	return err;
}

int near_shared_ids_open(struct near_shared_ids *s, const struct near_region *r, const char *name,
			 const char *labels, const struct near_shared_ids_options *options)
{
	struct region_caller c = near__region_enter();
	struct near_region_object o;
	int err;

	shared_prepare(s, r);
	if (options && !NEAR__RESERVED_ARE_ZERO(options))
		err = near__reason_set(s, -EINVAL, "a reserved word of the options is not 0");
	else
		err = find_or_describe(s, name, labels ? labels : "", options, &o);
	if (!err)
		err = open_space(s, &o);
	return near__region_leave(c, err);
}

int near_shared_ids_open_object(struct near_shared_ids *s, const struct near_region *r,
				const struct near_region_object *o)
{
	struct region_caller c = near__region_enter();
	struct near_region_object copy = *o;
	int err;

	shared_prepare(s, r);
	err = is_space(o) ? check_space(s, o)
			  : near__reason_set(s, -EINVAL, "the object is no id space");
	if (!err)
		err = open_space(s, &copy);
	return near__region_leave(c, err);
}

const char *near_shared_ids_error(const struct near_shared_ids *s)
{
	return near__reason_of(s);
}

void near_shared_ids_close(struct near_shared_ids *s)
{
	struct near_shared_ids **p = &near__seats.open;
	int saved = errno;

	if (!s->ready)
		return;
	near_lock_lock(&near__seats.lock);
	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	near__seat_leave(s);
	near_lock_unlock(&near__seats.lock);
	munmap(s->ready, s->mapped);
	memset(s, 0, sizeof(*s));
	s->fd = -1;
	errno = saved;
}

int near_shared_ids_stats(const struct near_shared_ids *s, struct near_shared_ids_stats *out,
			  size_t size)
{
	struct near_shared_ids_stats known = {.ids = (unsigned)s->ids, .seats = s->seats};
	uint64_t *counts[] = {&known.evictions, &known.discards, &known.allocations, &known.exits,
			      &known.foreign};

	for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		*counts[i] = __atomic_load_n(&s->counts[i], __ATOMIC_RELAXED);
	for (unsigned i = 0; i < s->seats; i++)
		known.taken += __atomic_load_n(&s->words[i], __ATOMIC_RELAXED) != 0;
	for (uint64_t i = 0; i < s->ids; i++) {
		const struct near__shared_id *line = &s->owners[i];

		known.used += __atomic_load_n(&line->owner, __ATOMIC_RELAXED) > LEFT;
		known.hits += __atomic_load_n(&line->hits, __ATOMIC_RELAXED);
		known.transfers += __atomic_load_n(&line->transfers, __ATOMIC_RELAXED);
	}
	return near__copy_known(out, size, &known, sizeof(known));
}
