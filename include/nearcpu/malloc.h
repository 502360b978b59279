/* SPDX-License-Identifier: MIT */
/* near_malloc: an allocator on per-CPU caches, and its statistics; see near_malloc(3).
 *
 * libnearcpu-malloc has it under the names of the C library, in whose place it comes.
 * libnearcpu-alloc has it under names of its own: near_malloc() ... are declared here. They leave
 * the program's malloc alone. Each library has its statistics.
 *
 * Cost:      near_malloc and near_free about 2 ns each, no atomic instruction. A list that is empty
 *            or full moves as a whole. malloc_trim interrupts all CPUs that run this process.
 * Memory:    blocks of up to 64 KiB have one of 49 sizes, larger ones are whole pages. What is free
 *            goes back to the system after a while (DESCRIPTION in near_malloc(3)).
 * Safety:    any thread, at any time: before constructors, after destructors, in destructors of
 *            thread-specific data, in the children of fork, vfork and clone(CLONE_VM |
 *            CLONE_VFORK). Not in signal handlers. Fork: the child has its copy of the heap.
 * Order:     a free happens before the allocation that returns its memory.
 * Fallback:  lists of each thread, and per CPU a transfer cache under a lock.
 *
 * Concurrent with: everything. A block is freed or reallocated once.
 *
 *     struct near_malloc_stats s;
 *     if (near_malloc_stats(&s, sizeof(s)) == 0)
 *             printf("%llu bytes in use\n", (unsigned long long)s.in_use);
 *
 * Source: mallinfo2 of glibc, and requests of users of other allocators: a struct (mimalloc #157)
 * whose reader may be older or newer than the library.
 */
#ifndef NEARCPU_MALLOC_H
#define NEARCPU_MALLOC_H

#include <nearcpu/lock.h>
#include <stddef.h>
#include <stdint.h>

NEAR__BEGIN_DECLS

/* ---- libnearcpu-alloc ---- */

/* A program may define malloc as a macro. */
#define NEAR__ALLOCATES(...)                                                                       \
	__attribute__((__malloc__, warn_unused_result, alloc_size(__VA_ARGS__)))

/* A block of at least `size` bytes, aligned to 16 bytes (8, if size is at most 8). NULL, with errno
 * ENOMEM: no memory. */
NEAR_API void *near_malloc(size_t size) NEAR__ALLOCATES(1);

/* The same for n * size bytes, which are zero. */
NEAR_API void *near_calloc(size_t n, size_t size) NEAR__ALLOCATES(1, 2);

/* The same, aligned to `align`. NULL, with errno EINVAL: align is no power of two. */
NEAR_API void *near_aligned_alloc(size_t align, size_t size) NEAR__ALLOCATES(2);

/* Makes the block larger or smaller, and moves it if it must; near_malloc(size) if p is NULL. If
 * `size` is 0, frees p and returns NULL. NULL, with errno ENOMEM: p is as it was. */
NEAR_API void *near_realloc(void *p, size_t size)
	__attribute__((warn_unused_result, alloc_size(2)));

/* Frees a block of these functions; NULL is ignored. Freeing what is no such block stops the
 * program, with one line on standard error. */
NEAR_API void near_free(void *p);

/* The bytes of the block that the program may use; 0: p is NULL. */
NEAR_API size_t near_usable_size(const void *p);

/* ---- statistics ----
 *
 * Cost:      one pass over the slots in use and, for each class, a system call (process_vm_readv)
 *            and locks, held for a copy of a few numbers. No CPU is interrupted. Allocations pay
 *            nothing: only those that find no block in the list of their slot are counted.
 * Memory:    none; JSON goes out in pieces of at most 512 bytes.
 * Safety:    any thread; not in signal handlers. errno is left alone. Fork: the child continues
 *            with its parent's counts.
 * Order:     each number of another slot is read by itself while the numbers change: sums are not a
 *            snapshot. While no other thread allocates, frees or moves lists they are exact.
 *            Otherwise a list that moves may be counted twice, or as in use: the error is a few
 *            lists for each thread that runs, and does not last.
 * Fallback:  the same numbers without rseq, from the lists that each thread then has. If a filter
 *            forbids the system call, the blocks in the current lists of slots count as in use.
 *
 * `free_dirty` and `cached` of an idle process become 0 if the library's thread runs (BACKGROUND
 * THREAD in near_malloc(3)): within three seconds of the last call that took a slow path, or eleven
 * of any other. But without rseq the lists of threads that wait stay in `cached`. Where the thread
 * does not run, both stay; `free_dirty` has the limit that near_malloc(3) gives.
 *
 * Concurrent with: everything. */

/* Later versions add fields at the end. */
struct near_malloc_stats {
	/* Since the start of the process. */
	uint64_t misses;            /* of allocations up to 64 KiB: in no list of slot or thread */
	uint64_t slotless;          /* of these: by threads without a slot */
	uint64_t large_allocations; /* of blocks above that */
	uint64_t refills,
		spills; /* lists of blocks from the transfer cache of a slot, and into it */
	uint64_t central_refills, central_spills; /* the same of the lists behind all slots */
	uint64_t drains, fences; /* slots whose caches were taken away; interrupts for that */
	uint64_t given_back;     /* bytes that the system got back */
	uint64_t give_backs;     /* and in how many pieces */
	/* Now. */
	uint64_t classes; /* of small blocks */
	uint64_t slots;   /* in use */
	uint64_t threads; /* without a slot that have lists of their own */
	uint64_t large_blocks;
	/* Bytes, now. */
	uint64_t reserved;   /* address space */
	uint64_t committed;  /* of it, made writable */
	uint64_t resident;   /* about, at most: of it, that was touched and not given back */
	uint64_t in_use;     /* blocks that the program has, large ones too */
	uint64_t large;      /* large ones alone */
	uint64_t cached;     /* free blocks in caches of slots, and between them */
	uint64_t central;    /* the rest of the memory that is cut into small blocks */
	uint64_t free_dirty; /* whole pages that are free, and wait to be given back */
	uint64_t free_clean; /* those that the system has, or never gave */
	uint64_t metadata;   /* what the allocator itself needs */
};

/* Of one class of small blocks. */
struct near_malloc_class_stats {
	uint64_t size;   /* of a block */
	uint64_t misses; /* since the start, as above */
	uint64_t refills, spills, central_refills, central_spills;
	uint64_t in_use;  /* blocks, now */
	uint64_t cached;  /* blocks, now */
	uint64_t central; /* blocks, now; those that were never used are among them */
	uint64_t spans, span_bytes;
};

/* Fills *out, of which the caller knows `size` bytes; what the library does not know becomes 0.
 * Returns 0; -EINVAL: size is 0. */
NEAR_API int near_malloc_stats(struct near_malloc_stats *out, size_t size);

/* The same for class n, from 0 on. -ENOENT: there are fewer classes. */
NEAR_API int near_malloc_class_stats(unsigned n, struct near_malloc_class_stats *out, size_t size);

/* Writes all of it as one JSON object, with the names of the fields, by calls of `write`, which
 * returns 0 or a negative errno. Returns 0 or the first error. `write` may allocate. */
NEAR_API int near_malloc_stats_json(int (*write)(void *arg, const char *text, size_t size),
				    void *arg);

NEAR__END_DECLS

#endif
