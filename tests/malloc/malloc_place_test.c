/* SPDX-License-Identifier: MIT */
/* The address of the heap: neither leaked random numbers nor other addresses reveal it. */
#include "unit.h"

#include "filter.h"
#include "malloc/base/os.h"

#define SPACE ((size_t)1 << 30)
#define CHILDREN 8

static uint64_t *seen; /* by each child: its answer; shared */

/* The hash of 0, 1, ... 7 with the key 0, 1, ... 15, which its authors published. */
static void hash_is_siphash(void **state)
{
	unsigned char bytes[16];
	uint64_t key[2], word;

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)i;
	memcpy(key, bytes, sizeof(key));
	memcpy(&word, bytes, sizeof(word));
	assert_true(near__siphash(key, &word, 1) == UINT64_C(0x93f5f5799a932462));
	assert_true(near__siphash(key, NULL, 0) == UINT64_C(0x726fdb47dd0e0e31));
}

static void numbers_differ(void **state)
{
	errno = UNIT_ERRNO;
	for (int i = 0; i < 100; i++) {
		assert_true(near__os_random() != near__os_random());
		assert_true(near__hashed_random() != near__hashed_random());
	}
	assert_int_equal(errno, UNIT_ERRNO);
}

struct child {
	unsigned number;
	int error; /* of getrandom; 0: it works */
};

static void find_space(void *arg)
{
	const struct child *c = arg;
	if (c->error && !filter_out(SYS_getrandom, c->error))
		_exit(77);
	seen[c->number] = (uintptr_t)near__os_find_gap(SPACE);
}

/* Children of fork have the same kernel's bytes, the same stack and the same space left. So if
 * all find the same place, it depends on nothing else. Each alone is at a place of 2^30 or more. */
static void places_differ(int error)
{
	bool differ = false;

	for (unsigned i = 0; i < CHILDREN; i++) {
		struct child c = {i, error};

		unit_in_child(find_space, &c);
		differ |= seen[i] != seen[0];
		if (!seen[i]) {
			print_message("there is no gap here\n");
			skip();
		}
	}
	assert_true(differ);
}

UNIT_TEST(place_is_unknown, places_differ(0))

static void place_is_unknown_without_getrandom(void **state)
{
	places_differ(ENOSYS);
	places_differ(EPERM);
	places_differ(EAGAIN);
}

/* Two heaps of a process: neither grows into the other's part. */
static void parts_do_not_overlap(void **state)
{
	for (unsigned i = 0; i < 20; i++) {
		uintptr_t high = (uintptr_t)near__os_find_gap(SPACE << i / 2);
		uintptr_t low = (uintptr_t)near__os_find_lower_gap(SPACE << i / 2);

		assert_true(!high || !low || low + (SPACE << i / 2) <= high);
	}
}

int main(void)
{
	seen = unit_shared(CHILDREN * sizeof(*seen));
	return UNIT_TESTS(hash_is_siphash, numbers_differ, place_is_unknown,
			  place_is_unknown_without_getrandom, parts_do_not_overlap);
}
