/* SPDX-License-Identifier: MIT */
/* The simulator's policies under random histories, its sets and heaps, and its comparison with
 * records that are made here. */
#include "sim/kernel.h"
#include "sim/result.h"
#include "unit.h"

#define PROCESSES 3
#define STEPS 3000

static unsigned below(struct sim *s, unsigned limit)
{
	return (unsigned)(sim_random(s) >> 33) % limit;
}

/* ---- sets and heaps ---- */

static void test_bits(void **state)
{
	struct bits b = {0};
	bool plain[SIM_CPUS] = {false};
	struct sim s = {.random = 7};

	for (unsigned i = 0; i < 20000; i++) {
		unsigned n = below(&s, i % 3 ? SIM_CPUS : 200), at = below(&s, SIM_CPUS), next = at;
		unsigned zero = 0;

		assert_int_equal(i % 5 < 3 ? bits_set(&b, n) : bits_clear(&b, n), plain[n]);
		plain[n] = i % 5 < 3;
		while (next < SIM_CPUS && !plain[next])
			next++;
		while (zero < SIM_CPUS && plain[zero])
			zero++;
		assert_int_equal(bits_next(&b, at, SIM_CPUS), next);
		assert_int_equal(bits_first_zero(&b, SIM_CPUS), zero);
	}
	for (unsigned i = 0; i < SIM_CPUS; i++)
		bits_set(&b, i);
	assert_int_equal(b.count, SIM_CPUS);
	assert_int_equal(bits_first_zero(&b, SIM_CPUS), SIM_CPUS);
	assert_int_equal(bits_around(&b, 10, 5000 % SIM_CPUS, 20), 10);
}

static void test_heap(void **state)
{
	static struct heap_node nodes[500];
	struct heap h = {0};
	struct sim s = {.random = 9};
	uint64_t last = 0;

	for (unsigned i = 0; i < LENGTH(nodes); i++) {
		nodes[i].number = i;
		heap_push(&h, &nodes[i], below(&s, 100));
	}
	for (unsigned i = 0; i < LENGTH(nodes); i += 3)
		heap_remove(&h, &nodes[i]);
	assert_int_equal(h.count, LENGTH(nodes) - (LENGTH(nodes) + 2) / 3);
	while (h.count) {
		struct heap_node *first = heap_first(&h);
		uint64_t key = first->key * 1000 + first->number;

		assert_true(key >= last);
		assert_true(first->number % 3);
		last = key;
		heap_remove(&h, first);
	}
	heap_free(&h);
}

static void test_events(void **state)
{
	static struct events e;
	struct sim s = {.random = 11};

	for (unsigned cpus = 1; cpus <= 100; cpus += 33) {
		events_init(&e, cpus);
		assert_true(e.time[events_first(&e)] == SIM_NEVER);
		for (unsigned i = 0; i < 3000; i++) {
			unsigned least = 0;

			events_set(&e, below(&s, cpus), i % 3 ? below(&s, 50) : SIM_NEVER);
			for (unsigned cpu = 1; cpu < cpus; cpu++)
				if (e.time[cpu] < e.time[least])
					least = cpu;
			assert_int_equal(e.time[events_first(&e)], e.time[least]);
			assert_true(e.time[least] == SIM_NEVER || events_first(&e) == least);
		}
	}
}

/* ---- random histories ---- */

/* No id twice, each below the limit and taken, but for the constant of 2022. */
static void check_ids(struct sim *s)
{
	struct bits seen[PROCESSES] = {{0}};

	assert_int_equal(s->counts.violations, 0);
	for (unsigned i = 0; i < s->cpu_count; i++) {
		struct sim_task *t = s->cpus[i].curr;

		if (!sim_is_user(t))
			continue;
		assert_in_range(t->id, 0, s->cpu_count - 1);
		assert_false(bits_set(&seen[t->mm->number], (unsigned)t->id));
		assert_true(bits_test(&t->mm->ids, (unsigned)t->id) ||
			    (strncmp(s->policy->name, "2022", 4) == 0 && t->mm->users == 1));
	}
	for (unsigned i = 0; i < s->mm_count; i++)
		assert_in_range(s->mms[i]->ids.count, 0, s->cpu_count);
}

static void run_on(struct sim *s, struct sim_task *t, unsigned cpu)
{
	struct sim_task *prev = s->cpus[cpu].curr;

	if (prev == t)
		return;
	if (t->mm && t->cpu != cpu) {
		if (t->last_id == SIM_NO_ID)
			t->cpu = cpu;
		else
			sim_migrate(s, t, cpu);
	}
	if (prev->state == SIM_RUNNING)
		prev->state = SIM_BLOCKED;
	t->state = SIM_RUNNING;
	sim_switch(s, &s->cpus[cpu], t);
}

static void end_on(struct sim *s, unsigned cpu)
{
	sim_exit(s, s->cpus[cpu].curr);
	run_on(s, &s->cpus[cpu].idle, cpu);
}

static void random_step(struct sim *s)
{
	unsigned cpu = below(s, s->cpu_count);
	struct sim_task *curr = s->cpus[cpu].curr, *t = s->tasks[below(s, s->task_count)];
	bool runs = sim_is_user(curr);

	s->now += sim_random(s) % 4000000;
	switch (below(s, 12)) {
	case 0:
	case 1:
		if (runs && curr->mm->users < 3 * s->cpu_count + 3)
			sim_fork(s, curr, curr->mm);
		return;
	case 2:
		if (runs && curr->mm->users > 1)
			end_on(s, cpu);
		return;
	case 3:
		if (runs && s->policy->tick)
			s->policy->tick(s, &s->cpus[cpu]);
		return;
	case 4:
		run_on(s, &s->cpus[cpu].idle, cpu);
		return;
	case 5:
		if (t->state == SIM_BLOCKED && t->last_id != SIM_NO_ID && t->cpu != cpu)
			sim_migrate(s, t, cpu);
		return;
	default:
		if (t->state == SIM_BLOCKED)
			run_on(s, t, cpu);
	}
}

static void begin(struct sim *s, const struct sim_policy *policy, unsigned cpus, unsigned nodes,
		  uint64_t seed)
{
	struct bits set = {0};
	struct sim_params params = {.policy = policy,
				    .load = sim_loads,
				    .cpus = cpus,
				    .nodes = nodes,
				    .cpuset = &set,
				    .seed = seed};

	for (unsigned i = 0; i < cpus; i++)
		bits_set(&set, i);
	sim_begin(s, &params);
}

static void test_histories(void **state)
{
	static const unsigned machines[][2] = {{1, 1}, {2, 1}, {4, 2}, {9, 3}, {70, 4}};
	static struct sim s;
	struct sim_policy policy;

	for (unsigned i = 0; sim_policy(i, &policy); i++)
		for (unsigned m = 0; m < LENGTH(machines) * 3; m++) {
			const unsigned *machine = machines[m % LENGTH(machines)];

			begin(&s, &policy, machine[0], machine[1], m + 1);
			for (unsigned p = 0; p < PROCESSES; p++)
				assert_non_null(sim_fork(&s, NULL, sim_mm_new(&s)));
			for (unsigned step = 0; step < STEPS; step++) {
				random_step(&s);
				check_ids(&s);
			}
			sim_end(&s);
		}
}

/* After a peak of threads, few have low ids again: within two periods of the scan, or when they are
 * scheduled. */
static void shrink(const struct sim_policy *policy)
{
	static struct sim s;
	struct sim_mm *mm;
	struct sim_task *t;

	begin(&s, policy, 16, 1, 1);
	mm = sim_mm_new(&s);
	t = sim_fork(&s, NULL, mm);
	run_on(&s, t, 0);
	for (unsigned i = 0; i < 40; i++)
		sim_fork(&s, t, mm);
	for (unsigned i = 0; i < s.task_count; i++)
		run_on(&s, s.tasks[i], i % 16);
	assert_true(mm->ids.count >= 16);
	for (unsigned i = 0; i + 2 < s.task_count; i++) {
		if (s.tasks[i]->state != SIM_RUNNING)
			run_on(&s, s.tasks[i], i % 16);
		end_on(&s, s.tasks[i]->cpu);
	}
	for (unsigned i = 0; i < 80; i++) {
		unsigned cpu = 14 + i % 2;

		s.now += 4000000;
		run_on(&s, s.tasks[s.task_count - 2 + i % 2], cpu);
		if (s.policy->tick)
			s.policy->tick(&s, &s.cpus[cpu]);
		run_on(&s, &s.cpus[cpu].idle, cpu);
		check_ids(&s);
	}
	assert_int_equal(mm->users, 2);
	assert_in_range(mm->ids.count, 1, 2);
	assert_int_equal(bits_next(&mm->ids, 2, 16), 16);
	sim_end(&s);
}

static void test_shrinks(void **state)
{
	static const char *const names[] = {"6.4", "6.13", "6.19"};
	struct sim_policy policy;

	for (unsigned i = 0; i < LENGTH(names); i++) {
		assert_true(sim_find_policy(names[i], &policy));
		shrink(&policy);
	}
}

/* ---- runs ---- */

static struct sim_result run(const char *load, const char *policy_name, uint64_t seed,
			     uint64_t switches)
{
	const struct sim_load *l = sim_loads;
	struct bits set = {0};
	struct sim_policy policy;
	struct sim_result result;
	struct sim_params params = {.policy = &policy,
				    .cpus = 12,
				    .nodes = 2,
				    .groups = 10,
				    .threads = 24,
				    .cpuset = &set,
				    .switches = switches,
				    .seed = seed};

	while (strcmp(l->name, load) != 0)
		l++;
	params.load = l;
	assert_true(sim_find_policy(policy_name, &policy));
	for (unsigned i = 0; i < 12; i++)
		bits_set(&set, i);
	sim_result(&params, &result);
	assert_int_equal(result.counts.violations, 0);
	return result;
}

static void test_seeds(void **state)
{
	struct sim_policy policy;

	for (const struct sim_load *l = sim_loads; l->name; l++)
		for (unsigned i = 0; sim_policy(i, &policy); i++) {
			struct sim_result a = run(l->name, policy.name, 5, 2000);
			struct sim_result b = run(l->name, policy.name, 5, 2000);
			struct sim_result c = run(l->name, policy.name, 6, 2000);

			assert_memory_equal(&a.counts, &b.counts, sizeof(a.counts));
			assert_true(a.ms == b.ms && a.ids_mean == b.ids_mean);
			assert_true(a.ms != c.ms);
		}
}

/* The source's table, roughly. */
static void test_profile(void **state)
{
	struct sim_result threads = run("threads", "2022", 1, 20000),
			  two = run("two", "2022", 1, 20000);
	struct sim_result all = run("threads", "2022-all", 1, 20000);

	assert_true(run("processes", "2022", 1, 20000).row[ROW_SINGLE] > 99.9);
	assert_true(run("pipe", "2022", 1, 20000).row[ROW_SINGLE] > 99.9);
	assert_true(threads.row[ROW_TRANSFER] > 90 && threads.row[ROW_HIT] < 10);
	assert_true(two.row[ROW_HIT] > threads.row[ROW_HIT]);
	assert_true(threads.atomics < .1 && all.atomics > 1.5);
	assert_int_equal(threads.copies[COPY_CPU], 12);
	assert_int_equal(threads.copies[COPY_THREAD], 401);
	/* An id stays on its node. */
	assert_true(threads.copies[COPY_ID] == threads.copies[COPY_NODE_ID] &&
		    threads.node_changes == 0);
}

/* ---- comparison ---- */

static void replay(struct kernel_record *records, size_t count, unsigned cid,
		   struct kernel_result *out, int expected)
{
	struct kernel_trace trace = {.records = records, .count = count, .cpus = 2};
	struct kernel_samples *samples;
	struct sim_policy policy;

	assert_true(sim_find_policy("6.13", &policy));
	assert_int_equal(kernel_samples_new(&samples, 2), 0);
	samples->threads = 2;
	for (unsigned i = 0; i < 2; i++) {
		samples->thread[i].tid = 100 + (int)i;
		samples->thread[i].count = 1;
	}
	samples->thread[0].at[0] = (struct kernel_sample){1500, 0};
	samples->thread[1].at[0] = (struct kernel_sample){4500, cid};
	*out = (struct kernel_result){.policy = NULL};
	assert_int_equal(kernel_replay(&trace, samples, 100, &policy, out), expected);
	kernel_samples_free(samples);
}

static void test_replay(void **state)
{
	struct kernel_record records[] = {
		{.time = 1000, .event = KERNEL_FORK, .value = {1, 100}},
		{.time = 1100, .event = KERNEL_SWITCH, .cpu = 0, .value = {0, 100}},
		{.time = 2000, .event = KERNEL_FORK, .cpu = 0, .value = {100, 101}},
		{.time = 2500, .event = KERNEL_SWITCH, .cpu = 1, .value = {0, 7}},
		{.time = 4000, .event = KERNEL_SWITCH, .cpu = 1, .value = {7, 101}},
		{.time = 5000, .event = KERNEL_SWITCH, .cpu = 1, .value = {101, 0}},
		{.time = 5500, .event = KERNEL_EXIT, .cpu = 0, .value = {100}},
		{.time = 6000, .event = KERNEL_SWITCH, .cpu = 0, .value = {100, 0}},
	};
	struct kernel_result r;

	replay(records, LENGTH(records), 1, &r, 0);
	assert_int_equal(r.switches, 2);
	assert_int_equal(r.compared, 2);
	assert_int_equal(r.violations, 0);
	assert_true(r.same == 100 && r.kernel.mean == 2 && r.simulated.mean == 2);
	assert_int_equal(r.simulated.highest, 1);
	replay(records, LENGTH(records), 3, &r, 0);
	assert_true(r.same == 50);
	assert_int_equal(r.kernel.highest, 3);
	replay(records + 1, LENGTH(records) - 1, 1, &r, -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits),    cmocka_unit_test(test_heap),
		cmocka_unit_test(test_events),  cmocka_unit_test(test_histories),
		cmocka_unit_test(test_shrinks), cmocka_unit_test(test_seeds),
		cmocka_unit_test(test_profile), cmocka_unit_test(test_replay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
