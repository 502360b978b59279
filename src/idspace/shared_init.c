/* SPDX-License-Identifier: MIT */
/* Begin, end and statistics of near_shared_ids. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "idspace/shared.h"
#include "percpu/region.h"

#define VERSION 1
#define DEFAULT_IDS 256
#define DEFAULT_SEATS 64

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1);
}

#define LINE 64

/* about: ids, seats, bytes of data per id, version. Where the lines begin. */
static size_t lines_of(const uint64_t about[4])
{
	size_t words = round_up(about[0], 64) / 64;

	return round_up((SHARED_COUNTS + about[1] + words) * sizeof(uint64_t), LINE);
}

static struct near_region_object object_of(const char *name, const uint64_t about[4])
{
	struct near_region_object o = {
		.name = name, .kind = NEAR_REGION_PRIVATE, .flags = NEAR_REGION_ONCE};

	o.size = lines_of(about) + (near_cpus() + about[0]) * LINE;
	memcpy(o.about, about, sizeof(o.about));
	return o;
}
_Static_assert(sizeof(struct near__shared_id) == LINE, "part of the format");

/* The object by that name. -ENOENT: there is none. */
static int find(struct near_shared_ids *s, const char *name, uint64_t about[4])
{
	struct near_region_object o;
	int err;

	for (unsigned i = 0; (err = near_region_object(s->region, i, &o)) == 0; i++)
		if (strcmp(o.name, name) == 0)
			break;
	if (err == -EBADMSG)
		return shared_fail(s, err, "the directory of the region is damaged");
	if (err)
		return shared_fail(s, err, "the region has no id space by this name");
	if (o.kind != NEAR_REGION_PRIVATE || o.flags != NEAR_REGION_ONCE)
		return shared_fail(s, -EEXIST, "the region has something else by this name");
	if (o.about[3] != VERSION)
		return shared_fail(s, -EPROTO, "the id space is of another version of the library");
	if (!o.about[0] || o.about[0] > NEAR_IDSPACE_MAX_IDS || !o.about[1] ||
	    o.about[1] > NEAR_SHARED_IDS_MAX_SEATS || o.about[2] > NEAR_IDSPACE_MAX_SIZE ||
	    o.size != object_of(name, o.about).size)
		return shared_fail(s, -EBADMSG, "the id space is damaged");
	memcpy(about, o.about, sizeof(o.about));
	return 0;
}

static int choose(struct near_shared_ids *s, const struct near_shared_ids_options *o,
		  uint64_t about[4])
{
	about[0] = o->ids ? o->ids : DEFAULT_IDS;
	about[1] = o->seats ? o->seats : DEFAULT_SEATS;
	about[2] = o->size;
	about[3] = VERSION;
	if (about[0] > NEAR_IDSPACE_MAX_IDS || about[1] > NEAR_SHARED_IDS_MAX_SEATS ||
	    about[2] > NEAR_IDSPACE_MAX_SIZE)
		return shared_fail(s, -E2BIG, "more ids, seats or bytes than there can be");
	return 0;
}

static int define(struct near_shared_ids *s, struct near_region_object *o)
{
	int err = near_region_define(s->region, o);

	return err ? shared_fail(s, err, s->region->why) : 0;
}

static void use_object(struct near_shared_ids *s, const struct near_region_object *o)
{
	s->ids = o->about[0];
	s->seats = (unsigned)o->about[1];
	s->counts = (uint64_t *)near_region_once(s->region, o->offset);
	s->words = s->counts + SHARED_COUNTS;
	s->bitmap = s->words + s->seats;
	s->caches = (uint64_t *)near_region_once(s->region, o->offset + lines_of(o->about));
	s->owners = (struct near__shared_id *)(s->caches + near_cpus() * LINE / sizeof(uint64_t));
}

/* Before the other one, as it is what a region is most often too small for: the name has no space
 * then. */
static int define_data(struct near_shared_ids *s, const char *name, const uint64_t about[4])
{
	char part[NEAR_REGION_NAME];
	int err, n = snprintf(part, sizeof(part), "%s:data", name);

	if ((size_t)n >= sizeof(part))
		return shared_fail(s, -EINVAL, "the name is too long");
	s->stride = round_up(about[2], REGION_PAGE);
	if (!s->stride)
		return 0;
	s->object = (struct near_region_object){.name = part,
						.kind = NEAR_REGION_PRIVATE,
						.flags = NEAR_REGION_ONCE | NEAR_REGION_SPARSE,
						.size = about[0] * s->stride};
	err = define(s, &s->object);
	s->object.name = NULL;
	s->data = near_region_once(s->region, s->object.offset);
	return err;
}

static int define_all(struct near_shared_ids *s, const char *name, const uint64_t about[4])
{
	struct near_region_object o = object_of(name, about);
	int err = define_data(s, name, about);

	if (!err)
		err = define(s, &o);
	if (!err)
		use_object(s, &o);
	return err;
}

static int map_ready(struct near_shared_ids *s)
{
	void *p;

	s->mapped = s->ids / 8 + sizeof(uint64_t);
	p = mmap(NULL, s->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return shared_fail(s, -ENOMEM, "no memory");
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

static int open_space(struct near_shared_ids *s, const char *name,
		      const struct near_shared_ids_options *options)
{
	uint64_t about[4] = {0};
	int err = s->region->read_only ? shared_fail(s, -EROFS, "the region is a snapshot")
				       : find(s, name, about);

	if (err == -ENOENT && options)
		err = choose(s, options, about);
	if (!err)
		err = define_all(s, name, about);
	if (!err)
		err = map_ready(s);
	return err ? err : take_part(s);
}

int near_shared_ids_open(struct near_shared_ids *s, struct near_region *r, const char *name,
			 const struct near_shared_ids_options *options)
{
	int saved = errno, err;

	memset(s, 0, sizeof(*s));
	s->fd = -1;
	s->region = r;
	near_slots(); /* the number of nodes is known */
	s->nodes = near__process.nodes;
	err = open_space(s, name, options);
	if (err) {
		if (s->ready)
			munmap(s->ready, s->mapped);
		s->ready = NULL;
	} else {
		s->why = NULL;
	}
	errno = saved;
	return err;
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

	if (!size)
		return -EINVAL;
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
	memset(out, 0, size);
	memcpy(out, &known, size < sizeof(known) ? size : sizeof(known));
	return 0;
}
