/* SPDX-License-Identifier: MIT */
/* What the tests of near_shared_ids share. */
#ifndef NEARCPU_TESTS_IDSPACE_SHARED_H
#define NEARCPU_TESTS_IDSPACE_SHARED_H

#include <nearcpu/shared_ids.h>

#include "region/regions.h"

#define NAME "workers"

static inline int shared_open(struct near_shared_ids *s, struct near_region *r, const char *name,
			      const struct near_shared_ids_options *options)
{
	int err;

	memset(s, 0x5a, sizeof(*s));
	KEEPS_ERRNO(err = near_shared_ids_open(s, r, name, NULL, options));
	CHECK(!err || near_shared_ids_error(s));
	return err;
}

/* A process's view of the space in the file `path`. */
struct shared_view {
	struct near_region region;
	struct near_shared_ids ids;
};

static inline void shared_attach(struct shared_view *v, struct near_shared_ids_options options)
{
	v->region =
		opened_region(&(struct near_region_options){.size = 8, .common_size = 128 << 10});
	CHECK(shared_open(&v->ids, &v->region, NAME, &options) == 0);
}

static inline void shared_detach(struct shared_view *v)
{
	KEEPS_ERRNO(near_shared_ids_close(&v->ids));
	near_region_close(&v->region);
}

static inline int shared_acquire(struct near_shared_ids *s, struct near_worker *w)
{
	int id;

	KEEPS_ERRNO(id = near_shared_ids_acquire(s, w));
	CHECK(near_worker_id(w) == (id < 0 ? -1 : id));
	return id;
}

static inline void shared_release(struct near_shared_ids *s, struct near_worker *w)
{
	KEEPS_ERRNO(near_shared_ids_release(s, w));
	CHECK(near_worker_id(w) == -1 && !near_worker_must_repair(w));
}

static inline struct near_shared_ids_stats shared_stats(const struct near_shared_ids *s)
{
	struct near_shared_ids_stats st;

	memset(&st, 0x5a, sizeof(st));
	KEEPS_ERRNO(CHECK(near_shared_ids_stats(s, &st, sizeof(st)) == 0));
	return st;
}

/* Acquires all ids, each of which comes once, and releases them. Returns which were to be repaired:
 * a bit for each of up to 64 ids. */
static inline uint64_t shared_all(struct near_shared_ids *s)
{
	unsigned n = (unsigned)s->ids;
	struct near_worker w[64] = {0};
	uint64_t seen = 0, repair = 0;
	int id;

	CHECK(n < 64);
	for (unsigned i = 0; i < n; i++) {
		id = shared_acquire(s, &w[i]);
		CHECK(id >= 0 && !(seen >> id & 1));
		seen |= UINT64_C(1) << id;
		repair |= (uint64_t)near_worker_must_repair(&w[i]) << id;
	}
	CHECK(shared_acquire(s, &w[n]) == -EAGAIN);
	CHECK(strcmp(near_shared_ids_error(s), "all ids are in use") == 0);
	for (unsigned i = 0; i < n; i++)
		shared_release(s, &w[i]);
	return repair;
}

/* A child that runs `run(arg)` and then lives until it is killed. Returns when it has run. */
static inline pid_t shared_start(void (*run)(void *), void *arg)
{
	bool *ready = unit_shared(sizeof(*ready));
	pid_t child = unit_fork_here();

	if (child == 0) {
		run(arg);
		__atomic_store_n(ready, true, __ATOMIC_SEQ_CST);
		for (;;)
			pause();
	}
	CHECK(child > 0);
	UNTIL(__atomic_load_n(ready, __ATOMIC_SEQ_CST) || waitpid(child, NULL, WNOHANG) > 0);
	CHECK(__atomic_load_n(ready, __ATOMIC_SEQ_CST));
	munmap(ready, sizeof(*ready));
	return child;
}

static inline void shared_kill(pid_t child)
{
	int signal = 0;

	kill(child, SIGKILL);
	CHECK(unit_wait(child, &signal) == -1);
	CHECK(signal == SIGKILL);
}

#endif
