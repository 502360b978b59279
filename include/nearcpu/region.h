/* SPDX-License-Identifier: MIT */
/* near_region: memory with per-CPU copies that several processes share, and a directory that says
 * what is in it.
 *
 * A region is a file, or a memfd. It has a header, a directory of named objects, copies of `size`
 * bytes: one for each CPU, as many for threads that cannot run sequences, and a base copy; and an
 * common area of `common_size` bytes. An object has the same offset in each copy, or it is in the
 * common area. near_shared_counters(3) keeps counters in a region, near_histogram(3) histograms;
 * nearcpu-stats(1) lists what a region holds.
 *
 * Cost:      open about 12 us, 25 us if it makes the file, open_object 3 us and .1 us for each
 *            object that there is (in tmpfs, on an Intel Xeon). The structures in it state their
 *            own.
 * Memory:    of the file: 256 bytes, 256 per object of the directory, about 20 per possible CPU,
 *            and the copies of the CPUs that used it: the blocks of a copy are allocated when it is
 *            first used. The base copy and that of one fallback are allocated when the region is
 *            made. If there is no room for another one (a full disk), its CPU uses the fallback:
 *            nothing is lost.
 * Safety:    open, close, open_object: any thread, not in signal handlers; populate, next, at,
 *            common: in these, too. Fork: the child uses the same region. A process may be killed
 *            at any moment: the region stays whole, and no other process waits for it. Those that
 *            can write to it trust each other: one that truncates the file makes the others fail
 *            with SIGBUS, as with any mapped file; a memfd is sealed against that. One that can
 *            only read it can delay an open_object, by a lock on the file. Nothing is a
 *            cancellation point.
 * Order:     open_object acquires what the one that added the object released.
 * Fallback:  threads without sequences share further copies, by atomics. Processes with and without
 *            rseq share a region.
 *
 * Concurrent with:  open, open_fd  open_object  all others  close   (of one near_region)
 *     open, open_fd       no           no           no       no
 *     open_object         no           yes          yes      no
 *     all others          no           yes          yes      no
 *
 *     struct near_region r;
 *     struct near_region_object o = {.name = "requests", .kind = NEAR_REGION_COUNTERS, .size = 8};
 *     if (near_region_open(&r, "/dev/shm/server",
 *                          &(struct near_region_options){.flags = NEAR_CREATE}) ||
 *         near_region_open_object(&r, &o))
 *             errx(1, "/dev/shm/server: %s", near_region_error(&r));
 *
 * Source: statistics in shared memory as servers and kernels keep them. The copies are by CPU, not
 * by concurrency id, which each process has for itself.
 */
#ifndef NEARCPU_REGION_H
#define NEARCPU_REGION_H

#include <nearcpu/seq.h>

NEAR__BEGIN_DECLS

#define NEAR_REGION_MAX_SIZE ((size_t)256 << 20)
#define NEAR_REGION_MAX_COMMON ((size_t)1 << (sizeof(size_t) > 4 ? 40 : 30))
#define NEAR_REGION_MAX_OBJECTS 65536u
#define NEAR_REGION_NAME 64    /* bytes, with the terminating 0 */
#define NEAR_REGION_LABELS 128 /* the same */

/* Private except for size and fd. */
struct near_region {
	const uint64_t *slots; /* of each: 0, or where its copy is, in bytes from the base copy */
	char *base;            /* the copy that no sequence writes */
	char *copies;          /* of slot 0 */
	uint64_t stride;       /* from copy to copy */
	uint64_t total;        /* bytes of the file */
	struct near__region_header *header;
	char *common;   /* the common area */
	size_t size;    /* of a copy, as given when the region was made */
	bool read_only; /* a snapshot */
	int fd;         /* to hand to other processes; closed by near_region_close */
};

enum near_region_kind {
	NEAR_REGION_BYTES = 1, /* nearcpu-stats(1) shows their name only */
	NEAR_REGION_COUNTERS,  /* int64_t; their sum is that of all copies, less the base copy */
	NEAR_REGION_HISTOGRAM, /* about: precision, maximum, 1 with an exact sum */
	NEAR_REGION_VALUES,    /* int64_t that exist once: NEAR_REGION_COMMON. about: below */
	NEAR_REGION_PRIVATE = 256, /* this and greater ones are for programs; shown as bytes */
};

/* Of an object of values, in `about`: 1, if they may fall (a gauge); and where the words of their
 * owners are: the offset in the common area of as many words, + 1, or 0. Value i belongs to the
 * process that owns word i. */
#define NEAR_REGION_ABOUT_GAUGE 0
#define NEAR_REGION_ABOUT_OWNERS 1

#define NEAR_REGION_COMMON 1u /* the object is not in each copy, but exists once */
#define NEAR_REGION_SPARSE 2u /* and has no blocks but those of near_region_populate */

struct near_region_object {
	const char *name;   /* letters, digits, `_` and `:`; no digit first */
	const char *labels; /* as Prometheus writes them: method="get",code="200"; NULL: none */
	uint32_t kind;
	uint32_t flags;    /* 0: it is in each copy */
	uint64_t size;     /* a multiple of 8 */
	uint64_t about[4]; /* parameters of the object, by its kind */
	uint64_t offset;   /* in each copy, or in the common area; set by the calls below */
};

#define NEAR_CREATE 1u /* make the file if there is none */

/* Of a new region, but for the flags; 0: the default. */
struct near_region_options {
	unsigned flags;       /* 0, or NEAR_CREATE */
	size_t size;          /* bytes of a copy, a multiple of 8; default 64 KiB */
	size_t common_size;   /* bytes of the common area; default 64 KiB */
	unsigned max_objects; /* that the directory can have; default 64 */
	/* That the region has before others can see it; NULL: none. */
	struct near_region_object *initial;
	unsigned n_initial;   /* how many are at `initial`; 0: one */
	uint64_t reserved[4]; /* 0 */
};

/* Opens the region in file `path`. If there is none, NEAR_CREATE makes it; a region that exists
 * keeps the size that it has. Path NULL: makes a region without a name: hand r->fd to a child or
 * over a socket. `options` may be NULL.
 * Returns 0; -ENOENT: there is no such file, or no folder for it; -EINVAL: a size that is no
 * multiple of 8, a flag that there is not, or a reserved word that is not 0; -E2BIG: above a
 * maximum; -EBADMSG: the file is something else, or damaged; -EPROTO: of another version; -EXDEV:
 * made on a machine with another number of possible CPUs; -ENOSPC: no room for its first blocks;
 * -EFBIG: larger than RLIMIT_FSIZE; -EEXIST: `path` is a symbolic link to nothing; and what
 * open(2), mmap(2) return. A file that could not be made whole is removed; one that is refused is
 * left alone. */
NEAR_API int near_region_open(struct near_region *r, const char *path,
			      const struct near_region_options *options);

/* Opens the region in an open file, which is duplicated. Errors as near_region_open. A descriptor
 * that is open for reading alone gives a snapshot: the memory of this process then has what the
 * region has now, and nothing that others do to the file matters. */
NEAR_API int near_region_open_fd(struct near_region *r, int fd);

/* Why this thread's last call that failed has failed, if that was one of the two above, or opened
 * an object of this region: a sentence, which is valid as long as the thread. Else NULL. */
NEAR_API const char *near_region_error(const struct near_region *r);

/* Unmaps it. The region lives on in its file. */
NEAR_API void near_region_close(struct near_region *r);

/* Finds the object with this name and these labels, or adds it, all 0; sets o->offset. Objects are
 * never removed. Excludes others by a lock on the file (through /proc/self/fd), which the kernel
 * releases if a process is killed.
 * Returns 0; -EINVAL: a bad name, labels, kind, flags or size; -EEXIST: the region has it with
 * another kind, size, flags or `about`, or its name for objects of another kind; -ENOSPC: no room
 * in the directory, the copies, the area or the file system; -EBADMSG: the directory is damaged;
 * -EROFS: a snapshot does not have it; -ENOENT: /proc is missing; and what open(2) and fcntl(2)
 * return. */
NEAR_API int near_region_open_object(const struct near_region *r, struct near_region_object *o);

/* Object number `i`, in the order in which they were added; the strings are those in the region.
 * Returns 0; -ENOENT: there are no more; -EBADMSG: the directory is damaged. */
NEAR_API int near_region_object(const struct near_region *r, unsigned i,
				struct near_region_object *o);

/* Allocates the blocks of `size` bytes from byte `from` of a sparse object on, or reads them into a
 * snapshot. Each process calls it before it accesses them: a load from a hole of a file fails on a
 * full disk, as a store does. Safe in signal handlers.
 * Returns 0; -EINVAL: not within a sparse object; -ENOSPC; and what fallocate(2) returns. */
NEAR_API int near_region_populate(const struct near_region *r, const struct near_region_object *o,
				  uint64_t from, uint64_t size);

/* Opens the file again: an open file description for this process alone, by which it may lock bytes
 * (F_OFD_SETLK). The caller closes it; so does a child of fork, which shares the locks. The library
 * locks the first byte of the file; an object's users may lock those where it is
 * (near_region_file_offset).
 * Returns a descriptor; -ENOENT: /proc is missing; -EBADF: a snapshot; and what open(2) returns. */
NEAR_API int near_region_reopen(const struct near_region *r);

/* Later versions add fields at the end. */
struct near_region_stats {
	uint64_t created_ns;     /* since 1970 */
	uint64_t creator;        /* the process that made it, in its pid namespace */
	char program[16];        /* its name */
	unsigned cpus;           /* possible CPUs, and as many fallbacks */
	unsigned cpus_used;      /* that have a copy */
	unsigned fallbacks_used; /* the same */
	unsigned objects;        /* that the directory can have */
	uint64_t total;          /* bytes of the file, */
	uint64_t allocated;      /* and those that have blocks */
};

/* Fills *out, of which the caller knows `size` bytes; what the library does not know becomes 0.
 * Returns 0; -EINVAL: size is 0. */
NEAR_API int near_region_stats(const struct near_region *r, struct near_region_stats *out,
			       size_t size);

/* *slot becomes the first slot from there on whose copy is in use; false: there is none.
 * for (s = 0; near_region_next(r, &s); s++). */
NEAR_API bool near_region_next(const struct near_region *r, unsigned *slot);

NEAR_INLINE char *near_region_at(const struct near_region *r, unsigned slot, uint64_t offset)
{
	return r->copies + slot * r->stride + offset;
}

NEAR_INLINE char *near_region_common(const struct near_region *r, uint64_t offset)
{
	return r->common + offset;
}

/* Where in the file an address of the region is. */
NEAR_INLINE uint64_t near_region_file_offset(const struct near_region *r, const void *address)
{
	return (uint64_t)((const char *)address - (const char *)r->header);
}

/* Opens the slot of the local CPU. False: the caller uses a fallback slot, which other threads use,
 * too. */
NEAR_API bool near__region_open_cpu(const struct near_region *r);
NEAR_API unsigned near__region_fallback(const struct near_region *r);

/* Value i of an object of values, read by the process whose owner word is `self`. False: there is
 * none: its owner has ended or never was. */
struct near__value {
	int64_t value;
	uint64_t pid; /* of its owner, 0: it has none */
};
NEAR_API bool near__region_value(const struct near_region *r, const struct near_region_object *o,
				 size_t i, uint64_t self, struct near__value *out);
NEAR_API uint64_t near__owner_self(void);

/* at = the copy of the local CPU of what is at `base` in the base copy. Needs the inputs slots
 * and base. The address depends on the word that was loaded: no other order is needed. */
#define NEAR__REGION_SLOT(at)                                                                      \
	NEAR_INDEX_CPU(at)                                                                         \
	NEAR_SHIFT_LEFT(at, 3)                                                                     \
	NEAR_LOAD8X(at, slots, at)                                                                 \
	NEAR_BRANCH_ZERO(at, near_failed)                                                          \
	NEAR_ADD(at, base)

/* at[0] += n; the store of the sum commits. */
NEAR__INLINE bool near__region_try_add(const struct near_region *r, void *base, int64_t n)
{
	uint64_t at;

	return NEAR_SEQ(
		NEAR__REGION_SLOT(at)
		NEAR_COMMIT_ADD8(n, at, 0),
		NEAR_OUT(at), NEAR_IN((slots, r->slots), base, n));
}

NEAR_API void near__region_add_slow(const struct near_region *r, void *base, int64_t n);

/* Adds n to the local copy of the word that is at `base` in the base copy. */
NEAR__INLINE void near__region_add(const struct near_region *r, void *base, int64_t n)
{
	if (__builtin_expect(!near__region_try_add(r, base, n), 0))
		near__region_add_slow(r, base, n);
}

NEAR__END_DECLS

#endif
