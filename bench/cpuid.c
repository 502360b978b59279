/* SPDX-License-Identifier: MIT */
/* cpuid: the cost of reading the number of the current CPU.
 *
 * Each thread is bound to a CPU, and each way must name that CPU, before it is timed.
 */
#include "bench.h"

#include <nearcpu/rseq.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __x86_64__
#include <asm/prctl.h>
#include <cpuid.h>
#endif

#define INLINE static inline __attribute__((always_inline))

INLINE void read_cpu(struct bench_thread *t, unsigned (*cpu)(void))
{
	for (uint64_t i = 0; i < t->iterations; i++)
		BENCH_USE(cpu());
}

static const char *bind_and_compare(struct bench_thread *t, unsigned (*cpu)(void))
{
	static char text[96];
	unsigned bound = bench_allowed_cpu(t->index);

	if (bench_pin(bound))
		return "a thread cannot be bound to a CPU";
	if (cpu() == bound)
		return NULL;
	snprintf(text, sizeof(text), "wrong result: names CPU %u while bound to CPU %u", cpu(),
		 bound);
	return text;
}

#define CPUID_ROW(kind)                                                                            \
	static void work_##kind(struct bench_thread *t) { read_cpu(t, cpu_##kind); }               \
	static const char *prepare_##kind(struct bench_thread *t)                                  \
	{                                                                                          \
		return bind_and_compare(t, cpu_##kind);                                            \
	}
#define ROW_OF(kind) .prepare = prepare_##kind, .work = work_##kind

BENCH_WORK(work_empty, BENCH_USE(0))

INLINE unsigned cpu_near(void) { return near_cpu(); }
CPUID_ROW(near)

INLINE unsigned cpu_sched(void) { return (unsigned)sched_getcpu(); }
CPUID_ROW(sched)

INLINE unsigned cpu_syscall(void)
{
	unsigned cpu = 0;

	syscall(SYS_getcpu, &cpu, NULL, NULL);
	return cpu;
}
CPUID_ROW(syscall)

#ifdef __x86_64__
/* Linux keeps (node << 12 | cpu) as the limit of this segment and in the TSC_AUX register. */
#define CPU_SEGMENT 0x7b
#define CPU_MASK 0xfff

INLINE unsigned cpu_lsl(void)
{
	unsigned value;

	__asm__ volatile("lsl %1, %0" : "=r"(value) : "r"(CPU_SEGMENT) : "cc");
	return value & CPU_MASK;
}
CPUID_ROW(lsl)

INLINE unsigned cpu_rdpid(void)
{
	unsigned long value;

	/* By its bytes (rdpid %rax), for assemblers that do not know it. */
	__asm__ volatile(".byte 0xf3, 0x0f, 0xc7, 0xf8" : "=a"(value));
	return value & CPU_MASK;
}
CPUID_ROW(rdpid)

static const char *missing_rdpid(void)
{
	unsigned a, b, c = 0, d;

	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 22))
		return NULL;
	return "this CPU has no rdpid";
}

INLINE unsigned cpu_rdtscp(void)
{
	unsigned low, high, aux;

	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux));
	return aux & CPU_MASK;
}
CPUID_ROW(rdtscp)

static const char *missing_rdtscp(void)
{
	unsigned a, b, c, d = 0;

	if (__get_cpuid(0x80000001, &a, &b, &c, &d) && (d & 1u << 27))
		return NULL;
	return "this CPU has no rdtscp";
}

/* What a kernel that kept the CPU number in a user's gs segment would offer: the cost of the
 * load. The word is ours and holds the CPU that the thread is bound to. */
static __thread unsigned gs_word;

INLINE unsigned cpu_gs(void)
{
	unsigned value;

	__asm__ volatile("movl %%gs:0, %0" : "=r"(value));
	return value;
}

static void work_gs(struct bench_thread *t) { read_cpu(t, cpu_gs); }

static const char *prepare_gs(struct bench_thread *t)
{
	gs_word = bench_allowed_cpu(t->index);
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, &gs_word))
		return "the gs segment cannot be set";
	return bind_and_compare(t, cpu_gs);
}
#endif

static const struct bench_row rows[] = {
	{"empty", "empty loop", BENCH_YARDSTICK, .work = work_empty},
	{"near", "nearcpu, near_cpu()", BENCH_LIVE, ROW_OF(near)},
	{"near-lazy", "nearcpu, own area", BENCH_OURS, .tunables = "glibc.pthread.rseq=0",
	 .missing = bench_needs_own_area, ROW_OF(near)},
	{"near-off", "nearcpu, rseq off", BENCH_OFF, ROW_OF(near)},
	{"sched", "sched_getcpu", ROW_OF(sched)},
	{"sched-vdso", "sched_getcpu (vDSO)", .tunables = "glibc.pthread.rseq=0", ROW_OF(sched)},
#ifdef __x86_64__
	{"lsl", "lsl", ROW_OF(lsl)},
	{"rdpid", "rdpid", .missing = missing_rdpid, ROW_OF(rdpid)},
	{"rdtscp", "rdtscp", .missing = missing_rdtscp, ROW_OF(rdtscp)},
	{"gs", "load from the gs segment", BENCH_YARDSTICK, .prepare = prepare_gs, .work = work_gs},
#endif
	{"syscall", "getcpu system call", ROW_OF(syscall)},
};

BENCH(bench_cpuid, "cpuid", NULL, "Reading the CPU number", "a question",
      "One thread reads the number of its CPU. Own area: glibc's registration is switched off "
      "and the library registers the thread itself, on its first use. The load from the gs "
      "segment reads a word of our own: it shows what a segment-based interface would cost.",
      rows,
      BENCH_FIGURES({"near_cpu() above the empty loop", "near", "empty", .difference = true,
		     .goal = 0.4}),
      .base = "empty", .threads = 1, .core = true);
