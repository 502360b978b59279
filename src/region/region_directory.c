/* SPDX-License-Identifier: MIT */
/* near_region: the directory. Entries are added by one process at a time and never change, so that
 * readers need no lock. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "region/region.h"

#define ALIGNMENT 64 /* of an object, from that many bytes on */

_Static_assert(sizeof(struct near__region_header) <= REGION_DIRECTORY &&
		       sizeof(struct region_entry) == 256,
	       "part of the format");

static struct region_entry *entries_of(const struct near_region *r)
{
	return (struct region_entry *)((char *)r->header + REGION_DIRECTORY);
}

/* NULL: there are no more. The acquire pairs with the release in `entry_publish`. */
static const struct region_entry *entry_of(const struct near_region *r, unsigned i)
{
	const struct region_entry *e = &entries_of(r)[i];

	if (i >= r->header->objects || __atomic_load_n(&e->kind, __ATOMIC_ACQUIRE) == 0)
		return NULL;
	return e;
}

/* ---- names ---- */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool near__region_is_name(const char *s)
{
	size_t n = 0;

	for (; s[n]; n++)
		if (!is_letter(s[n]) && s[n] != ':' && (n == 0 || !is_digit(s[n])))
			return false;
	return n > 0 && n < NEAR_REGION_NAME;
}

/* Bytes of the character at s: of UTF-8, none that controls a terminal. 0: it is none. */
static size_t label_character(const char *s)
{
	const unsigned char *c = (const unsigned char *)s;
	unsigned more = c[0] < 0x80 ? 0 : c[0] < 0xe0 ? 1 : c[0] < 0xf0 ? 2 : 3;
	uint32_t point = more ? c[0] & (0x3fu >> more) : c[0];

	if ((c[0] >= 0x80 && c[0] < 0xc2) || c[0] > 0xf4)
		return 0;
	for (unsigned i = 1; i <= more; i++) {
		if (c[i] >> 6 != 2)
			return 0;
		point = point << 6 | (c[i] & 0x3fu);
	}
	if (point < ' ' || (point >= 0x7f && point < 0xa0) || (more == 2 && point < 0x800) ||
	    (more == 3 && point < 0x10000) || point > 0x10ffff || point >> 11 == 0x1b)
		return 0;
	return more + 1;
}

/* After the quote that ends a value, which is escaped as Prometheus does; NULL: it has none. */
static const char *skip_value(const char *s)
{
	while (*s != '"') {
		size_t n = *s != '\\' ? label_character(s) : s[1] && strchr("\\\"n", s[1]) ? 2 : 0;

		if (n == 0)
			return NULL;
		s += n;
	}
	return s + 1;
}

/* What nearcpu stats adds, or a name that an earlier label has. */
static bool is_taken(const char *labels, const char *name, size_t n)
{
	if ((n == 2 && strncmp(name, "le", n) == 0) || (n == 5 && strncmp(name, "index", n) == 0))
		return true;
	for (; labels < name; labels = skip_value(strchr(labels, '"') + 1) + 1)
		if (strncmp(labels, name, n) == 0 && labels[n] == '=')
			return true;
	return false;
}

bool near__region_are_labels(const char *s, size_t most)
{
	const char *all = s;

	if (strlen(s) >= most)
		return false;
	while (*s) {
		const char *name = s;

		if (!is_letter(*s))
			return false;
		while (is_letter(*s) || is_digit(*s))
			s++;
		if (is_taken(all, name, (size_t)(s - name)) || *s++ != '=' || *s++ != '"')
			return false;
		s = skip_value(s);
		if (!s || (*s && (*s != ',' || !s[1])))
			return false;
		s += *s == ',';
	}
	return true;
}

/* ---- reading ---- */

/* Where the last object ends: of those in copies, of those that exist once. */
struct ends {
	uint64_t of[2];
};

static bool is_common(uint32_t flags)
{
	return flags & NEAR_REGION_COMMON;
}

static bool are_flags(uint32_t flags)
{
	return flags <= NEAR_REGION_COMMON || flags == (NEAR_REGION_COMMON | NEAR_REGION_SPARSE);
}

static bool object_fits(const struct near_region *r, uint32_t flags, uint64_t offset, uint64_t size)
{
	uint64_t room = is_common(flags) ? r->header->common_size : r->size;

	return offset <= room && size <= room - offset;
}

static bool is_whole(const struct near_region *r, const struct region_entry *e)
{
	return are_flags(e->flags) && memchr(e->name, 0, sizeof(e->name)) &&
	       memchr(e->labels, 0, sizeof(e->labels)) && near__region_is_name(e->name) &&
	       near__region_are_labels(e->labels, NEAR_REGION_LABELS) && e->size &&
	       e->size % 8 == 0 && e->offset % 8 == 0 &&
	       object_fits(r, e->flags, e->offset, e->size);
}

/* Whether it is whole and begins where the earlier ones have ended. */
static bool entry_follows(const struct near_region *r, const struct region_entry *e,
			  struct ends *ends)
{
	uint64_t *end;

	if (!is_whole(r, e))
		return false;
	end = &ends->of[is_common(e->flags)];
	if (e->offset < *end)
		return false;
	*end = e->offset + e->size;
	return true;
}

static int directory_damaged(const struct near_region *r)
{
	return near__reason_set(r, -EBADMSG, "the directory of the region is damaged");
}

int near__region_check_directory(struct near_region *r, int fd)
{
	const struct region_entry *e;
	struct ends ends = {{0}};
	int err = 0;

	for (unsigned i = 0; err == 0 && (e = entry_of(r, i)); i++) {
		if (!entry_follows(r, e, &ends))
			return directory_damaged(r);
		if (e->flags == NEAR_REGION_COMMON)
			err = near__region_provide_once(r, fd, e->offset, e->size);
	}
	return err;
}

int near_region_object(const struct near_region *r, unsigned i, struct near_region_object *o)
{
	const struct region_entry *e = entry_of(r, i);

	if (!e)
		return -ENOENT;
	if (!is_whole(r, e))
		return -EBADMSG;
	o->name = e->name;
	o->labels = e->labels;
	o->kind = e->kind;
	o->flags = e->flags;
	o->size = e->size;
	o->offset = e->offset;
	memcpy(o->about, e->about, sizeof(o->about));
	return 0;
}

/* ---- adding ---- */

static int set_lock(int fd, short type)
{
	struct flock first_byte = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &first_byte) ? -errno : 0;
}

/* Also unlocks: a child that fork's handlers do not know of may have the description, too. */
static void unlock_directory(int fd)
{
	set_lock(fd, F_UNLCK);
	close(fd);
	near_lock_unlock(&near__regions.directory);
}

/* The lock of an open file description excludes other processes; the kernel releases that of a
 * killed process. A child of fork that inherited the description would keep the lock as long as it
 * lives. So no thread forks while another thread has it: fork takes near__regions.directory. That
 * lock is not held during the pauses, so that no fork waits for another process. */
static int lock_directory(const struct near_region *r)
{
	const struct timespec pause = {.tv_nsec = 100000};

	for (;; nanosleep(&pause, NULL)) {
		int fd, err;

		near_lock_lock(&near__regions.directory);
		fd = near_region_reopen(r);
		err = fd < 0 ? fd : set_lock(fd, F_WRLCK);
		if (err == 0)
			return fd;
		if (fd >= 0)
			close(fd);
		near_lock_unlock(&near__regions.directory);
		if (err != -EAGAIN && err != -EINTR)
			return err;
	}
}

static bool is_same(const struct region_entry *e, const struct near_region_object *o)
{
	return e->kind == o->kind && e->flags == o->flags && e->size == o->size &&
	       memcmp(e->about, o->about, sizeof(e->about)) == 0;
}

/* The store of the kind, which is 0 until then, publishes the entry. A process that is killed
 * before it leaves bytes that the next one overwrites. */
static void entry_publish(struct region_entry *e, const struct near_region_object *o)
{
	memset((char *)e + sizeof(e->kind), 0, sizeof(*e) - sizeof(e->kind));
	e->flags = o->flags;
	e->size = o->size;
	e->offset = o->offset;
	memcpy(e->about, o->about, sizeof(e->about));
	memcpy(e->name, o->name, strlen(o->name));
	memcpy(e->labels, o->labels, strlen(o->labels));
	__atomic_store_n(&e->kind, o->kind, __ATOMIC_RELEASE);
}

/* Of all entries: *i becomes their number, *ends where the last objects end.
 * Returns 0; -ENOENT: no entry has this name and these labels; another error. */
static int directory_find(const struct near_region *r, struct near_region_object *o, unsigned *i,
			  struct ends *ends)
{
	const struct region_entry *e;

	*ends = (struct ends){{0}};
	for (*i = 0; (e = entry_of(r, *i)); ++*i) {
		if (!entry_follows(r, e, ends))
			return directory_damaged(r);
		if (strcmp(e->name, o->name) != 0)
			continue;
		if (e->kind != o->kind)
			return near__reason_set(r, -EEXIST,
						"the region has this name for another kind");
		if (strcmp(e->labels, o->labels) != 0)
			continue;
		if (!is_same(e, o))
			return near__reason_set(r, -EEXIST,
						"the region has this name for another object");
		o->offset = e->offset;
		return 0;
	}
	return -ENOENT;
}

/* Large objects that exist once do not share pages with others: blocks are allocated by page. */
static uint64_t object_alignment(const struct near_region_object *o)
{
	if (o->size < ALIGNMENT)
		return sizeof(int64_t);
	return is_common(o->flags) && o->size >= REGION_PAGE ? REGION_PAGE : ALIGNMENT;
}

/* What it adds is whole before others see it, but the caller excludes others that add. */
static int find_or_add(const struct near_region *r, int fd, struct near_region_object *o)
{
	uint64_t align = object_alignment(o), at;
	struct ends ends;
	unsigned i;
	int err = directory_find(r, o, &i, &ends);

	if (err != -ENOENT)
		return err;
	at = near__round_up(ends.of[is_common(o->flags)], align);
	if (i >= r->header->objects)
		return near__reason_set(r, -ENOSPC, "the directory of the region is full");
	if (!object_fits(r, o->flags, at, o->size))
		return near__reason_set(
			r, -ENOSPC,
			is_common(o->flags)
				? "the region's area that exists once has no room"
				: "the copies of the region have no room for the object");
	if (o->flags == NEAR_REGION_COMMON) {
		err = near__region_provide_once(r, fd, at, o->size);
		if (err)
			return near__reason_set(
				r, err, "no blocks for the object: the file system is full");
	}
	o->offset = at;
	entry_publish(&entries_of(r)[i], o);
	return 0;
}

static int find_or_add_locked(const struct near_region *r, struct near_region_object *o)
{
	int fd = lock_directory(r), err;

	if (fd < 0)
		return near__reason_set(
			r, fd, "the file of the region cannot be locked (by /proc/self/fd)");
	err = find_or_add(r, fd, o);
	unlock_directory(fd);
	return err;
}

static int check_object(const struct near_region *r, struct near_region_object *o)
{
	if (!o->labels)
		o->labels = "";
	if (!o->name || !near__region_is_name(o->name))
		return near__reason_set(
			r, -EINVAL,
			"a name has 1 to 63 letters, digits, `_`, `:`, and no digit first");
	if (!near__region_are_labels(o->labels, NEAR_REGION_LABELS))
		return near__reason_set(
			r, -EINVAL,
			"labels are written name=\"value\",..., at most 127 bytes, no name "
			"twice, none `le` or `index`");
	if (!are_flags(o->flags))
		return near__reason_set(r, -EINVAL, "only what exists once can be sparse");
	if (!o->kind || !o->size || o->size % sizeof(int64_t))
		return near__reason_set(r, -EINVAL,
					"an object has a kind, and a size that is a multiple of 8");
	return 0;
}

int near__region_add_first(struct near_region *r, int fd, struct near_region_object *o)
{
	int err = check_object(r, o);

	return err ? err : find_or_add(r, fd, o);
}

int near_region_open_object(const struct near_region *r, struct near_region_object *o)
{
	struct region_caller c = near__region_enter();
	int err = check_object(r, o);
	struct ends ends;
	unsigned i;

	if (err == 0)
		err = directory_find(r, o, &i, &ends);
	if (err == -ENOENT)
		err = r->read_only ? near__reason_set(r, -EROFS,
						      "a snapshot of a region cannot be changed")
				   : find_or_add_locked(r, o);
	return near__region_leave(c, err);
}
