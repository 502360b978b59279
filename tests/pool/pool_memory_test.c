/* SPDX-License-Identifier: MIT */
/* near_pool: sizes and alignment, bad input, no memory, constructors that fail, misuse. */
#include "things.h"

#include "pool/pool.h"

static int init(size_t size, struct near_pool_options o)
{
	static struct near_pool pool;
	int r;

	KEEPS_ERRNO(r = near_pool_init(&pool, size, &o));
	if (r == 0)
		near_pool_destroy(&pool);
	return r;
}

#define INIT(size, ...) init(size, (struct near_pool_options){__VA_ARGS__})

static void bad_options_are_refused(void **state)
{
	assert_int_equal(INIT(0, 0), -EINVAL);
	assert_int_equal(INIT(8, .align = 3), -EINVAL);
	assert_int_equal(INIT(8, .align = 24), -EINVAL);
	assert_int_equal(INIT(8, .align = 2 * NEAR_POOL_MAX_ALIGN), -E2BIG);
	assert_int_equal(INIT(NEAR_POOL_MAX_SIZE + 1, 0), -E2BIG);
	assert_int_equal(INIT(SIZE_MAX, 0), -E2BIG);
	assert_int_equal(INIT(8, .batch = NEAR_POOL_MAX_BATCH + 1), -E2BIG);
	assert_int_equal(INIT(8, .max_objects = SIZE_MAX), -E2BIG);
	assert_int_equal(INIT(8, .max_idle = SIZE_MAX, .max_objects = 100), 0);
	assert_int_equal(INIT(8, .batch = NEAR_POOL_MAX_BATCH, .max_idle = 1 << 20), 0);
	assert_int_equal(INIT(NEAR_POOL_MAX_SIZE, .align = NEAR_POOL_MAX_ALIGN), 0);
}

/* Objects overlap neither each other nor anything else, and are aligned. */
static void use_sizes(size_t size, size_t align)
{
	struct near_pool_options o = {.align = align, .max_objects = 1000};
	struct near_pool pool;
	unsigned char *p[40];

	assert_int_equal(near_pool_init(&pool, size, &o), 0);
	assert_in_range(pool_now(&pool).stride, size, size + (align < 8 ? 8 : align));
	for (unsigned i = 0; i < LENGTH(p); i++) {
		p[i] = near_pool_get(&pool);
		assert_int_equal((uintptr_t)p[i] % align, 0);
		memset(p[i], (int)i, size);
	}
	for (unsigned i = 0; i < LENGTH(p); i++)
		for (size_t k = 0; k < size; k += size / 16 + 1)
			assert_int_equal(p[i][k], i);
	for (unsigned i = 0; i < LENGTH(p); i++)
		near_pool_put(&pool, p[i]);
	assert_int_equal(pool_now(&pool).objects, pool_now(&pool).idle);
	near_pool_destroy(&pool);
}

static void sizes_and_alignments(void **state)
{
	static const size_t sizes[] = {1, 7, 8, 9, 24, 64, 100, 4096, 5000, 70000};

	for (unsigned i = 0; i < LENGTH(sizes); i++)
		for (size_t align = 1; align <= NEAR_POOL_MAX_ALIGN; align *= 8)
			use_sizes(sizes[i], align);
}

/* Any number of objects, of which idle ones in other slots are found; then no more. */
static void the_most_objects(void **state)
{
	struct near_pool_options o = {.max_objects = 200};
	struct near_pool pool;
	void *p[300];
	unsigned n = 0;

	assert_int_equal(near_pool_init(&pool, 1000, &o), 0);
	KEEPS_ERRNO(while (n < LENGTH(p) && (p[n] = near_pool_get(&pool))) n++);
	assert_in_range(n, 200, 264);
	assert_int_equal(near_pool_get_many(&pool, p, 0), 0);
	KEEPS_ERRNO(assert_int_equal(near_pool_get_many(&pool, &p[n], 3), 0));
	near_pool_put_many(&pool, p, n);
	near_pool_drain(&pool);
	assert_int_equal(near_pool_get_many(&pool, p, n), n);
	near_pool_put_many(&pool, p, n);
	near_pool_destroy(&pool);
}

static void a_constructor_may_fail(void **state)
{
	struct things all = {.error = -ENFILE};
	struct near_pool_options o = {THINGS(&all), .max_objects = THINGS_MOST};
	struct near_pool pool;
	void *p;

	assert_int_equal(near_pool_init(&pool, sizeof(struct thing), &o), 0);
	KEEPS_ERRNO(assert_null(near_pool_get(&pool)));
	KEEPS_ERRNO(assert_int_equal(near_pool_get_many(&pool, &p, 1), 0));
	assert_int_equal(near_pool_get_until(&pool, &p, CLOCK_MONOTONIC, NULL, NULL), -ENFILE);
	assert_int_equal(pool_now(&pool).objects, 0);
	all.error = 0;
	thing_put(&pool, thing_get(&pool));
	near_pool_destroy(&pool);
	assert_int_equal(all.made, all.ended);
}

static struct near_pool nested;

static int begin_nested(void *object, void *arg)
{
	*(void **)object = near_pool_get((struct near_pool *)arg);
	return 0;
}

static void end_nested(void *object, void *arg)
{
	near_pool_put((struct near_pool *)arg, *(void **)object);
}

/* A constructor uses a pool, which may be behind the same lock, and the destructor. */
static void objects_of_objects(void **state)
{
	for (unsigned i = 0; i < 20; i++) {
		struct near_pool pool;
		struct near_pool_options o = {.max_objects = THINGS_MOST};
		void *p[500];

		assert_int_equal(near_pool_init(&nested, 100, &o), 0);
		o.construct = begin_nested;
		o.destruct = end_nested;
		o.arg = &nested;
		assert_int_equal(near_pool_init(&pool, 100, &o), 0);
		assert_int_equal(near_pool_get_many(&pool, p, LENGTH(p)), LENGTH(p));
		near_pool_put_many(&pool, p, LENGTH(p));
		near_pool_destroy(&pool);
		assert_int_equal(pool_now(&nested).objects, pool_now(&nested).idle);
		near_pool_destroy(&nested);
	}
}

/* Pages that the system took back are read as zeros. */
static void memory_goes_back(void **state)
{
	struct near_pool_options o = {.max_idle = 100};
	static void *p[20000];
	struct near_pool pool;

	assert_int_equal(near_pool_init(&pool, 500, &o), 0);
	for (unsigned turn = 0; turn < 3; turn++) {
		assert_int_equal(near_pool_get_many(&pool, p, LENGTH(p)), LENGTH(p));
		assert_in_range(pool_now(&pool).memory, LENGTH(p) * 500, 20 << 20);
		for (unsigned i = 0; i < LENGTH(p); i++)
			*(unsigned char *)p[i] = 1;
		near_pool_put_many(&pool, p, LENGTH(p));
		assert_in_range(pool_now(&pool).objects, 1, 100);
		assert_in_range(pool_now(&pool).memory, 1, 100 << 16);
		near_pool_drain(&pool);
		assert_int_equal(pool_now(&pool).memory, 0);
		for (unsigned i = 0; i < LENGTH(p); i++)
			assert_int_equal(*(unsigned char *)p[i], 0);
	}
	near_pool_destroy(&pool);
}

static void status_of_a_newer_and_an_older_caller(void **state)
{
	struct {
		struct near_pool_stats known;
		uint64_t later;
	} s = {.later = 5};
	struct near_pool pool;

	assert_int_equal(near_pool_init(&pool, 500, NULL), 0);
	assert_int_equal(near_pool_stats(&pool, &s.known, 0), -EINVAL);
	assert_int_equal(near_pool_stats(&pool, &s.known, sizeof(s)), 0);
	assert_int_equal(s.later, 0);
	assert_int_equal(s.known.stride, 512);
	assert_int_equal(s.known.batch, 16384 / 500);
	s.known.max_idle = 77;
	assert_int_equal(near_pool_stats(&pool, &s.known, sizeof(size_t)), 0);
	assert_int_equal(s.known.max_idle, 77);
	near_pool_destroy(&pool);
}

/* ---- misuse ---- */

/* The lists of memory are not in that memory. */
static void writes_after_destruction_harm_no_list(void **state)
{
	struct near_pool_options o = {.max_idle = 1};
	struct near_pool pool;
	uint64_t *p[100];

	assert_int_equal(near_pool_init(&pool, 24, &o), 0);
	for (unsigned turn = 0; turn < 3; turn++) {
		assert_int_equal(near_pool_get_many(&pool, (void **)p, LENGTH(p)), LENGTH(p));
		for (unsigned i = 0; i < LENGTH(p); i++)
			p[i][0] = i;
		for (unsigned i = 0; i < LENGTH(p); i++)
			assert_int_equal(p[i][0], i);
		near_pool_put_many(&pool, (void **)p, LENGTH(p) - 1);
		for (unsigned i = 0; i < LENGTH(p) - 1; i++)
			memset(p[i], 0xff, 24);
		near_pool_put(&pool, p[LENGTH(p) - 1]);
	}
	near_pool_destroy(&pool);
}

static void put_elsewhere(void *address)
{
	struct near_pool pool, other;
	void *p;

	CHECK(near_pool_init(&pool, 24, NULL) == 0 && near_pool_init(&other, 24, NULL) == 0);
	p = near_pool_get(&pool);
	near_pool_put(&other, address ? address : p);
}

/* With pool_check:1. */
static void init_checked(struct near_pool *pool)
{

	near_slots();
	near__process.conf.pool_check = 1;
	CHECK(near_pool_init(pool, 24, NULL) == 0);
}

static void put_twice(void *early)
{
	struct near_pool pool;
	void *p;

	init_checked(&pool);
	p = near_pool_get(&pool);
	near_pool_put(&pool, p);
	CHECK(near_pool_get(&pool) == p);
	near_pool_put(&pool, p);
	if (!early)
		near_pool_drain(&pool);
	near_pool_put_many(&pool, &p, 1);
}

static void put_inside(void *unused)
{
	struct near_pool pool;

	init_checked(&pool);
	near_pool_put(&pool, (char *)near_pool_get(&pool) + 8);
}

static void destroy_early(void *unused)
{
	struct near_pool pool;

	init_checked(&pool);
	CHECK(near_pool_get(&pool));
	near_pool_destroy(&pool);
}

static void misuse_stops_the_program(void **state)
{
	char stranger[64] __attribute__((aligned(16)));

	unit_dies(put_elsewhere, NULL, "near_pool_put: not an object of this pool");
	unit_dies(put_elsewhere, stranger, "near_pool_put: not an object of this pool");
	unit_dies(put_twice, NULL, "near_pool_put: not an object of this pool");
	unit_dies(put_twice, stranger, "near_pool_put: the object is idle already");
	unit_dies(put_inside, NULL, "near_pool_put: not an object of this pool");
	unit_dies(destroy_early, NULL, "near_pool_destroy: an object is in use");
}

UNIT_TEST(pools_without_number, for (unsigned i = 0; i < 40; i++) INIT(64 + i % 7, 0))

UNIT_MAIN(bad_options_are_refused, sizes_and_alignments, the_most_objects, a_constructor_may_fail,
	  objects_of_objects, memory_goes_back, status_of_a_newer_and_an_older_caller,
	  writes_after_destruction_harm_no_list, misuse_stops_the_program, pools_without_number)
