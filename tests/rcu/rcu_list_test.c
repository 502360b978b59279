/* SPDX-License-Identifier: MIT */
/* near_rcu_list: each change at each place of a list, and a reader that walks at the same time. */
#include <nearcpu/rcu_list.h>

#include "unit.h"

static struct near_rcu_list list;
static struct near_rcu_list_node nodes[6];

static int clear(void **state)
{
	memset(&list, 0, sizeof(list));
	memset(nodes, 0, sizeof(nodes));
	return 0;
}

/* Compares with the numbers of nodes, forward and backward. */
static void expect(const char *numbers)
{
	const struct near_rcu_list_node *n = near_rcu_list_first(&list), *last = NULL;
	size_t count = strlen(numbers);

	assert_int_equal(near_rcu_list_count(&list), count);
	for (; *numbers; numbers++) {
		assert_ptr_equal(n, &nodes[*numbers - '0']);
		assert_ptr_equal(n->prev, last);
		last = n;
		n = near_rcu_list_next(n);
	}
	assert_null(n);
	assert_ptr_equal(list.last, last);
}

static void inserts(void **state)
{
	expect("");
	near_rcu_list_insert_last(&list, &nodes[2]);
	expect("2");
	near_rcu_list_insert_first(&list, &nodes[0]);
	near_rcu_list_insert_last(&list, &nodes[4]);
	expect("024");
	near_rcu_list_insert_after(&list, &nodes[0], &nodes[1]);
	near_rcu_list_insert_before(&list, &nodes[4], &nodes[3]);
	expect("01234");
	near_rcu_list_insert_after(&list, &nodes[4], &nodes[5]);
	expect("012345");
}

static void fill(void)
{
	for (int i = 0; i < 5; i++)
		near_rcu_list_insert_last(&list, &nodes[i]);
}

static void inserts_at_the_ends(void **state)
{
	near_rcu_list_insert_after(&list, NULL, &nodes[1]);
	near_rcu_list_insert_before(&list, NULL, &nodes[2]);
	near_rcu_list_insert_before(&list, &nodes[1], &nodes[0]);
	expect("012");
}

static void removes(void **state)
{
	fill();
	near_rcu_list_remove(&list, &nodes[2]);
	expect("0134");
	near_rcu_list_remove(&list, &nodes[0]);
	expect("134");
	near_rcu_list_remove(&list, &nodes[4]);
	expect("13");
	near_rcu_list_remove(&list, &nodes[1]);
	near_rcu_list_remove(&list, &nodes[3]);
	expect("");
	near_rcu_list_insert_last(&list, &nodes[3]);
	expect("3");
}

static void replaces(void **state)
{
	near_rcu_list_insert_last(&list, &nodes[0]);
	near_rcu_list_replace(&list, &nodes[0], &nodes[1]);
	expect("1");
	near_rcu_list_insert_last(&list, &nodes[2]);
	near_rcu_list_insert_last(&list, &nodes[3]);
	near_rcu_list_replace(&list, &nodes[2], &nodes[0]);
	expect("103");
	near_rcu_list_replace(&list, &nodes[1], &nodes[2]);
	near_rcu_list_replace(&list, &nodes[3], &nodes[4]);
	expect("204");
	near_rcu_list_replace(&list, &nodes[0], &nodes[0]);
	near_rcu_list_remove(&list, &nodes[0]);
	expect("24");
}

static void a_reader_continues_from_a_removed_node(void **state)
{
	fill();
	near_rcu_list_remove(&list, &nodes[2]);
	assert_ptr_equal(near_rcu_list_next(&nodes[2]), &nodes[3]);
	near_rcu_list_replace(&list, &nodes[3], &nodes[5]);
	assert_ptr_equal(near_rcu_list_next(&nodes[3]), &nodes[4]);
	assert_ptr_equal(near_rcu_list_next(&nodes[1]), &nodes[5]);
}

static void remove_again(void *arg)
{
	near_rcu_list_remove(&list, &nodes[2]);
}

static void replace_again(void *arg)
{
	near_rcu_list_replace(&list, &nodes[2], &nodes[5]);
}

static void misuse_stops_the_program(void **state)
{
	fill();
	near_rcu_list_remove(&list, &nodes[2]);
	unit_dies(remove_again, NULL, "near_rcu_list: the node was removed or replaced before");
	unit_dies(replace_again, NULL, "near_rcu_list: the node was removed or replaced before");
}

/* ---- a reader, and an updater that replaces and frees ---- */

struct item {
	struct near_rcu_list_node node; /* the first member */
	uint64_t number, copy;          /* equal, until it is freed */
	struct near_rcu_head rcu;
};

static struct near_rcu rcu;
static bool ends;

static void free_item(struct near_rcu_head *head)
{
	struct item *i = (struct item *)((char *)head - offsetof(struct item, rcu));

	i->number = i->copy + 1;
	free(i);
}

static struct item *make_item(uint64_t number)
{
	struct item *i = malloc(sizeof(*i));

	CHECK(i);
	i->number = i->copy = number;
	return i;
}

/* Items of even numbers are always there, in order. */
static void *walk(void *arg)
{
	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
		near_rcu_token t = near_rcu_enter(&rcu);
		uint64_t even = 0;

		for (struct near_rcu_list_node *n = near_rcu_list_first(&list); n;
		     n = near_rcu_list_next(n)) {
			const struct item *i = (const struct item *)n;

			CHECK(i->number == i->copy);
			if (i->number % 2 == 0)
				CHECK(i->number == even++ * 2);
		}
		CHECK(even == 8);
		near_rcu_exit(&rcu, t);
	}
	return NULL;
}

static void update(struct near_rcu_list_node *at)
{
	struct item *old = (struct item *)at, *odd = make_item(old->number + 1);
	struct item *new = make_item(old->number);

	near_rcu_list_insert_after(&list, at, &odd->node);
	near_rcu_list_replace(&list, at, &new->node);
	near_rcu_call(&rcu, &old->rcu, free_item, sizeof(*old));
	near_rcu_list_remove(&list, &odd->node);
	near_rcu_call(&rcu, &odd->rcu, free_item, sizeof(*odd));
}

static void readers_find_what_stays(void **state)
{
	struct near_rcu_list_node *n, *next;
	pthread_t reader;

	assert_int_equal(near_rcu_init(&rcu, NULL), 0);
	for (uint64_t i = 0; i < 8; i++)
		near_rcu_list_insert_last(&list, &make_item(2 * i)->node);
	ends = false;
	reader = unit_start(walk, NULL);
	for (unsigned round = unit_scale(2000); round; round--)
		for (n = list.first; n; n = next) {
			next = n->next;
			update(n);
		}
	__atomic_store_n(&ends, true, __ATOMIC_RELAXED);
	unit_join(reader);
	near_rcu_destroy(&rcu);
	assert_int_equal(near_rcu_list_count(&list), 8);
	for (n = list.first; n; n = next) {
		next = n->next;
		free(n);
	}
}

UNIT_MAIN_EACH(clear, NULL, inserts, inserts_at_the_ends, removes, replaces,
	       a_reader_continues_from_a_removed_node, misuse_stops_the_program,
	       readers_find_what_stays)
