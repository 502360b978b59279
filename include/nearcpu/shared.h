/* SPDX-License-Identifier: MIT */
/* near_shared: per-CPU data in memory that several processes share.
 *
 * A region holds one copy of `size` bytes per cpu, and as many fallback copies, in a file or a
 * memfd. Processes that map it add to it concurrently; what they added outlives each of them,
 * killed or not. The processes agree on what is at which offset: a struct of int64_t, usually.
 *
 * Cost:      add about 1 ns, no atomic instruction; read one load for each cpu that added.
 * Memory:    (2 * cpus + 2) * (64 + size) bytes, rounded up to cache lines: allocated when the
 *            region is made, so that no add fails on a full disk.
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
 *     struct near_shared region;
 *     if (near_shared_open(&region, "/dev/shm/hits", 4 * sizeof(int64_t)) == 0) {
 *             near_shared_add(&region, 0, 1);          // the counter at offset 0
 *             int64_t n = near_shared_read(&region, 0);
 *             near_shared_close(&region);
 *     }
 *
 * Source: per-CPU statistics as kernels keep them, between processes. The slot is the cpu:
 * concurrency ids are per process. A counter is reset by moving a baseline, since no membarrier
 * reaches the sequences of other processes.
 */
#ifndef NEARCPU_SHARED_H
#define NEARCPU_SHARED_H

#include <nearcpu/seq.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NEAR_SHARED_MAX_SIZE ((size_t)1 << 20)

/* Private except for fd. */
struct near_shared {
	char *copies;    /* of slot 0; its state word comes first, the data 64 bytes later */
	uint64_t stride; /* from copy to copy */
	void *header;
	size_t size; /* as given when the region was made */
	int fd;      /* to hand to other processes; closed by near_shared_close */
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

/* Unmaps it. The region lives on in its file. */
NEAR_API void near_shared_close(struct near_shared *s);

NEAR_API void near__shared_add_slow(struct near_shared *s, size_t offset, int64_t n);

/* at[0] += n; the store of the sum commits. The slot is the cpu. */
static inline bool near__shared_try_add(struct near_shared *s, size_t offset, int64_t n)
{
	uint64_t at;

	return NEAR_SEQ(
		NEAR_INDEX_CPU(at)
		NEAR_MUL(at, stride)
		NEAR_ADD(at, copies)
		NEAR_BRANCH_MEM4_NE(at, 0, 1, near_failed)
		NEAR_ADD(at, offset)
		NEAR_COMMIT_ADD8(n, at, 64),
		NEAR_OUT(at), NEAR_IN((copies, s->copies), (stride, s->stride), offset, n));
}

/* Adds n to the counter at `offset`. Requires a multiple of 8 below the size. */
static inline void near_shared_add(struct near_shared *s, size_t offset, int64_t n)
{
	if (__builtin_expect(!near__shared_try_add(s, offset, n), 0))
		near__shared_add_slow(s, offset, n);
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
