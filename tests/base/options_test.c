/* SPDX-License-Identifier: MIT */
/* The words at the end of each options structure are reserved: another value than 0 is -EINVAL. */
#include <nearcpu/histogram.h>
#include <nearcpu/idspace.h>
#include <nearcpu/pool.h>
#include <nearcpu/rcu.h>
#include <nearcpu/rcu_map.h>
#include <nearcpu/rcu_map64.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/trace.h>

#include "unit.h"

static struct near_histogram histogram;
static struct near_idspace idspace;
static struct near_pool pool;
static struct near_rcu rcu, domain;
static struct near_rcu_map map;
static struct near_rcu_map64 map64;
static struct near_rwlock rwlock;

static uint64_t hash(const void *key)
{
	return (uintptr_t)key;
}
static bool equal(const struct near_rcu_map_entry *e, const void *key)
{
	return e == key;
}

static char folder[] = "/tmp/nearcpu-options-XXXXXX"; /* of the session's file */

static void trace_stop(void *unused)
{
	char path[128];

	(void)unused;
	snprintf(path, sizeof(path), "%s", near_trace_path());
	near_trace_stop();
	unlink(path);
}

/* name_ends(object) is for an object that was made. */
#define OPTIONS(name, object, ends, init)                                                          \
	static int name##_init(uint64_t word, unsigned i)                                          \
	{                                                                                          \
		struct near_##name##_options o = {0};                                              \
		int r;                                                                             \
                                                                                                   \
		assert_int_equal(sizeof(o.reserved), 32);                                          \
		assert_int_equal(offsetof(struct near_##name##_options, reserved) + 32,            \
				 sizeof(o));                                                       \
		o.reserved[i] = word;                                                              \
		r = init;                                                                          \
		if (r == 0)                                                                        \
			ends(object);                                                              \
		return r;                                                                          \
	}

OPTIONS(histogram, &histogram, near_histogram_destroy, near_histogram_init(&histogram, &o))
OPTIONS(idspace, &idspace, near_idspace_destroy, near_idspace_init(&idspace, &o))
OPTIONS(pool, &pool, near_pool_destroy, near_pool_init(&pool, 8, &o))
OPTIONS(rcu, &domain, near_rcu_destroy, near_rcu_init(&domain, &o))
OPTIONS(rcu_map, &map, near_rcu_map_destroy, near_rcu_map_init(&map, &rcu, hash, equal, &o))
OPTIONS(rcu_map64, &map64, near_rcu_map64_destroy, near_rcu_map64_init(&map64, &rcu, &o))
OPTIONS(rwlock, &rwlock, near_rwlock_destroy, near_rwlock_init(&rwlock, &o))
OPTIONS(trace, NULL, trace_stop, (o.path = folder, near_trace_start(&o)))

static int (*const inits[])(uint64_t word, unsigned i) = {
	histogram_init, idspace_init,   pool_init,   rcu_init,
	rcu_map_init,   rcu_map64_init, rwlock_init, trace_init,
};

static void reserved_words_are_zero(void **state)
{
	assert_non_null(mkdtemp(folder));
	assert_int_equal(near_rcu_init(&rcu, NULL), 0);
	for (unsigned k = 0; k < LENGTH(inits); k++) {
		KEEPS_ERRNO(assert_int_equal(inits[k](0, 0), 0));
		for (unsigned i = 0; i < 4; i++) {
			KEEPS_ERRNO(assert_int_equal(inits[k](1, i), -EINVAL));
			KEEPS_ERRNO(assert_int_equal(inits[k]((uint64_t)1 << 63, i), -EINVAL));
		}
		KEEPS_ERRNO(assert_int_equal(inits[k](0, 0), 0));
	}
	near_rcu_destroy(&rcu);
	assert_int_equal(rmdir(folder), 0);
}

/* A lock of zeros is valid: so is one whose options were refused. */
static void a_refused_rwlock_is_valid(void **state)
{
	memset(&rwlock, 0xff, sizeof(rwlock));
	assert_int_equal(rwlock_init(1, 0), -EINVAL);
	near_rwlock_write_lock(&rwlock);
	near_rwlock_write_unlock(&rwlock);
	near_rwlock_destroy(&rwlock);
}

UNIT_MAIN(reserved_words_are_zero, a_refused_rwlock_is_valid)
