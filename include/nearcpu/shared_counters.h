/* SPDX-License-Identifier: MIT */
/* near_shared_counters: counters in memory that several processes share.
 *
 * An array of 64-bit counters with one copy per CPU, an object of a region (near_region(3)).
 * Processes that map it add to it concurrently; what they added outlives each of them, killed or
 * not.
 *
 * Cost:      add about 1 ns, no atomic instruction; read one load for each cpu that added.
 * Memory:    8 bytes per counter in each copy of the region. If there is no room for the copy of
 *            another CPU (a full disk), that CPU adds to a copy that exists.
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
 *     struct near_region r;
 *     struct near_shared_counters hits;
 *     const struct near_shared_counters_options four = {.count = 4};
 *     if (near_region_open(&r, "/dev/shm/server",
 *                          &(struct near_region_options){.flags = NEAR_CREATE}) ||
 *         near_shared_counters_open(&hits, &r, "hits", NULL, &four))
 *             errx(1, "/dev/shm/server: %s", near_region_error(&r));
 *     near_shared_counters_add(&hits, 0, 1); // the first of them
 *     int64_t n = near_shared_counters_read(&hits, 0);
 *
 * Source: per-CPU statistics as kernels keep them, between processes. The slot is the cpu:
 * concurrency ids are per process. A counter is reset by moving a baseline, since no membarrier
 * reaches the sequences of other processes.
 */
#ifndef NEARCPU_SHARED_COUNTERS_H
#define NEARCPU_SHARED_COUNTERS_H

#include <nearcpu/region.h>

NEAR__BEGIN_DECLS

/* 0: the default. */
struct near_shared_counters_options {
	size_t count;         /* of counters; default 1 */
	uint64_t reserved[4]; /* 0 */
};

/* Private except for count. */
struct near_shared_counters {
	int64_t *bases; /* in the base copy: what each counter's resets took away */
	size_t count;
	struct near_region region;
};

/* Counters that are an object of region `r`, which stays open as long as they are used: finds them
 * by their name and labels, or adds them, all 0. `labels` and `options` may be NULL.
 * Returns 0; -E2BIG: more counters than any region has room for; -EINVAL: a reserved word is not 0;
 * and what near_region_open_object returns. near_region_error has a sentence. */
NEAR_API int near_shared_counters_open(struct near_shared_counters *s, const struct near_region *r,
				       const char *name, const char *labels,
				       const struct near_shared_counters_options *options);

/* Counters that are object `o` of region `r`, which near_region_object has found, however many they
 * are. Returns 0; -EINVAL: it is no object of counters. */
NEAR_API int near_shared_counters_open_object(struct near_shared_counters *s,
					      const struct near_region *r,
					      const struct near_region_object *o);

/* Ends the use of the counters, which live on in the region. */
NEAR_API void near_shared_counters_close(struct near_shared_counters *s);

/* Adds n to counter `index`. Requires a number below the count. */
NEAR_INLINE void near_shared_counters_add(struct near_shared_counters *s, size_t index, int64_t n)
{
	NEAR__CHECK_READY(s->bases, s);
	near__region_add(&s->region, s->bases + index, n);
}

/* The count of counter `index`. */
NEAR_API int64_t near_shared_counters_read(const struct near_shared_counters *s, size_t index);

/* Sets it to 0, for all processes, and returns what it was. Each add is in the result of exactly
 * one reset or in the count that stays. */
NEAR_API int64_t near_shared_counters_reset(struct near_shared_counters *s, size_t index);

NEAR__END_DECLS

#endif
