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
 * Who writes what. The owner of a place alone writes its values: the background thread, or, where
 * that does not run, a thread that takes a slow path. It does so once in PERIOD_MS, and more often
 * while the process is young, so that one which begins and then waits has what it began with. It
 * holds `lock`, which is only tried: so nobody waits, and an allocation in here (by the C library,
 * for a message) does not return to it. Each value is one store. A reader may see some of the next
 * publication and some of the last.
 *
 * Places. A process takes its own again (after execve), a free one, or that of a process that has
 * ended, by one compare-and-swap of the owner's word. The values of the former owner stay until the
 * first publication, which follows: a reader may see those for a moment. It replaces gauges; counts
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
	LAYOUT = OBJECTS, /* changes with the objects: another number has another file */
};
#define COMMON (OBJECTS * PLACES * sizeof(uint64_t))

static char wanted[PATH_MAX];
static bool early = true; /* constructors have not run yet; not in a page of its own, as below */
static bool failed, was_full;
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

static bool is_gauge(unsigned object)
{
	return object <= PUBLISHED ? totals[object].is_gauge : object < SLOW;
}

/* Used once, and not touched in a process that publishes nothing. */
static struct near_region_object objects[OBJECTS];
static char labels[OBJECTS][24];

static void plan_object(unsigned n)
{
	struct near_region_object *o = &objects[n];
	struct near__out text;

	*o = (struct near_region_object){.kind = n ? NEAR_REGION_VALUES : NEAR_REGION_BYTES,
					 .flags = NEAR_REGION_COMMON,
					 .labels = labels[n],
					 .size = PLACES * sizeof(uint64_t),
					 .about = {is_gauge(n), n ? 1 : LAYOUT}};
	o->name = n <= PUBLISHED ? totals[n].name
		  : n < SLOW     ? "near_malloc_small_in_use_bytes"
				 : "near_malloc_small_slow_calls_total";
	if (n <= PUBLISHED)
		return;
	near__out_begin(&text, NULL, NULL);
	near__out_print(&text, "size=\"%lu\"",
			(unsigned long)near__sizes[(n - IN_USE) % NEAR__SIZES + 1].size);
	memcpy(labels[n], text.text, text.used);
}

/* Another program's region is left alone. Whoever can shorten the file can end this process. */
static const char *region_check(void)
{
	struct near_region_object o;
	struct stat st;

	if (fstat(region.fd, &st) || (st.st_uid != geteuid() && st.st_uid != 0))
		return "the file there is another user's";
	if (near_region_object(&region, OWNERS, &o) || strcmp(o.name, totals[OWNERS].name) != 0 ||
	    memcmp(o.about, objects[OWNERS].about, sizeof(o.about)) != 0 ||
	    region.header->common_size != COMMON)
		return "it is the region of another program, or of another version";
	return NULL;
}

static const char *region_open(void)
{
	static const struct near_region_options options = {.flags = NEAR_CREATE,
							   .size = sizeof(uint64_t),
							   .common_size = COMMON,
							   .max_objects = OBJECTS,
							   .initial = objects,
							   .n_initial = OBJECTS};
	const char *wrong;

	for (unsigned n = 0; n < OBJECTS; n++)
		plan_object(n);
	if (near_region_open(&region, wanted, &options))
		return near_region_error(&region) ?: "no memory";
	wrong = region_check();
	near__file_close(region.fd);
	region.fd = -1;
	if (wrong)
		near_region_close(&region);
	return wrong;
}

static bool region_ready(void)
{
	const char *wrong = region.header || failed ? NULL : region_open();

	if (wrong)
		publish_complain(wrong);
	else if (!self)
		self = near__owner_self();
	failed |= wrong != NULL;
	return !failed;
}

/* ---- the place ---- */

static bool is_stale(unsigned n)
{
	uint64_t seen = __atomic_load_n(word_at(PUBLISHED, n), __ATOMIC_RELAXED);

	return seen + STALE_S < near__clock_ns(CLOCK_REALTIME) / 1000000000;
}

static bool can_take(unsigned n, uint64_t word)
{
	enum near__owner state = near__owner_state(word, self);

	return state == NEAR__OWNER_ENDED || (state == NEAR__OWNER_UNKNOWN && is_stale(n));
}

/* Acquire: what the former owner stored comes before. Release: pairs with that in
 * near__region_value. */
static bool place_take(unsigned n, bool own)
{
	uint64_t word = __atomic_load_n(word_at(OWNERS, n), __ATOMIC_RELAXED);

	if (!(own ? word == self : can_take(n, word)) ||
	    !__atomic_compare_exchange_n(word_at(OWNERS, n), &word, self, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return false;
	for (unsigned i = 1; i < OBJECTS; i++)
		before[i] = __atomic_load_n(word_at(i, n), __ATOMIC_RELAXED) - at_fork[i];
	place = n;
	return true;
}

static bool place_ready(void)
{
	if (place < PLACES && __atomic_load_n(word_at(OWNERS, place), __ATOMIC_RELAXED) == self)
		return true;
	for (unsigned i = 0; i < 2 * PLACES; i++)
		if (place_take(i % PLACES, i < PLACES))
			return true;
	if (!was_full)
		publish_complain("256 processes are there already");
	was_full = true;
	return false;
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

/* A sum that was read while its parts moved may be too small: the value of a count stays then.
 * Release: a reader that has the value of a new owner finds that owner's word. */
static void values_put(void)
{
	near__stats_read(&now);
	for (unsigned i = 1; i < OBJECTS; i++) {
		uint64_t value = value_of(i) + (is_gauge(i) ? 0 : before[i]);
		uint64_t was = __atomic_load_n(word_at(i, place), __ATOMIC_RELAXED);

		if (is_gauge(i) || value > was)
			__atomic_store_n(word_at(i, place), value, __ATOMIC_RELEASE);
	}
}

/* ---- when ---- */

static bool may_publish(void)
{
	return !__atomic_load_n(&early, __ATOMIC_RELAXED) && near__storage_is_own() &&
	       near__identity_is(__atomic_load_n(&process, __ATOMIC_RELAXED));
}

static uint64_t next_after(uint64_t ms)
{
	uint64_t wait = (ms - born_ms) / PERIODS;

	return ms + (wait < LEAST_MS ? LEAST_MS : wait < PERIOD_MS ? wait : PERIOD_MS);
}

static void publish_due(void)
{
	uint64_t ms = near__os_ms();
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
	if (!near__malloc_conf.region.len)
		return; /* and no page of this file's data is touched */
	near__stats_name(wanted, &near__malloc_conf.region, suffix);
	if (!wanted[0])
		return;
	__atomic_store_n(&process, near__identity_begin(), __ATOMIC_RELAXED);
	born_ms = near__os_ms();
	__atomic_store_n(&near__each_slow_path, publish_due, __ATOMIC_RELAXED);
}

void near__publish_allow(void)
{
	__atomic_store_n(&early, false, __ATOMIC_RELAXED);
	if (wanted[0])
		publish_due();
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
	__atomic_store_n(&process, near__identity_fork_child(), __ATOMIC_RELAXED);
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

/* The last counts. If another thread publishes at this moment, those. */
__attribute__((destructor)) static void publish_end(void)
{
	if (!may_publish() || !near_lock_try_lock(&lock))
		return;
	if (region_ready() && place_ready()) {
		values_put();
		__atomic_store_n(word_at(OWNERS, place), 0, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&process, 0, __ATOMIC_RELAXED);
	near_lock_unlock(&lock);
}
