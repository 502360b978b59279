/* SPDX-License-Identifier: MIT */
/* The slot of a sequence: its index, its address, and the slots that it must not use. */
#include "sequences.h"

#if NEAR__HAS_SEQ

/* Opens the slot that sequences use now, by hand. */
static void open_own_slot(void)
{
	char *arena = (char *)((uintptr_t)slotted & ~NEAR__ARENA_MASK);
	size_t stride = (size_t)1 << NEAR_STRIDE_SHIFT;

	if (near__thread_live()) {
		assert_true(near_slot_open(slotted));
		return;
	}
	assert_false(near_slot_open(slotted));
	arena += near__index_now() * stride;
	assert_int_equal(mprotect(arena, stride, PROT_READ | PROT_WRITE), 0);
	*(uint32_t *)arena = NEAR__OPEN;
}

#define SLOT(name, operation)                                                                      \
	static bool name(uint64_t *out, uint64_t *p)                                               \
	{                                                                                          \
		SEQUENCE(operation NEAR_COMMIT8(v, out, 0), out, NEAR_OBJECT(p));                  \
	}
SLOT(slot_index, NEAR_INDEX(v))
SLOT(slot_index_cpu, NEAR_INDEX_CPU(v))
SLOT(slot_index_cid, NEAR_INDEX_CID(v))
SLOT(slot_checked, NEAR_SLOT(v, p))
SLOT(slot_unchecked, NEAR_SLOT_UNCHECKED(v, p))
SLOT(slot_offset, NEAR_OFFSET(v, p))

static void the_index_is_the_slot(void **state)
{
	uint64_t out, before;

	assert_true(unit_pin(0, NULL));
	do {
		before = near__index_now();
		UNTIL_DONE(slot_index(&out, slotted));
	} while (before != near__index_now());
	assert_int_equal(out, before);
	UNTIL_DONE(slot_index_cpu(&out, slotted));
	assert_int_equal(out, near__self.area->cpu_id);
	open_own_slot();
	UNTIL_DONE(slot_offset(&out, slotted));
	assert_int_equal(out, (uint64_t)near__index_now() << NEAR_STRIDE_SHIFT);
	UNTIL_DONE(slot_checked(&out, slotted));
	assert_ptr_equal((void *)(uintptr_t)out, near_percpu_at(slotted, near__index_now()));
	UNTIL_DONE(slot_unchecked(&out, slotted));
	assert_ptr_equal((void *)(uintptr_t)out, near_percpu_at(slotted, near__index_now()));
	unit_unpin();
}

/* With (node, cid) and with cpus the index is made in another way than with cids. */
static void the_index_may_be_made_of_node_and_cid(void **state)
{
	struct near__thread self = near__self;
	struct near__area area = {.cpu_id = 5, .node_id = 3, .mm_cid = 7};
	uint64_t out;

	near__self.area = &area;
	near__self.index_mode = 100;
	UNTIL_DONE(slot_index(&out, slotted));
	assert_int_equal(near__index_now(), 307);
	near__self.index_mode = 1;
	assert_int_equal(out, 307);
	UNTIL_DONE(slot_index(&out, slotted));
	near__self.index_mode = 0;
	assert_int_equal(out, 5);
	UNTIL_DONE(slot_index(&out, slotted));
	assert_int_equal(out, 7);
	/* The others are what they are, however slots are made. */
	for (near__self.index_mode = 0; near__self.index_mode < 3; near__self.index_mode++) {
		UNTIL_DONE(slot_index_cid(&out, slotted));
		assert_int_equal(out, 7);
		UNTIL_DONE(slot_index_cpu(&out, slotted));
		assert_int_equal(out, 5);
	}
	near__self = self;
}

static void a_slot_that_is_not_open_turns_sequences_away(void **state)
{
	static const uint32_t states[] = {NEAR__UNOPENED,      NEAR__CLOSED, 3,
					  NEAR__OPEN_FALLBACK, 257,          UINT32_MAX};
	uint64_t out = 9;
	uint32_t *word;

	assert_true(unit_pin(0, NULL));
	open_own_slot();
	word = near_percpu_at((void *)((uintptr_t)slotted & ~NEAR__ARENA_MASK), near__index_now());
	for (unsigned i = 0; i < LENGTH(states); i++) {
		*word = states[i];
		for (int k = 0; k < 100; k++) {
			assert_false(slot_checked(&out, slotted));
			assert_false(slot_offset(&out, slotted));
		}
		assert_int_equal(out, 9);
	}
	*word = NEAR__OPEN;
	UNTIL_DONE(slot_checked(&out, slotted));
	unit_unpin();
}

static void *find_no_slot(void *arg)
{
	uint64_t out = 9;

	CHECK(near__self.state == NEAR__NEW);
	for (int i = 0; i < 100; i++)
		CHECK(!slot_checked(&out, arg));
	CHECK(near__self.state == NEAR__NEW);
	CHECK(slot_index(&out, arg) || slot_index(&out, arg) || slot_index(&out, arg));
	CHECK(out == near_slots());
	CHECK(slot_index_cpu(&out, arg) || slot_index_cpu(&out, arg) || slot_index_cpu(&out, arg));
	CHECK(out == near_cpus());
	CHECK(slot_index_cid(&out, arg) || slot_index_cid(&out, arg) || slot_index_cid(&out, arg));
	CHECK(out == near_slots());
	return NULL;
}

static void a_new_thread_has_the_slot_that_is_never_open(void **state)
{
	unit_join(unit_start(find_no_slot, slotted));
}

int main(void)
{
	return UNIT_GROUP(set_up, NULL, NULL, the_index_is_the_slot,
			  the_index_may_be_made_of_node_and_cid,
			  a_slot_that_is_not_open_turns_sequences_away,
			  a_new_thread_has_the_slot_that_is_never_open);
}

#else

int main(void)
{
	puts("this CPU has no sequences");
	return 77;
}

#endif
