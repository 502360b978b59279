/* SPDX-License-Identifier: MIT */
/* Proves a program's counting: the kernel aborts each sequence at each instruction. */
#include <errno.h>
#include <nearcpu/counter.h>
#include <nearcpu/stack.h>
#include <nearcpu/torture.h>
#include <stdio.h>
#include <stdlib.h>

static struct near_counter hits;
static struct near_stack stack;
static struct near_stack_node nodes[2];
static int64_t counted;

static void setup(void *arg)
{
	(void)arg;
	if (near_counter_init(&hits) || near_stack_init(&stack))
		abort();
	near_stack_push(&stack, &nodes[0]);
	near_stack_push(&stack, &nodes[1]);
	counted = 0;
}

static void run(void *arg)
{
	struct near_stack_node *n = near_stack_pop_all(&stack);

	(void)arg;
	for (; n; n = n->next, counted++)
		near_counter_add(&hits, 1);
}

static const char *check(void *arg)
{
	int64_t total = near_counter_read(&hits), left = 0;

	(void)arg;
	for (struct near_stack_node *n = near_stack_drain(&stack); n; n = n->next)
		left++;
	near_counter_destroy(&hits);
	near_stack_destroy(&stack);
	return total == counted && counted + left == 2 ? NULL : "miscounted";
}

int main(void)
{
	static const struct near_torture_rival rivals[] = {{"the same", run, NULL, 0}};
	static struct near_torture t;
	struct near_torture_result result;
	int failures;

	t.setup = setup;
	t.run = run;
	t.check = check;
	t.rivals = rivals;
	t.n_rivals = 1;
	failures = near_torture(&t, sizeof(t), &result, sizeof(result));
	printf("%u sequences, %s\n", result.sequences, failures ? result.text : "proven");
	if (failures == -ENOSYS)
		return 0;
	return failures != 0 || result.sequences < 2;
}
