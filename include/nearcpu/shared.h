/* SPDX-License-Identifier: MIT */
/* near_shared: counters in memory that several processes share.
 *
 * An array of 64-bit counters with one copy per CPU, in a region of its own or as an object of a
 * region that has others (near_region(3)). Processes that map it add to it concurrently; what they
 * added outlives each of them, killed or not.
 *
 * Cost:      add about 1 ns, no atomic instruction; read one load for each cpu that added.
 * Memory:    `size` bytes for each CPU that added, and twice as many more, rounded up to 128; a
 *            region of its own besides half a KiB and 20 bytes per possible CPU. If there is no
 *            room for the copy of another CPU (a full disk), that CPU adds to a copy that exists.
 * Safety:    add, read: any thread, signal handlers. reset: any thread. Fork: the child
 *            continues to add to the same region. A process that is killed loses nothing that it
 *            has added, and blocks no other.
 * Order:     relaxed, as near_counter.
 * Fallback:  a relaxed fetch_add on the copies of the region that sequences do not write, so
 *            processes with and without rseq can share it.
 *
 * Concurrent with:   add   read  reset  close     (close: in the same process)
 *            add      yes   yes   yes    no
 *            read     yes   yes   yes    no
 *            reset    yes   yes   yes    no
 *
 *     struct near_shared hits;
 *     if (near_shared_open(&hits, "/dev/shm/hits", 4 * sizeof(int64_t)) == 0) {
 *             near_shared_add(&hits, 0, 1);          // the counter at offset 0
 *             int64_t n = near_shared_read(&hits, 0);
 *             near_shared_close(&hits);
 *     }
 *
 * Source: per-CPU statistics as kernels keep them, between processes. The slot is the cpu:
 * concurrency ids are per process. A counter is reset by moving a baseline, since no membarrier
 * reaches the sequences of other processes.
 */
#ifndef NEARCPU_SHARED_H
#define NEARCPU_SHARED_H

#include <nearcpu/region.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NEAR_SHARED_MAX_SIZE ((size_t)1 << 20)

/* Private except for size and fd. */
struct near_shared {
	int64_t *bases; /* in the common copy: what each counter's resets took away */
	size_t size;
	int fd;      /* to hand to other processes; closed by near_shared_close */
	bool is_own; /* the region */
	struct near_region region;
};

/* Opens the region in file `path`, or makes it if there is none. size 0: whatever size it has.
 * Returns 0; -EINVAL: no size, not a multiple of 8, or another one than the region has; -E2BIG:
 * above NEAR_SHARED_MAX_SIZE; -EBADMSG: the file is something else, or damaged; -EXDEV: made on a
 * machine with another number of possible CPUs; -ENOSPC: no room for its blocks; and what open(2),
 * mmap(2) return. A file that could not be made whole is removed. */
NEAR_API int near_shared_open(struct near_shared *s, const char *path, size_t size);

/* Makes a region without a name: hand s->fd to a child or over a socket. */
NEAR_API int near_shared_create(struct near_shared *s, size_t size);

/* Attaches to the region in an open file, which is duplicated. Errors as near_shared_open. */
NEAR_API int near_shared_attach(struct near_shared *s, int fd);

/* Counters that are an object of region `r`, which stays open as long as they are used: finds them
 * by their name and labels, or adds them. Errors as near_region_define. */
NEAR_API int near_shared_define(struct near_shared *s, struct near_region *r, const char *name,
				const char *labels, size_t size);

/* Counters that are object `o` of region `r`, as near_region_object found it.
 * Returns 0; -EINVAL: it is no object of counters. */
NEAR_API int near_shared_use(struct near_shared *s, const struct near_region *r,
			     const struct near_region_object *o);

/* Unmaps a region of its own, which lives on in its file. */
NEAR_API void near_shared_close(struct near_shared *s);

/* Adds n to the counter at `offset`. Requires a multiple of 8 below the size. */
NEAR_INLINE void near_shared_add(struct near_shared *s, size_t offset, int64_t n)
{
	near__region_add(&s->region, (char *)s->bases + offset, n);
}

/* The count of the counter at `offset`. */
NEAR_API int64_t near_shared_read(const struct near_shared *s, size_t offset);

/* Sets it to 0, for all processes, and returns what it was. Each add is in the result of exactly
 * one reset or in the count that stays. */
NEAR_API int64_t near_shared_reset(struct near_shared *s, size_t offset);

#ifdef __cplusplus
}
#endif

#endif
