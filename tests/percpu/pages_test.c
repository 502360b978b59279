/* SPDX-License-Identifier: MIT */
/* Pages of 4, 16 and 64 KiB: memory of slots, pools and id spaces is whole; the files of regions
 * are the same, and a system reads those of another. */
#include "region/regions.h"

#include <fcntl.h>
#include <nearcpu/idspace.h>
#include <nearcpu/pool.h>
#include <nearcpu/shared_ids.h>

#include "pages.h"
#include "region/region.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define SIZES 3
static const size_t sizes[SIZES] = {4 * KIB, 16 * KIB, 64 * KIB};

/* Those that this machine can show: its own, and larger ones. */
static bool use_pages(unsigned i)
{
	pages_size = sizes[i];
	return (size_t)__real_sysconf(_SC_PAGESIZE) <= sizes[i];
}

/* ---- memory ---- */

#define OBJECTS 9u

static bool has_only(const char *p, char c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != c)
			return false;
	return true;
}

/* Above 64 KiB copies are given back to the system when they are freed. The thread stays on one
 * CPU: which fallback copy it gets depends on that. */
static void neighbours_of_a_freed_object_stay(size_t size)
{
	char *all[OBJECTS];

	CHECK(unit_pin(0, NULL));
	for (unsigned i = 0; i < OBJECTS; i++) {
		CHECK(near_percpu_alloc(size, 8, (void **)&all[i]) == 0);
		CHECK(has_only(near_percpu_fallback(all[i]), 0, size));
		memset(near_percpu_fallback(all[i]), 'a' + (int)i, size);
	}
	for (unsigned i = 1; i < OBJECTS; i += 2)
		near_percpu_free(all[i]);
	for (unsigned i = 0; i < OBJECTS; i += 2) {
		CHECK(has_only(near_percpu_fallback(all[i]), 'a' + (char)i, size));
		near_percpu_free(all[i]);
	}
	unit_unpin();
}

static void percpu_memory(void **state)
{
	for (unsigned i = 0; i < SIZES; i++)
		for (size_t size = 32 * KIB; use_pages(i) && size <= 96 * KIB; size += 32 * KIB)
			neighbours_of_a_freed_object_stay(size);
}

static void use_ids(size_t size)
{
	const struct near_idspace_options options = {.ids = OBJECTS, .size = size};
	struct near_worker w[OBJECTS] = {0};
	struct near_idspace s;
	char *data;

	CHECK(near_idspace_init(&s, &options) == 0);
	CHECK(near_idspace_alloc(&s, size, 8, (void **)&data) == 0);
	for (unsigned i = 0; i < OBJECTS; i++) {
		int id = near_idspace_acquire(&s, &w[i]);

		CHECK(id == (int)i);
		CHECK(has_only(near_idspace_at(&s, data, id), 0, size));
		memset(near_idspace_at(&s, data, id), 'a' + id, size);
	}
	for (unsigned i = 0; i < OBJECTS; i++)
		CHECK(has_only(near_idspace_at(&s, data, (int)i), 'a' + (char)i, size));
	for (unsigned i = 0; i < OBJECTS; i++)
		near_idspace_release(&s, &w[i]);
	near_idspace_destroy(&s);
}

static void id_spaces(void **state)
{
	for (unsigned i = 0; i < SIZES; i++)
		for (size_t size = 64; use_pages(i) && size <= 64 * KIB; size *= 32)
			use_ids(size);
}

/* So many that chunks become free and are used again. */
static void use_pool(size_t size)
{
	const struct near_pool_options options = {.max_idle = 1};
	unsigned n = (unsigned)(MIB / size) + 1;
	struct near_pool pool;
	void **all = calloc(n, sizeof(*all));

	CHECK(near_pool_init(&pool, size, &options) == 0);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < n; i++) {
			CHECK((all[i] = near_pool_get(&pool)));
			memset(all[i], 'a' + (int)i % 26, size);
		}
		for (unsigned i = 0; i < n; i++) {
			CHECK(has_only(all[i], 'a' + (char)(i % 26), size));
			near_pool_put(&pool, all[i]);
		}
		near_pool_drain(&pool);
	}
	near_pool_destroy(&pool);
	free(all);
}

static void pools(void **state)
{
	static const size_t objects[] = {64, 5000, 30000};

	for (unsigned i = 0; i < SIZES; i++)
		for (unsigned k = 0; use_pages(i) && k < LENGTH(objects); k++)
			use_pool(objects[k]);
}

/* ---- files ---- */

static void region_path(char *file, size_t size, unsigned i)
{
	snprintf(file, size, "%s/%u", directory, i);
}

/* Objects of each kind: in copies, once, sparse, an id space with data. */
static void define_all(struct near_region *r, struct near_region_object *o,
		       struct near_shared_ids *ids)
{
	const uint32_t sparse = NEAR_REGION_COMMON | NEAR_REGION_SPARSE;

	o[0] = (struct near_region_object){.name = "copies", .kind = 256, .size = 5000};
	o[1] = (struct near_region_object){
		.name = "once", .kind = 256, .size = 5000, .flags = NEAR_REGION_COMMON};
	o[2] = (struct near_region_object){
		.name = "sparse", .kind = 256, .size = 50000, .flags = sparse};
	for (unsigned i = 0; i < 3; i++)
		CHECK(near_region_open_object(r, &o[i]) == 0);
	CHECK(near_region_populate(r, &o[2], 4096, 40000) == 0);
	CHECK(near_shared_ids_open(ids, r, "ids", NULL,
				   &(struct near_shared_ids_options){.ids = 8, .size = 100}) == 0);
}

static void write_region(unsigned i)
{
	const struct near_region_options options = {
		.flags = NEAR_CREATE, .size = 8000, .common_size = MIB};
	struct near_region_object o[3];
	struct near_shared_ids ids;
	struct near_worker w = {0};
	struct near_region r;
	char file[80];
	int id;

	region_path(file, sizeof(file), i);
	CHECK(near_region_open(&r, file, &options) == 0);
	define_all(&r, o, &ids);
	memset(near_region_common(&r, o[1].offset), 'o', 5000);
	memset(near_region_common(&r, o[2].offset) + 4096, 's', 40000);
	id = near_shared_ids_acquire(&ids, &w);
	CHECK(id == 0);
	memset(near_shared_ids_data(&ids, id), 'i', 100);
	near_shared_ids_release(&ids, &w);
	near_shared_ids_close(&ids);
	near_region_close(&r);
}

static void read_region(unsigned i)
{
	struct near_region_object o[3];
	struct near_shared_ids ids;
	struct near_region r;
	char file[80];

	region_path(file, sizeof(file), i);
	CHECK(near_region_open(&r, file, NULL) == 0);
	define_all(&r, o, &ids);
	CHECK(has_only((char *)near_region_common(&r, o[1].offset), 'o', 5000));
	CHECK(has_only((char *)near_region_common(&r, o[2].offset) + 4096, 's', 40000));
	CHECK(has_only(near_shared_ids_data(&ids, 0), 'i', 100));
	near_shared_ids_close(&ids);
	near_region_close(&r);
}

static void other_systems_read_a_region(void **state)
{
	for (unsigned i = 0; i < SIZES; i++)
		if (use_pages(i))
			write_region(i);
	for (unsigned i = 0; i < SIZES * SIZES; i++)
		if (use_pages(i / SIZES) && use_pages(i % SIZES))
			read_region(i / SIZES);
}

int main(void)
{
	return UNIT_GROUP(set_up, remove_files, tear_down, percpu_memory, id_spaces, pools,
			  other_systems_read_a_region);
}
