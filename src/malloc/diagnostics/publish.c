/* SPDX-License-Identifier: MIT */
/* NEAR_CONF=malloc_region:FILE: the statistics in a region (near_region(3)), while the process
 * runs.
 *
 * The region has objects of PLACES values each, in this order: the owners' words (region/values.c),
 * the totals, and two for each size class. A process owns one place, with the same number in all
 * objects. Its size is fixed when it is made, in one piece before it has its name. After that
 * nobody adds objects, so that processes need no lock on it, nor keep its file open: the mapping
 * remains, whatever the program does to its descriptors, its root directory or its rights.
 *
 * Who writes what. The owner of a place alone writes its values: a thread that takes a slow path,
 * or the background thread, once in PERIOD_MS, and more often while the process is young, so that
 * one which begins and then waits has what it began with. It holds `lock`, which is only tried: so
 * nobody waits, and an allocation in here (by the C library, for a message) does not return to it.
 * Each value is one store. A reader may see some of the next publication and some of
 * the last.
 *
 * Places. A process takes its own again (after execve), a free one, or that of a process that has
 * ended, by one compare-and-swap of the owner's word. The values of the former owner stay until the
 * first publication, which follows: a reader may see those for a moment. Gauges begin anew, counts
 * continue from where they are: the sum over all places has what ended processes counted, and never
 * falls. A process in another pid namespace has ended if it published nothing for STALE_S; if it
 * has not, it finds another owner when it publishes, and takes another place.
 *
 * Fork. The handler takes `lock`. The child takes a place of its own, and its counts begin at 0. A
 * child that the handlers do not know (vfork, clone) publishes nothing, by base/identity.h.
 *
 * Kill. Whatever was stored is valid by itself. What the process counted since it published last is
 * lost; its place is free as soon as the kernel does not know the process any more. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/identity.h"
#include "malloc/base/malloc_conf.h"
#include "malloc/base/safe_file.h"
#include "malloc/cache/background.h"
#include "malloc/cache/malloc_cache.h"
#include "malloc/diagnostics/malloc_stats.h"
#include "region/region.h"

#define PLACES 256
#define PERIOD_MS 1000
#define LEAST_MS 10
#define PERIODS 8 /* at least, that a process has had */
#define STALE_S 3600
#define TRIES 100 /* of the lock, when the process ends */

#define ALL(f) offsetof(struct near_malloc_stats, f)

/* Without pointers, as in stats_json.c. The first and the last have no field. */
static const struct total {
	char name[40];
	uint8_t is_gauge;
	uint16_t offset;
} totals[] = {
	{"near_malloc_processes", 0, 0},
	{"near_malloc_in_use_bytes", 1, ALL(in_use)},
	{"near_malloc_mapped_bytes", 1, ALL(committed)},
	{"near_malloc_resident_bytes", 1, ALL(resident)},
	{"near_malloc_dirty_bytes", 1, ALL(free_dirty)},
	{"near_malloc_cached_bytes", 1, ALL(cached)},
	{"near_malloc_returned_bytes_total", 0, ALL(given_back)},
	{"near_malloc_slow_calls_total", 0, ALL(misses)},
	{"near_malloc_large_calls_total", 0, ALL(large_allocations)},
	{"near_malloc_published_timestamp_seconds", 1, 0},
};

enum {
	OWNERS = 0,
	PUBLISHED = sizeof(totals) / sizeof(totals[0]) - 1,
	IN_USE, /* of the first class */
	SLOW = IN_USE + NEAR__SIZES,
	OBJECTS = SLOW + NEAR__SIZES,
};

static char wanted[PATH_MAX];
static bool allowed, failed, was_full;
static uint32_t process; /* that publishes, see base/identity.h */
static uint64_t due;     /* relaxed: it only makes calls rare */
static uint64_t born_ms;

static struct near_lock lock; /* of what follows */
static struct near_region region;
static unsigned place = PLACES;     /* PLACES: none */
static uint64_t self;               /* the owner's word of this process */
static struct near__stats_base now; /* what is published */
static uint64_t at_fork[OBJECTS];   /* counts of the parents */
static uint64_t before[OBJECTS];    /* what to add to a count for its value */

static void publish_complain(const char *reason)
{
	struct near__out o;

	near__out_begin_fd(&o, 2);
	near__out_print(&o, "nearcpu-malloc: statistics are not published in %s: %s\n", wanted,
			reason);
	near__out_end(&o);
}

static uint64_t *word_at(unsigned object, unsigned n)
{
	return (uint64_t *)near_region_common(&region, (object * PLACES + n) * sizeof(uint64_t));
}

/* ---- the region ---- */

struct plan {
	struct near_region_object objects[OBJECTS];
	char labels[OBJECTS][24];
};

static bool is_gauge(unsigned object)
{
	return object <= PUBLISHED ? totals[object].is_gauge : object < SLOW;
}

static void plan_object(struct plan *p, unsigned n)
{
	struct near_region_object *o = &p->objects[n];
	char *label = p->labels[n];
	struct near__out text;

	*o = (struct near_region_object){.kind = n ? NEAR_REGION_VALUES : NEAR_REGION_BYTES,
					 .flags = NEAR_REGION_COMMON,
					 .labels = label,
					 .size = PLACES * sizeof(uint64_t)};
	if (n) {
		o->about[NEAR_REGION_ABOUT_GAUGE] = is_gauge(n);
		o->about[NEAR_REGION_ABOUT_OWNERS] = 1;
	}
	o->name = n <= PUBLISHED ? totals[n].name
		  : n < SLOW     ? "near_malloc_small_in_use_bytes"
				 : "near_malloc_small_slow_calls_total";
	if (n <= PUBLISHED)
		return;
	near__out_begin(&text, NULL, NULL);
	near__out_print(&text, "size=\"%lu\"",
			(unsigned long)near__sizes[(n - IN_USE) % NEAR__SIZES + 1].size);
	memcpy(label, text.text, text.used);
}

/* Another program's region, or that of a library with other classes, is left alone. */
static bool region_is_as_planned(const struct plan *p)
{
	struct near_region_object o;

	for (unsigned n = 0; n < OBJECTS; n++) {
		const struct near_region_object *want = &p->objects[n];

		if (near_region_object(&region, n, &o) || strcmp(o.name, want->name) != 0 ||
		    strcmp(o.labels, want->labels) != 0 || o.kind != want->kind ||
		    o.flags != want->flags || o.size != want->size ||
		    memcmp(o.about, want->about, sizeof(o.about)) != 0 ||
		    o.offset != n * PLACES * sizeof(uint64_t))
			return false;
	}
	return true;
}

/* Whoever can shorten the file can end this process. */
static bool region_is_safe(void)
{
	struct stat st;

	return fstat(region.fd, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0);
}

static const char *region_reason(int err)
{
	const char *reason = near__file_reason(err);

	if (err == -EEXIST)
		return "it is a symbolic link to nothing";
	if (*reason && err != -EFBIG)
		return reason + 2; /* behind ": " */
	reason = near_region_error(&region);
	return reason ? reason : "no memory";
}

static const char *region_open(struct plan *p)
{
	struct near_region_options options = {.flags = NEAR_CREATE,
					      .size = sizeof(uint64_t),
					      .common_size = OBJECTS * PLACES * sizeof(uint64_t),
					      .max_objects = OBJECTS,
					      .initial = p->objects,
					      .n_initial = OBJECTS};
	const char *wrong = NULL;
	int err;

	for (unsigned n = 0; n < OBJECTS; n++)
		plan_object(p, n);
	err = near_region_open(&region, wanted, &options);
	if (err)
		return region_reason(err);
	if (!region_is_safe())
		wrong = "the file there is another user's";
	else if (!region_is_as_planned(p))
		wrong = "it is the region of another program, or of another version";
	near__file_close(region.fd);
	region.fd = -1;
	if (wrong)
		near_region_close(&region);
	return wrong;
}

static bool region_ready(void)
{
	const char *wrong = "no memory";
	struct plan *p;

	if (region.header || failed)
		return !failed;
	p = near__os_map(sizeof(*p));
	if (p) {
		wrong = region_open(p);
		near__os_release(p, sizeof(*p));
	}
	failed = wrong != NULL;
	if (failed)
		publish_complain(wrong);
	else
		self = near__owner_self();
	return !failed;
}

/* ---- the place ---- */

enum { OWN, FREE, ENDED, CHOICES };

static bool is_stale(unsigned n)
{
	uint64_t seen = __atomic_load_n(word_at(PUBLISHED, n), __ATOMIC_RELAXED);

	return seen + STALE_S < near__clock_ns(CLOCK_REALTIME) / 1000000000;
}

static bool can_take(unsigned n, uint64_t word, unsigned choice)
{
	enum near__owner state;

	if (choice == OWN)
		return word == self;
	state = near__owner_state(word, self, choice == ENDED);
	return state == NEAR__OWNER_ENDED ||
	       (state == NEAR__OWNER_UNKNOWN && choice == ENDED && is_stale(n));
}

/* Acquire: what the former owner stored comes before. Release: pairs with that in
 * near__region_value. */
static bool place_take(unsigned n, unsigned choice)
{
	uint64_t word = __atomic_load_n(word_at(OWNERS, n), __ATOMIC_RELAXED);

	if (!can_take(n, word, choice) ||
	    !__atomic_compare_exchange_n(word_at(OWNERS, n), &word, self, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return false;
	for (unsigned i = 1; i < OBJECTS; i++)
		before[i] = __atomic_load_n(word_at(i, n), __ATOMIC_RELAXED) - at_fork[i];
	return true;
}

static bool place_is_mine(void)
{
	return place < PLACES && __atomic_load_n(word_at(OWNERS, place), __ATOMIC_RELAXED) == self;
}

static bool place_ready(void)
{
	if (place_is_mine())
		return true;
	place = PLACES;
	for (unsigned choice = OWN; choice < CHOICES && place == PLACES; choice++)
		for (unsigned n = 0; n < PLACES && place == PLACES; n++)
			if (place_take(n, choice))
				place = n;
	if (place == PLACES && !was_full)
		publish_complain("256 processes are there already");
	was_full = place == PLACES;
	return !was_full;
}

/* ---- values ---- */

static uint64_t value_of(unsigned object)
{
	const struct near_malloc_class_stats *class;
	uint64_t value;

	if (object == PUBLISHED)
		return near__clock_ns(CLOCK_REALTIME) / 1000000000;
	if (object < PUBLISHED) {
		memcpy(&value, (const char *)&now.all + totals[object].offset, sizeof(value));
		return value;
	}
	class = &now.classes[(object - IN_USE) % NEAR__SIZES];
	return object < SLOW ? class->in_use * class->size : class->misses;
}

/* Release: a reader that has the value of a new owner finds that owner's word. */
static void value_put(unsigned object, uint64_t value)
{
	__atomic_store_n(word_at(object, place), value, __ATOMIC_RELEASE);
}

/* A sum that was read while its parts moved may be too small: the value of a count stays then. */
static void values_put(void)
{
	near__stats_read(&now);
	for (unsigned i = 1; i < OBJECTS; i++) {
		uint64_t value = value_of(i) + (is_gauge(i) ? 0 : before[i]);
		uint64_t was = __atomic_load_n(word_at(i, place), __ATOMIC_RELAXED);

		if (is_gauge(i) || value > was)
			value_put(i, value);
	}
}

/* ---- when ---- */

static bool may_publish(void)
{
	return wanted[0] && allowed && near__storage_is_own() && near__identity_is(process);
}

static uint64_t next_after(uint64_t ms)
{
	uint64_t wait = (ms - born_ms) / PERIODS;

	return ms + (wait < LEAST_MS ? LEAST_MS : wait < PERIOD_MS ? wait : PERIOD_MS);
}

static void publish_due(uint64_t ms)
{
	int saved = errno;

	if (ms < __atomic_load_n(&due, __ATOMIC_RELAXED) || !may_publish() ||
	    !near_lock_try_lock(&lock))
		return;
	__atomic_store_n(&due, next_after(ms), __ATOMIC_RELAXED);
	if (region_ready() && place_ready())
		values_put();
	near_lock_unlock(&lock);
	errno = saved;
}

void near__publish_begin(const char *suffix)
{
	near__stats_name(wanted, &near__malloc_conf.region, suffix);
	if (!wanted[0])
		return;
	process = near__identity_begin();
	born_ms = near__os_ms();
	__atomic_store_n(&near__each_slow_path, publish_due, __ATOMIC_RELAXED);
}

void near__publish_allow(void)
{
	allowed = true;
	if (wanted[0])
		publish_due(near__os_ms());
}

void near__publish_fork(near__fork_step *step)
{
	step(&lock);
}

/* Here, not when it publishes: a child may forbid itself system calls. If the fork interrupted a
 * publication (near__publish_fork), that ends first. */
void near__publish_fork_child(bool counts)
{
	if (!wanted[0])
		return;
	process = near__identity_fork_child();
	place = PLACES;
	born_ms = near__os_ms();
	__atomic_store_n(&due, 0, __ATOMIC_RELAXED);
	if (!region.header || !near_lock_try_lock(&lock))
		return;
	self = near__owner_self();
	if (counts) {
		near__stats_read(&now);
		for (unsigned i = 1; i < OBJECTS; i++)
			at_fork[i] = is_gauge(i) ? 0 : value_of(i);
	}
	place_ready();
	near_lock_unlock(&lock);
}

/* The last counts; gauges of an ended process are 0. A handler of a signal that came in the middle
 * of a publication may end the process: then the lock stays held. */
__attribute__((destructor)) static void publish_end(void)
{
	bool locked = false;

	for (unsigned i = 0; may_publish() && !locked && i < TRIES; i++) {
		locked = near_lock_try_lock(&lock);
		if (!locked)
			sched_yield();
	}
	if (!locked)
		return;
	if (region_ready() && place_ready()) {
		values_put();
		for (unsigned i = 1; i < OBJECTS; i++)
			if (is_gauge(i))
				value_put(i, 0);
		__atomic_store_n(word_at(OWNERS, place), 0, __ATOMIC_RELEASE);
	}
	wanted[0] = 0;
	near_lock_unlock(&lock);
}
