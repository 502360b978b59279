/* SPDX-License-Identifier: MIT */
/* region: what the files of near_region share.
 *
 *     header | directory | slots | used | full | base copy | copy of slot 0 ... 2 * cpus |
 *     common area
 *
 *     slots   of each slot: 0, or how far its copy is from the base copy: the slot is open
 *     used    a bit for each slot: its copy has blocks
 *     full    a bit for each slot: there was no room for them. The next process that opens the
 *             region tries again.
 *
 * Sequences write slots 0 to cpus - 1. A thread that is not live reads `cpus` as its slot, which
 * never opens. The slots after it are fallback slots; the first of them is always open. Blocks up
 * to the end of the base copy exist from the beginning; those of a slot exist before its bit in
 * `used` is set, and that is set before the slot opens. A load from a hole could fail on a full
 * disk, as a store does.
 *
 * A process may be killed between any two instructions. Therefore each change is one atomic store
 * that others see, and what was done before it can be done again. */
#ifndef NEARCPU_REGION_REGION_H
#define NEARCPU_REGION_REGION_H

#include <nearcpu/region.h>

#include <errno.h>
#include <pthread.h>

#include "base/reason.h"
#include "base/self.h"
#include "kernel/kernel.h"

#define REGION_MAGIC UINT64_C(0x6e6f69676572656e) /* "neregion" */
#define REGION_VERSION 1

/* Written before the file gets its name, constant from then on. */
struct near__region_header {
	uint64_t magic;
	uint32_t version, cpus;
	uint64_t size, stride, total; /* of a copy, from copy to copy, of the file */
	uint32_t objects, pad;
	uint64_t common_size;
	uint64_t created_ns; /* since 1970 */
	uint64_t creator;    /* its process id, in its pid namespace */
	char program[16];    /* its name */
};

#define REGION_DIRECTORY 256 /* where it begins */

/* What is large begins at multiples of it, on all machines: where the system's pages are larger,
 * neighbours share one, which costs placement and nothing else. */
#define REGION_PAGE ((size_t)4096)

/* An entry of the directory, in the order of offsets, those of copies and those of objects that
 * exist once. `kind` is 0 until the entry is whole: its
 * store, a release, publishes it. */
struct region_entry {
	uint32_t kind, flags;
	uint64_t size, offset, about[4];
	char name[NEAR_REGION_NAME], labels[NEAR_REGION_LABELS];
	uint64_t reserved;
};

/* One for each process. */
struct near__regions {
	uint32_t watches_forks;     /* a copy of the library has its handlers in place */
	struct near_lock directory; /* held to add an object to a region */
};
extern NEAR__DATA struct near__regions near__regions NEAR__STATE(near__regions);

struct region_layout {
	size_t slots, used, full, base, copies, stride, common, total;
};

/* Of a region with these sizes and CPUs; sets h->stride and h->total. */
struct region_layout near__region_lay_out(struct near__region_header *h);

static inline unsigned near__region_slots(unsigned cpus)
{
	return 2 * cpus + 1;
}

/* Of a bitmap of slots. */
static inline unsigned near__region_words(unsigned cpus)
{
	return near__region_slots(cpus) / 64 + 1;
}

static inline unsigned near__region_first_fallback(unsigned cpus)
{
	return cpus + 1;
}

/* Public calls leave errno alone, and the reason unless they fail. They are no cancellation points:
 * a thread that ended within one would keep the lock of the directory. A child of vfork, on the
 * storage of its parent, leaves that as it is. */
struct region_caller {
	int error, cancel;
	struct near__reason reason;
};

static inline struct region_caller near__region_enter(void)
{
	struct region_caller c = {.error = errno, .cancel = -1};

	c.reason = near__reason_exchange((struct near__reason){0});
	if (near__storage_is_own())
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &c.cancel);
	return c;
}

/* Returns `result`. If that is an error, the reason stays for which it was stored, if any was. */
static inline int near__region_leave(struct region_caller c, int result)
{
	struct near__reason reason = near__reason_exchange(c.reason);

	if (result < 0 && reason.object)
		near__reason_exchange(reason);
	if (c.cancel >= 0)
		pthread_setcancelstate(c.cancel, NULL);
	errno = c.error;
	return result;
}

/* Fill r with a mapping of the file, or, where the descriptor is open for reading alone, with
 * memory for a snapshot of it. */
int near__region_map(struct near_region *r, int fd, struct near__region_header *h);
void near__region_unmap(struct near_region *r);
/* Whether it gives a snapshot. */
bool near__region_is_read_only(int fd);

/* Whether r->fd still is the region's file. Programs close descriptors that they have not opened,
 * as daemons do; the number may then be that of another file, which must neither change nor be
 * closed. */
bool near__region_has_file(const struct near_region *r);

/* Make a part of the file, a slot's copy, or objects that exist once accessible: allocate the
 * blocks, or read them into the snapshot; fd -1: there is no descriptor any more. -ENODATA: the
 * file is too short. */
int near__region_provide(const struct near_region *r, int fd, size_t at, size_t end);
int near__region_provide_slot(const struct near_region *r, int fd, unsigned slot);
int near__region_provide_once(const struct near_region *r, int fd, uint64_t offset, uint64_t size);

/* Of a new region in a file system without fallocate(2): writes all of it, since the above then do
 * nothing. */
int near__region_write_whole(const struct near_region *r, int fd);

/* What the word of the slot is if it is open. */
static inline uint64_t near__region_open_word(const struct near_region *r, unsigned slot)
{
	return (uint64_t)(r->copies - r->base) + slot * r->stride;
}

/* The slot, which has its blocks. */
void near__region_open_provided(const struct near_region *r, unsigned slot);

/* What a process checks that opens it: 0, or an error and its reason. */
int near__region_check_slots(struct near_region *r, int fd);
int near__region_check_directory(struct near_region *r, int fd);

/* Whether it may be the name of an object; its labels, name="value",name="value", in less
 * than `most` bytes. */
bool near__region_is_name(const char *s);
bool near__region_are_labels(const char *s, size_t most);

/* The sum of the word at `common` in all copies but that one. */
uint64_t near__region_sum(const struct near_region *r, const void *base);

/* values.c: whether the process of an owner's word lives, to the process whose word is `self`.
 * UNKNOWN: it is in another pid namespace. */
enum near__owner { NEAR__OWNER_LIVES, NEAR__OWNER_ENDED, NEAR__OWNER_UNKNOWN };
enum near__owner near__owner_state(uint64_t word, uint64_t self);
uint64_t near__owner_pid(uint64_t word);

/* How many values an object has, 0 if it is none of values. */
static inline size_t near__region_values(const struct near_region_object *o)
{
	return o->kind == NEAR_REGION_VALUES && o->flags == NEAR_REGION_COMMON
		       ? o->size / sizeof(int64_t)
		       : 0;
}

/* To a region that no other process sees yet. */
int near__region_add_first(struct near_region *r, int fd, struct near_region_object *o);

#endif
