/* SPDX-License-Identifier: MIT */
/* near_shared_ids: bad input, misuse, no room. */
#include "few_ids.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "region/region.h"

static void fails(const char *name, const struct near_shared_ids_options *options, int err,
		  const char *why)
{
	assert_int_equal(shared_open(&ids, &region, name, options), err);
	assert_string_equal(near_shared_ids_error(&ids), why);
	KEEPS_ERRNO(near_shared_ids_close(&ids)); /* of one that is not open: nothing */
}

static void options_have_maxima(void **state)
{
	const char *why = "more ids, seats or bytes than there can be";

	fails(NAME, &(struct near_shared_ids_options){.ids = NEAR_IDSPACE_MAX_IDS + 1}, -E2BIG,
	      why);
	fails(NAME, &(struct near_shared_ids_options){.seats = NEAR_SHARED_IDS_MAX_SEATS + 1},
	      -E2BIG, why);
	fails(NAME, &(struct near_shared_ids_options){.size = NEAR_IDSPACE_MAX_SIZE + 1}, -E2BIG,
	      why);
	assert_int_equal(near_region_object(&region, 0, &(struct near_region_object){0}), -ENOENT);
}

static void the_default_numbers(void **state)
{
	assert_int_equal(shared_open(&ids, &region, NAME, &(struct near_shared_ids_options){0}), 0);
	assert_int_equal(shared_stats(&ids).ids, 256);
	assert_int_equal(shared_stats(&ids).seats, 64);
	near_shared_ids_close(&ids);
	assert_int_equal(shared_open(&ids, &region, NAME, NULL), 0);
	near_shared_ids_close(&ids);
}

static void labels_tell_spaces_apart(void **state)
{
	const struct near_shared_ids_options two = {.ids = 2, .size = 8};
	const struct near_shared_ids_options few_with_data = {.ids = 4, .seats = 2, .size = 8};
	struct near_shared_ids labelled, found;
	struct near_region_object o;
	struct near_worker worker = {0, 0};

	assert_int_equal(shared_open(&ids, &region, NAME, &few_with_data), 0);
	assert_int_equal(near_shared_ids_open(&labelled, &region, NAME, "kind=\"b\"", &two), 0);
	assert_int_equal(labelled.ids, 2);
	assert_int_equal(shared_acquire(&labelled, &worker), 0);
	strcpy(near_shared_ids_data(&labelled, 0), "b");
	assert_int_equal(shared_acquire(&ids, &w[0]), 0);
	assert_string_equal((char *)near_shared_ids_data(&ids, 0), "");
	/* The space by its object, which is the last one that was found. */
	for (unsigned i = 0; near_region_object(&region, i, &o) == 0; i++)
		;
	assert_string_equal(o.labels, "kind=\"b\"");
	KEEPS_ERRNO(assert_int_equal(near_shared_ids_open_object(&found, &region, &o), 0));
	assert_int_equal(found.ids, 2);
	assert_string_equal((char *)near_shared_ids_data(&found, 0), "b");
	near_shared_ids_close(&found);
	shared_release(&labelled, &worker);
	near_shared_ids_close(&labelled);
	shared_release(&ids, &w[0]);
	near_shared_ids_close(&ids);
}

static void what_the_region_refuses(void **state)
{
	const char *long_name = "a234567890123456789012345678901234567890123456789012345678901";

	fails("no name", &few, -EINVAL,
	      "a name has 1 to 63 letters, digits, `_`, `:`, and no digit first");
	fails(NAME, &(struct near_shared_ids_options){.ids = 65535}, -ENOSPC,
	      "the region's area that exists once has no room");
	fails(long_name, &(struct near_shared_ids_options){.ids = 4, .size = 8}, -EINVAL,
	      "the name is too long");
	/* A name that had no room is as if it had not been tried. */
	fails("again", &(struct near_shared_ids_options){.ids = 4, .size = 1 << 24}, -ENOSPC,
	      "the region's area that exists once has no room");
	assert_int_equal(shared_open(&ids, &region, "again", &few), 0);
	near_shared_ids_close(&ids);
}

static void an_object_of_another_kind(void **state)
{
	struct near_region_object o = counter_named(NAME, NULL);

	assert_int_equal(define(&region, &o), 0);
	fails(NAME, &few, -EEXIST, "the region has something else by this name");
	fails(NAME, NULL, -EEXIST, "the region has something else by this name");
}

/* As a later version would make it, or one that something has written over. */
static void refused(struct near_region_object o, int err, const char *why)
{
	o.name = NAME;
	o.kind = NEAR_REGION_PRIVATE;
	o.flags = NEAR_REGION_COMMON;
	assert_int_equal(define(&region, &o), 0);
	fails(NAME, &few, err, why);
	near_region_close(&region);
	remove_files(NULL);
	make_region(NULL);
}

static void another_version_or_damaged(void **state)
{
	const char *damaged = "the id space is damaged";

	refused((struct near_region_object){.size = 64, .about = {4, 2, 0, 2}}, -EPROTO,
		"the id space is of another version of the library");
	refused((struct near_region_object){.size = 64, .about = {4, 2, 0, 1}}, -EBADMSG, damaged);
	refused((struct near_region_object){.size = 64, .about = {0, 2, 0, 1}}, -EBADMSG, damaged);
	refused((struct near_region_object){.size = 64, .about = {4, 0, 0, 1}}, -EBADMSG, damaged);
	refused((struct near_region_object){.size = 64, .about = {65536, 2, 0, 1}}, -EBADMSG,
		damaged);
	refused((struct near_region_object){.size = 64, .about = {4, 4097, 0, 1}}, -EBADMSG,
		damaged);
	refused((struct near_region_object){.size = 64, .about = {4, 4, UINT64_MAX, 1}}, -EBADMSG,
		damaged);
}

static void a_damaged_directory(void **state)
{
	assert_int_equal(shared_open(&ids, &region, NAME, &few), 0);
	near_shared_ids_close(&ids);
	memset((char *)region.header + REGION_DIRECTORY, 0xff, 64);
	fails(NAME, &few, -EBADMSG, "the directory of the region is damaged");
	fails("other", NULL, -EBADMSG, "the directory of the region is damaged");
}

/* Whatever the hints are, and what names no seat that there is, no id is given out twice. */
static void damaged_hints_do_no_harm(void **state)
{
	assert_int_equal(shared_open(&ids, &region, NAME, &few), 0);
	for (unsigned byte = 0; byte < 256; byte += 51) {
		memset(ids.bitmap, (int)byte, 8);
		for (unsigned i = 0; i < near_cpus(); i++)
			memset(&ids.caches[i * 8], (int)byte, 8);
		for (unsigned i = 0; i < 4; i++)
			ids.owners[i].node1 = ids.owners[i].hits = ids.owners[i].seen = byte;
		assert_int_equal(shared_all(&ids), 0);
	}
	for (uint64_t id1 = 0; id1 < 7; id1++) {
		for (unsigned i = 0; i < near_cpus(); i++)
			ids.caches[i * 8] = id1;
		assert_int_equal(shared_all(&ids), 0);
	}
	near_shared_ids_close(&ids);
}

static void reserved_words_are_0(void **state)
{
	struct near_shared_ids_options later = {.ids = 4, .reserved = {0, 0, 0, 1}};

	fails(NAME, &later, -EINVAL, "a reserved word of the options is not 0");
}

/* As near_region_object finds them. */
static void what_is_no_space_is_no_object_of_one(void **state)
{
	struct near_region_object o = counter_named("counter", NULL);
	struct near_shared_ids by_object;

	assert_int_equal(define(&region, &o), 0);
	KEEPS_ERRNO(
		assert_int_equal(near_shared_ids_open_object(&by_object, &region, &o), -EINVAL));
	assert_string_equal(near_shared_ids_error(&by_object), "the object is no id space");
	near_shared_ids_close(&by_object);
}

static void a_snapshot_has_no_workers(void **state)
{
	struct near_region writable = region;
	int fd;

	assert_int_equal(shared_open(&ids, &region, NAME, &few), 0);
	near_shared_ids_close(&ids);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(near_region_open_fd(&region, fd), 0);
	fails(NAME, &few, -EROFS, "the region is a snapshot");
	near_region_close(&region);
	close(fd);
	region = writable;
}

static void misuse_stops_the_program(void **state)
{
	struct near_worker copy;

	assert_int_equal(shared_open(&ids, &region, NAME, &few), 0);
	assert_int_equal(shared_acquire(&ids, &w[0]), 0);
	assert_int_equal(shared_acquire(&ids, &w[1]), 1);
	copy = w[1];
	/* In the child it is a copy. */
	DIES("near_shared_ids_acquire: id 1 is not this worker's")
		near_shared_ids_acquire(&ids, &w[1]);
	DIES("near_shared_ids_release: the worker has no id")
		near_shared_ids_release(&ids, &w[2]);
	DIES("near_shared_ids_release: id 1 is not this worker's")
		near_shared_ids_release(&ids, &copy);
	DIES("near_shared_ids_hand_over: the worker has no id")
		near_shared_ids_hand_over(&ids, &w[2], &w[3]);
	DIES("near_shared_ids_hand_over: id 1 is not this worker's")
		near_shared_ids_hand_over(&ids, &copy, &w[3]);
	copy.id1 = 100;
	DIES("near_shared_ids_release: id 99 is not this worker's")
		near_shared_ids_release(&ids, &copy);
	near_shared_ids_close(&ids);
}

static void an_id_is_enough(void **state)
{
	assert_int_equal(shared_open(&ids, &region, NAME, &few), 0);
	DIES("near_shared_ids_hand_over: the worker has id 1 already") {
		shared_acquire(&ids, &w[0]);
		shared_acquire(&ids, &w[1]);
		near_shared_ids_hand_over(&ids, &w[0], &w[1]);
	}
	DIES("near_shared_ids_acquire: the worker has id 0 already") {
		shared_acquire(&ids, &w[0]);
		near_shared_ids_acquire(&ids, &w[0]);
	}
	assert_int_equal(shared_all(&ids), 3); /* those of the children */
	near_shared_ids_close(&ids);
}

/* ---- no room ---- */

static bool fill(const char *file)
{
	int fd = open(file, O_WRONLY | O_CREAT, 0600);
	char page[4096] = {1};

	while (fd >= 0 && write(fd, page, sizeof(page)) == sizeof(page))
		;
	close(fd);
	return fd >= 0 && errno == ENOSPC;
}

static void lack_room(void)
{
	const struct near_shared_ids_options o = {.ids = 16, .seats = 2, .size = 8 << 20};
	struct near_region r;

	/* On another CPU, whose cache is empty, an acquire would try the next id first. */
	unit_pin(0, NULL);
	CHECK(near_region_open(&r, "disk/region",
			       &(struct near_region_options){.flags = NEAR_CREATE,
							     .common_size = 256 << 20}) == 0);
	CHECK(shared_open(&ids, &r, NAME, &o) == 0);
	CHECK(shared_acquire(&ids, &w[0]) == 0);
	memset(near_shared_ids_data(&ids, 0), 'x', 8 << 20);
	CHECK(fill("disk/full"));
	for (int i = 0; i < 3; i++) {
		CHECK(shared_acquire(&ids, &w[1]) == -ENOSPC);
		CHECK(strcmp(near_shared_ids_error(&ids),
			     "there is no room for the data of another id") == 0);
		CHECK(!near_worker_must_repair(&w[1]));
	}
	/* What there is goes on to be used, whatever is searched for. */
	shared_release(&ids, &w[0]);
	for (uint64_t i = 0; i < 3 * NEAR__IDS_TRIM; i++) {
		CHECK(near_shared_ids_acquire(&ids, &w[0]) == 0);
		near_shared_ids_release(&ids, &w[0]);
	}
	CHECK(((char *)near_shared_ids_data(&ids, 0))[(8 << 20) - 1] == 'x');
	CHECK(unlink("disk/full") == 0);
	CHECK(shared_acquire(&ids, &w[0]) == 0);
	CHECK(shared_acquire(&ids, &w[1]) == 1);
	CHECK(shared_stats(&ids).used == 2);
	shared_release(&ids, &w[0]);
	shared_release(&ids, &w[1]);
	near_shared_ids_close(&ids);
	near_region_close(&r);
}

static void a_full_disk(void **state)
{
	IN_CHILD() {
		if (chdir(directory) || mkdir("disk", 0700) || unshare(CLONE_NEWNS) ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("none", "disk", "tmpfs", 0, "size=24m"))
			_exit(77);
		lack_room();
		umount("disk");
	}
}

int main(void)
{
	struct unit_fixtures f = {set_up, make_region, remove_region, tear_down};

	return UNIT_TESTS_IN(f, options_have_maxima, the_default_numbers, labels_tell_spaces_apart,
			     what_the_region_refuses, an_object_of_another_kind,
			     another_version_or_damaged, a_damaged_directory,
			     damaged_hints_do_no_harm, reserved_words_are_0,
			     what_is_no_space_is_no_object_of_one, a_snapshot_has_no_workers,
			     misuse_stops_the_program, an_id_is_enough, a_full_disk);
}
