/* SPDX-License-Identifier: MIT */
/* near_shared_ids: concurrency ids for the workers of all processes that share a region.
 *
 * As near_idspace (idspace.h), for data by id in memory that processes share (region.h): no two
 * workers of these processes have one id at a time. A process that is killed loses nothing for the
 * others: its ids are given out again, and the worker that acquires one of them is informed
 * (near_worker_must_repair), as the data may have been left half-changed.
 *
 * Each process that uses the space has a seat: a lock on a byte of the region's file, which the
 * kernel releases when the process ends, however it does, and which works between pid namespaces.
 * An acquire that finds no free id, and one in 16,384 acquires of an id, searches for seats whose
 * process has ended, and takes back the ids of these.
 *
 * Cost:      acquire and release together about one atomic instruction and 2 ns; hand_over 2 ns. If
 *            the CPU's cache has no id that is free: a search of a bitmap. The search for ended
 *            processes: a system call for each seat in use.
 * Memory:    of the region: 64 bytes per id and per possible CPU, 8 per seat, and `size` bytes of
 *            each id that was in use, rounded up to 4 KiB.
 * Safety:    any thread, not in signal handlers; near_shared_ids_data in these, too. A process may
 *            be killed at any moment. Fork: the child takes a seat of its own at its first acquire;
 *            what workers had at the fork, their parent's have: clear them in the child. A program
 *            that closes descriptors which it does not know closes its seat: it is stopped at the
 *            next search or close. A child of _Fork(3) or a bare clone(2) that does not exec keeps
 *            its parent's seat.
 * Order:     release, and the end of a killed process, happen before the acquire that returns the
 *            id.
 * Misuse:    as near_idspace; so does a worker stop the program that was moved, or whose process is
 *            the child of a fork.
 * Fallback:  needs no rseq; the same code everywhere.
 *
 * Concurrent with:   acquire  release  hand_over  stats  close
 *            each      yes      yes       yes      yes     no
 * (of different workers; close: of the same process)
 *
 *     struct near_shared_ids ids;
 *     if (near_shared_ids_open(&ids, &region, "workers", NULL, NULL))
 *             errx(1, "%s", near_shared_ids_error(&ids));
 *     struct near_worker w = {0};
 *     int id = near_shared_ids_acquire(&ids, &w);
 *     if (id >= 0) {
 *             if (near_worker_must_repair(&w))
 *                     repair(near_shared_ids_data(&ids, id));
 *             use(near_shared_ids_data(&ids, id));
 *             near_shared_ids_release(&ids, &w);
 *     }
 *
 * Source: the last open question of the talk that idspace.h names (ids per container), and robust
 * futexes. No restartable sequence protects what another process must be able to take back: no
 * fence aborts the sequences of another process. So a word per id names its owner, and is changed
 * by compare-exchange; bitmap and caches are hints, checked against it.
 */
#ifndef NEARCPU_SHARED_IDS_H
#define NEARCPU_SHARED_IDS_H

#include <nearcpu/idspace.h>
#include <nearcpu/region.h>

NEAR__BEGIN_DECLS

#define NEAR_SHARED_IDS_MAX_SEATS 4096u

/* Of a new space; 0: the default. */
struct near_shared_ids_options {
	unsigned ids;         /* 1 to NEAR_IDSPACE_MAX_IDS; default 256 */
	unsigned seats;       /* processes, 1 to NEAR_SHARED_IDS_MAX_SEATS; default 64 */
	size_t size;          /* bytes of data per id; default 0 */
	uint64_t reserved[4]; /* 0 */
};

/* Private: what the region has of each id. The worker that has the id writes all but `owner` and
 * `seen`. */
struct near__shared_id {
	uint64_t owner; /* 0: none; 1: none, and the last one was killed; else seat and worker */
	uint64_t node1; /* the node to which it belongs, plus 1 */
	uint64_t hits, transfers; /* how often it was acquired from a cache, and handed over */
	uint64_t taken;           /* acquired otherwise */
	uint64_t seen;            /* `hits` when unused caches were searched for */
	uint64_t pad[2];
};

/* Private. Must not be copied or moved. */
struct near_shared_ids {
	struct near__shared_id *owners;
	uint64_t *caches; /* of each CPU, on a line of its own */
	uint64_t ids;
	uint64_t seat;   /* (number + 1) << 48; 0: none, in a child of fork */
	uint64_t *ready; /* bits, of this process: the data of the id are accessible */
	char *data;
	uint64_t stride;
	unsigned seats, nodes;
	int fd;                 /* whose description has the lock on the seat, */
	uint64_t inode, device; /* of this file */
	const struct near_region *region;
	uint64_t *bitmap; /* of the region: in use, or cached. A hint. */
	uint64_t *words;  /* of the region, of each seat: 0, or its process */
	uint64_t *counts;
	struct near_region_object object;
	size_t mapped;
	struct near_shared_ids *next; /* of the process */
};

/* Opens the space of a region with this name and these labels, or adds it. The region must stay
 * open as long as this is used. A space that exists keeps the numbers that it has. Needs 2 entries
 * of the region's directory. `labels` and `options` may be NULL.
 * Returns 0; -E2BIG: above a maximum; -EINVAL: a reserved word is not 0; -EEXIST: the region has
 * something else by that name; -EPROTO: of another version; -EBADMSG: it is damaged; -EROFS: the
 * region is a snapshot; -EUSERS: each seat has a process that lives; -ENOMEM; and what
 * near_region_open_object and near_region_reopen return. */
NEAR_API int near_shared_ids_open(struct near_shared_ids *s, const struct near_region *r,
				  const char *name, const char *labels,
				  const struct near_shared_ids_options *options);

/* Opens the space that is object `o` of region `r`, which near_region_object has found.
 * Errors as near_shared_ids_open; -EINVAL: it is no id space. */
NEAR_API int near_shared_ids_open_object(struct near_shared_ids *s, const struct near_region *r,
					 const struct near_region_object *o);

/* Why this thread's last call that failed has failed, if that was the open of this space or an
 * acquire of an id: a sentence. Else NULL. */
NEAR_API const char *near_shared_ids_error(const struct near_shared_ids *s);

/* Gives the seat back. Ids that workers of this process have are given out again as if it had been
 * killed. */
NEAR_API void near_shared_ids_close(struct near_shared_ids *s);

NEAR_API int near__shared_ids_acquire_slow(struct near_shared_ids *s, struct near_worker *w);
NEAR_API int near__shared_ids_renew(struct near_shared_ids *s, struct near_worker *w);
NEAR_API void near__shared_ids_uncache(struct near_shared_ids *s, unsigned id);
NEAR_API void near__shared_ids_misuse(const struct near_shared_ids *s, const struct near_worker *w,
				      const char *call) __attribute__((noreturn, cold));

/* Relaxed: another thread may take the seat, which orders nothing. */
NEAR__INLINE uint64_t near__shared_ids_seat(const struct near_shared_ids *s)
{
	return __atomic_load_n(&s->seat, __ATOMIC_RELAXED);
}

/* What names the worker as the owner of an id. Its address without the tag that a CPU may ignore in
 * the highest bits of pointers. */
NEAR__INLINE uint64_t near__shared_ids_tag(const struct near_shared_ids *s,
					   const struct near_worker *w)
{
	return near__shared_ids_seat(s) | ((uint64_t)(uintptr_t)w << 16 >> 16);
}

/* The local CPU's cache: the id that was used last there plus 1, or 0. Any thread may store to it
 * at any time. */
NEAR__INLINE uint64_t *near__shared_ids_cache(const struct near_shared_ids *s)
{
	return &s->caches[(uint64_t)near_cpu() * 8];
}

NEAR__INLINE bool near__shared_ids_is_ready(const struct near_shared_ids *s, uint64_t id)
{
	return __atomic_load_n(&s->ready[id / 64], __ATOMIC_RELAXED) >> id % 64 & 1;
}

/* Takes the id that the cache has, unless it is in use. The compare-exchange decides: acquire, it
 * pairs with the release of the worker before. 0: none was taken. */
NEAR__INLINE uint64_t near__shared_ids_try(struct near_shared_ids *s, struct near_worker *w)
{
	uint64_t id1 = __atomic_load_n(near__shared_ids_cache(s), __ATOMIC_RELAXED), none = 0;

	if (id1 - 1 >= s->ids || !near__shared_ids_is_ready(s, id1 - 1) ||
	    !near__shared_ids_seat(s) ||
	    !__atomic_compare_exchange_n(&s->owners[id1 - 1].owner, &none,
					 near__shared_ids_tag(s, w), false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return 0;
	w->id1 = (uint32_t)id1;
	w->must_repair = 0;
	return id1;
}

/* Returns an id that no other worker of any process has; -EAGAIN: all are in use; -ENOSPC: no room
 * for the data of another one; -EUSERS: in a child of fork, each seat has a process that lives; and
 * what near_region_reopen and fallocate(2) return. near_shared_ids_error has a sentence. */
NEAR_INLINE int near_shared_ids_acquire(struct near_shared_ids *s, struct near_worker *w)
{
	uint64_t id1;

	NEAR__CHECK_READY(s->owners, s);
	if (__builtin_expect(w->id1 != 0, 0))
		near__shared_ids_misuse(s, w, "near_shared_ids_acquire");
	id1 = near__shared_ids_try(s, w);
	if (__builtin_expect(!id1, 0))
		return near__shared_ids_acquire_slow(s, w);
	if (__builtin_expect(near__id_count(&s->owners[id1 - 1].hits) % NEAR__IDS_TRIM == 0, 0))
		return near__shared_ids_renew(s, w);
	return (int)id1 - 1;
}

/* Release: pairs with the acquire of the next worker. While this process lives, nobody else stores
 * to the word of an id that it has. */
NEAR_INLINE void near_shared_ids_release(struct near_shared_ids *s, struct near_worker *w)
{
	uint64_t id = (uint64_t)w->id1 - 1;

	if (__builtin_expect(id >= s->ids ||
				     __atomic_load_n(&s->owners[id].owner, __ATOMIC_RELAXED) !=
					     near__shared_ids_tag(s, w),
			     0))
		near__shared_ids_misuse(s, w, "near_shared_ids_release");
	w->id1 = 0;
	w->must_repair = 0;
	if (__builtin_expect(__atomic_load_n(near__shared_ids_cache(s), __ATOMIC_RELAXED) == id + 1,
			     1))
		__atomic_store_n(&s->owners[id].owner, 0, __ATOMIC_RELEASE);
	else
		near__shared_ids_uncache(s, (unsigned)id);
}

/* Gives the id of `from` to `to`, of the same process, which runs next, and returns it. Cannot
 * fail. */
NEAR_INLINE int near_shared_ids_hand_over(struct near_shared_ids *s, struct near_worker *from,
					  struct near_worker *to)
{
	uint64_t id = (uint64_t)from->id1 - 1;

	if (__builtin_expect(id >= s->ids ||
				     __atomic_load_n(&s->owners[id].owner, __ATOMIC_RELAXED) !=
					     near__shared_ids_tag(s, from),
			     0))
		near__shared_ids_misuse(s, from, "near_shared_ids_hand_over");
	if (__builtin_expect(to->id1 != 0, 0))
		near__shared_ids_misuse(s, to, "near_shared_ids_hand_over");
	*to = *from;
	from->id1 = 0;
	from->must_repair = 0;
	__atomic_store_n(&s->owners[id].owner, near__shared_ids_tag(s, to), __ATOMIC_RELAXED);
	near__id_count(&s->owners[id].transfers);
	return (int)id;
}

/* The data of an id: `size` bytes at a multiple of 4,096; all zero at first. */
NEAR_INLINE void *near_shared_ids_data(const struct near_shared_ids *s, int id)
{
	return s->data + (uint64_t)id * s->stride;
}

/* How often ids came and went in all processes, since the space was made. Later versions add fields
 * at the end. */
struct near_shared_ids_stats {
	uint64_t transfers;   /* handed over */
	uint64_t hits;        /* acquired from the CPU's cache */
	uint64_t evictions;   /* released where the cache had another one, or on another node */
	uint64_t discards;    /* given back by a search for unused caches */
	uint64_t allocations; /* acquired from the bitmap */
	uint64_t exits;       /* taken back from processes that had ended */
	uint64_t foreign;     /* acquired although they belong to another node */
	unsigned ids;         /* that there are, */
	unsigned used;        /* that workers have */
	unsigned seats;       /* that there are, */
	unsigned taken;       /* that processes have; or had, which ended since the last search */
};

/* Fills *out, of which the caller knows `size` bytes; what the library does not know becomes 0.
 * Returns 0; -EINVAL: size is 0. */
NEAR_API int near_shared_ids_stats(const struct near_shared_ids *s,
				   struct near_shared_ids_stats *out, size_t size);

NEAR__END_DECLS

#endif
