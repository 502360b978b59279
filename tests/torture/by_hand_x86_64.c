/* SPDX-License-Identifier: MIT */
/* A sequence that was written by hand, as programs without this library do: the cpu is read outside
 * and compared inside, and the descriptor is in a section of any name. near_torture passes it;
 * without the comparison, it reports the fault. */
#include <errno.h>
#include <nearcpu/torture.h>
#include <stdio.h>
#include <string.h>
#include <sys/rseq.h>

#define CPUS 8192
#define TRIES 10

static struct {
	uint64_t count;
} __attribute__((aligned(64))) counts[CPUS];
static uint64_t without, added;

static struct rseq *area(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

#define ADD(name, compare)                                                                         \
	__attribute__((noinline)) static bool name(uint32_t cpu)                                   \
	{                                                                                          \
		__asm__ volatile goto(                                                             \
			".pushsection .data.rel.ro.by_hand, \"aw\"\n\t"                            \
			".balign 32\n"                                                             \
			"3:\n\t"                                                                   \
			".long 0, 0\n\t"                                                           \
			".quad 1f, 2f - 1f, 4f\n\t"                                                \
			".popsection\n\t"                                                          \
			"leaq 3b(%%rip), %%rax\n\t"                                                \
			"movq %%rax, 8(%[area])\n"                                                 \
			"1:\n\t" compare "addq $1, (%[slot])\n"                                    \
			"2:\n\t"                                                                   \
			".pushsection .text.by_hand, \"ax\"\n\t"                                   \
			".byte 0x0f, 0xb9, 0x3d\n\t"                                               \
			".long 0x53053053\n"                                                       \
			"4:\n\t"                                                                   \
			"jmp %l[again]\n\t"                                                        \
			".popsection\n\t"                                                          \
			:                                                                          \
			: [area] "r"(area()), [cpu] "r"(cpu), [slot] "r"(&counts[cpu].count)       \
			: "memory", "cc", "rax"                                                    \
			: again);                                                                  \
		return true;                                                                       \
again:                                                                                             \
		return false;                                                                      \
	}
ADD(add, "cmpl %[cpu], 4(%[area])\n\tjnz %l[again]\n\t")
ADD(add_anywhere, "nop\n\t")

static uint32_t cpu_now(void)
{
	return __atomic_load_n(&area()->cpu_id, __ATOMIC_RELAXED);
}

static void setup(void *arg)
{
	memset(counts, 0, sizeof(counts));
	without = added = 0;
}

static void run(void *arg)
{
	added++;
	for (int i = 0; i < TRIES; i++) {
		uint32_t cpu = cpu_now(); /* CPUS and more: the registration was taken away */

		if (cpu < CPUS && add(cpu))
			return;
	}
	__atomic_fetch_add(&without, 1, __ATOMIC_RELAXED);
}

static void run_anywhere(void *arg)
{
	uint32_t cpu = cpu_now();

	added++;
	for (int i = 0; i < TRIES; i++)
		if (cpu < CPUS && add_anywhere(cpu))
			return;
	__atomic_fetch_add(&without, 1, __ATOMIC_RELAXED);
}

static const char *check(void *arg)
{
	uint64_t sum = without;

	for (unsigned i = 0; i < CPUS; i++)
		sum += counts[i].count;
	return sum == added ? NULL : "miscounted";
}

static const void *slot(void *arg, size_t *size)
{
	*size = sizeof(counts[0]);
	return &counts[cpu_now()];
}

static int failed(const char *what, const struct near_torture_result *r)
{
	fprintf(stderr, "%s: %u sequences, %lu aborts, %u aborts at most: %s\n", what, r->sequences,
		r->aborts, r->most_aborts, r->text);
	return 1;
}

static void ignore(void *arg, const char *failure)
{
}

int main(void)
{
	static const struct near_torture_rival rivals[] = {{"add", run, NULL, 0}};
	struct near_torture t = {.setup = setup,
				 .run = run,
				 .rivals = rivals,
				 .n_rivals = 1,
				 .check = check,
				 .slot = slot,
				 .report = ignore};
	struct near_torture_result r;
	int failures;

	if (__rseq_size == 0) {
		puts("skipped: the C library has not registered this thread");
		return 77;
	}
	failures = near_torture(&t, sizeof(t), &r, sizeof(r));
	if (failures == -ENOSYS) { /* the library was built for CPUs without sequences */
		printf("skipped: %s\n", r.text);
		return 77;
	}
	if (failures || r.sequences != 1 || r.most_aborts != TRIES || r.boundaries != 4)
		return failed("add", &r);
	t.run = run_anywhere;
	failures = near_torture(&t, sizeof(t), &r, sizeof(r));
	if (r.migrated && (failures <= 0 || !strstr(r.text, "changed the slot that the thread")))
		return failed("add_anywhere", &r);
	puts("proven, and disproven");
	return 0;
}
