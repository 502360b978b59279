/* SPDX-License-Identifier: MIT */
/* near_stack among threads: no node is lost, none is popped twice, each is seen as it was pushed;
 * then signal handlers and forked children. */
#include <nearcpu/stack.h>

#include "live.h"
#include "percpu/percpu.h"
#include "team.h"

struct item {
	struct near_stack_node link;
	unsigned held; /* 1 while a thread has it: only atomically, to catch two */
	uint64_t a, b; /* plain: b is always a + 1 */
};

static struct item *item_of(struct near_stack_node *node)
{
	return (struct item *)((char *)node - offsetof(struct item, link));
}

static struct near_stack stack; /* a new one in each test */

static int make_stack(void **state)
{
	return near_stack_init(&stack);
}

static int destroy_stack(void **state)
{
	near_stack_destroy(&stack);
	return 0;
}

static void give(struct item *item)
{
	item->a += 3;
	item->b = item->a + 1;
	CHECK(__atomic_exchange_n(&item->held, 0, __ATOMIC_RELAXED) == 1);
	near_stack_push(&stack, &item->link);
}

static void took(struct item *item)
{
	CHECK(__atomic_exchange_n(&item->held, 1, __ATOMIC_RELAXED) == 0);
	CHECK(item->b == item->a + 1);
}

/* An item that is not on the stack yet. */
static void give_first(struct item *item)
{
	item->held = 1;
	give(item);
}

static unsigned give_list(struct near_stack_node *list)
{
	unsigned n = 0;

	for (struct near_stack_node *next; list; list = next, n++) {
		next = list->next;
		took(item_of(list));
		give(item_of(list));
	}
	return n;
}

/* ---- threads ---- */

#define HELD 8

static void pop_and_push(unsigned number, unsigned rounds)
{
	uint64_t seed = number;
	struct item *held[HELD];
	unsigned n = 0;

	for (unsigned i = 0; i < rounds; i++) {
		struct near_stack_node *node = NULL;

		if (n < HELD && unit_random(&seed) % 2) {
			node = unit_random(&seed) % 64 ? near_stack_pop(&stack)
						       : near_stack_steal(&stack);
			if (node) {
				took(item_of(node));
				held[n++] = item_of(node);
			}
		} else if (n) {
			give(held[--n]);
		}
		if (unit_random(&seed) % 512 == 0)
			sched_yield();
	}
	while (n)
		give(held[--n]);
}

/* Chains of three, pushed in one step. */
static void push_chains(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		struct near_stack_node *chain[3];
		unsigned n = 0;

		while (n < LENGTH(chain) && (chain[n] = near_stack_pop(&stack)))
			took(item_of(chain[n++]));
		for (unsigned k = 0; k < n; k++) {
			chain[k]->next = k + 1 < n ? chain[k + 1] : NULL;
			CHECK(__atomic_exchange_n(&item_of(chain[k])->held, 0, __ATOMIC_RELAXED));
		}
		if (n)
			near_stack_push_chain(&stack, chain[0], chain[n - 1]);
	}
}

/* Three of them use the fallback lists, since they are not live. */
static void work(unsigned number)
{
	unsigned rounds = unit_scale(30000);

	if (number >= 8)
		return push_chains(rounds);
	if (number >= 5)
		play_dead();
	pop_and_push(number, rounds);
}

static void take_lists(unsigned number)
{
	while (team_continues()) {
		give_list(number % 2 ? near_stack_drain(&stack) : near_stack_pop_all(&stack));
		sched_yield();
	}
}

static unsigned drained(void)
{
	unsigned n = 0;

	for (struct near_stack_node *node = near_stack_drain(&stack); node; node = node->next, n++)
		took(item_of(node));
	return n;
}

static void run_with(unsigned items)
{
	struct item *item = calloc(items, sizeof(*item));
	struct team takers;

	assert_non_null(item);
	for (unsigned i = 0; i < items; i++)
		give_first(&item[i]);
	team_start(&takers, 2, take_lists);
	team_run(10, work);
	team_stop(&takers);
	assert_int_equal(drained(), items);
	assert_null(near_stack_drain(&stack));
	free(item);
}

static void no_node_is_lost_or_popped_twice(void **state)
{
	run_with(1);
	run_with(7);
	run_with(300);
}

/* A steal that finds nothing has checked every slot: with one thread at work it finds what there
 * is. */
static void *push_one(void *node)
{
	near_stack_push(&stack, node);
	return NULL;
}

static void a_steal_finds_what_other_threads_left(void **state)
{
	struct near_stack_node node;
	unsigned rounds = unit_scale(2000);

	for (unsigned i = 0; i < rounds; i++) {
		unit_join(unit_start(push_one, &node));
		assert_ptr_equal(near_stack_steal(&stack), &node);
		assert_null(near_stack_steal(&stack));
	}
}

/* The library never reads a node that was popped: here it would be a fault, or of
 * AddressSanitizer. */
static void popped_nodes_may_go(void **state)
{
	for (unsigned round = 0; round < 100; round++) {
		for (unsigned cpu = 0; unit_pin(cpu, NULL); cpu++)
			for (unsigned i = 0; i < 10; i++)
				near_stack_push(&stack, malloc(sizeof(struct near_stack_node)));
		for (unsigned i = 0; i < 10; i++)
			free(near_stack_steal(&stack));
		for (struct near_stack_node *n = near_stack_drain(&stack), *next; n; n = next) {
			next = n->next;
			free(n);
		}
	}
	unit_unpin();
}

/* ---- signal handlers ---- */

static struct item handled[4096];
static unsigned handled_n;

/* ThreadSanitizer, which defers signals, may call it again before it has returned. */
static void push_in_handler(int signal)
{
	unsigned n = __atomic_load_n(&handled_n, __ATOMIC_RELAXED);

	do
		if (n == LENGTH(handled))
			return;
	while (!__atomic_compare_exchange_n(&handled_n, &n, n + 1, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
	give_first(&handled[n]);
}

static void handlers_may_push(void **state)
{
	static struct item items[50];
	unsigned rounds = unit_scale(300000);
	struct near_stack_node *node;

	for (unsigned i = 0; i < LENGTH(items); i++)
		give_first(&items[i]);
	unit_timer(100, push_in_handler);
	for (unsigned i = 0; i < rounds; i++) {
		node = i % 1000 ? near_stack_pop(&stack) : near_stack_steal(&stack);
		if (node) {
			took(item_of(node));
			give(item_of(node));
		}
		if (i % 5000 == 0)
			give_list(near_stack_drain(&stack));
	}
	raise(SIGALRM);
	unit_timer(0, NULL);
	assert_true(handled_n > 0);
	assert_int_equal(drained(), LENGTH(items) + handled_n);
}

/* ---- fork ---- */

static void drain_in_child(void *arg)
{
	unsigned items = *(unsigned *)arg, n = 0;
	struct near_stack_node *node, own;

	/* Those that a thread of the parent held are gone; no list is damaged, no lock held. */
	for (node = near_stack_drain(&stack); node; node = node->next)
		CHECK(++n <= items);
	CHECK(!near_stack_pop(&stack));
	CHECK(!near_stack_steal(&stack));
	near_stack_push(&stack, &own);
	CHECK(near_stack_pop(&stack) == &own);
}

/* One takes lists. */
static void work_until_stop(unsigned number)
{
	if (number == 1)
		return take_lists(number);
	while (team_continues())
		pop_and_push(number, 100);
}

static void children_have_lists_of_their_own(void **state)
{
	static struct item items[40];
	unsigned n = LENGTH(items), rounds = unit_scale(60);
	struct team team;

	if (UNIT_THREAD_SANITIZER)
		skip(); /* it does not like children of many threads */
	for (unsigned i = 0; i < n; i++)
		give_first(&items[i]);
	team_start(&team, 5, work_until_stop);
	for (unsigned i = 0; i < rounds; i++)
		unit_in_child(drain_in_child, &n);
	team_stop(&team);
	assert_int_equal(drained(), n);
}

UNIT_MAIN_EACH(make_stack, destroy_stack, no_node_is_lost_or_popped_twice,
	       a_steal_finds_what_other_threads_left, popped_nodes_may_go, handlers_may_push,
	       children_have_lists_of_their_own)
