/* SPDX-License-Identifier: MIT */
/* Which mappings the library registers with LeakSanitizer, whose functions these replace. */
#include <nearcpu/idspace.h>
#include <nearcpu/pool.h>
#include <string.h>
#include <sys/mman.h>

#include "unit.h"

#define MOST 64

static struct {
	const char *p;
	size_t size;
} roots[MOST];

void __lsan_register_root_region(const void *p, size_t size);
void __lsan_unregister_root_region(const void *p, size_t size);

void __lsan_register_root_region(const void *p, size_t size)
{
	for (int i = 0; i < MOST; i++)
		if (!roots[i].p) {
			roots[i].p = p;
			roots[i].size = size;
			return;
		}
	abort();
}

/* The sanitizer stops the program if there was no such region, or another size; what is unmapped
 * already may be another mapping by now. */
void __lsan_unregister_root_region(const void *p, size_t size)
{
	for (int i = 0; i < MOST; i++)
		if (roots[i].p == p && roots[i].size == size &&
		    madvise((void *)(uintptr_t)p, size, MADV_NORMAL) == 0) {
			roots[i].p = NULL;
			return;
		}
	abort();
}

static int roots_of(const void *p)
{
	int n = 0;

	for (int i = 0; i < MOST; i++)
		n += roots[i].p && roots[i].p <= (const char *)p &&
		     (const char *)p < roots[i].p + roots[i].size;
	return n;
}

static unsigned count(void)
{
	unsigned n = 0;

	for (int i = 0; i < MOST; i++)
		n += roots[i].p != NULL;
	return n;
}

static void per_cpu_memory_is_a_root(void **state)
{
	unsigned known;
	void *p, *q;

	assert_int_equal(near_percpu_alloc(8, 8, &p), 0);
	known = count();
	for (unsigned s = 0; s < near_slots(); s++)
		assert_int_equal(roots_of(near_percpu_at(p, s)), 1);
	assert_int_equal(roots_of(near_percpu_fallback(p)), 1);
	/* The arena stays. */
	assert_int_equal(near_percpu_alloc(8, 8, &q), 0);
	near_percpu_free(q);
	near_percpu_free(p);
	assert_int_equal(count(), known);
}

static void objects_of_pools_are_roots_until_the_end(void **state)
{
	unsigned known = 0;

	for (int i = 0; i < 3; i++) {
		struct near_pool pool;
		void *object;

		assert_int_equal(near_pool_init(&pool, 64, NULL), 0);
		object = near_pool_get(&pool);
		assert_int_equal(roots_of(object), 1);
		near_pool_put(&pool, object);
		near_pool_destroy(&pool);
		assert_int_equal(roots_of(object), 0);
		if (i == 0)
			known = count(); /* also the arena of its slots */
	}
	assert_int_equal(count(), known);
}

static void data_of_ids_is_a_root_until_the_end(void **state)
{
	struct near_idspace_options o = {.ids = 64};
	unsigned known = 0;

	for (int i = 0; i < 3; i++) {
		struct near_idspace ids;
		void *p;

		assert_int_equal(near_idspace_init(&ids, &o), 0);
		assert_int_equal(near_idspace_alloc(&ids, 8, 8, &p), 0);
		assert_int_equal(roots_of(near_idspace_at(&ids, p, 63)), 1);
		near_idspace_destroy(&ids);
		if (i == 0)
			known = count();
	}
	assert_int_equal(count(), known);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(per_cpu_memory_is_a_root),
		cmocka_unit_test(objects_of_pools_are_roots_until_the_end),
		cmocka_unit_test(data_of_ids_is_a_root_until_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
